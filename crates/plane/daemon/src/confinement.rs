//! What each thread of the daemon may still do once it has begun its work.
//!
//! | thread | keeps |
//! |---|---|
//! | event loop | BPF map elements, CPUs and signals of programs that share cores, reading /proc and /sys, the admin socket's file |
//! | attach server | descriptors and memory for programs, netlink, guards of ports, BPF map elements, which BPF programs control groups have, reading /proc, its socket's file |
//! | workers, closers, log, signals | memory and the descriptors that they have |
//! | asking what programs have passed | options and addresses of these sockets, sockets in their place, guards of their ports |
//! | ports | sockets of AF_XDP and packets, links of XDP programs, netlink, for interfaces that come back; BPF map elements, for link addresses that change |
//! | log, to the journal | the same, and messages |
//! | reload | reading the configuration's folder, and /etc for its users |
//! | admin | taking connections and starting a thread for each, its socket's file |
//! | clients of admin | the connection that they have |
//! | service | messages to the service manager |
//! | the guardian, another process | repair of TCP connections, their owners and ports, BPF map elements, the end of a daemon that hangs |
//! | the process that looks for open sockets | descriptors of other processes, and nothing else |
//!
//! No thread opens other files, executes, traces or loads programs, and none but `ports` makes raw
//! sockets. What needs more is done before: ports are open, programs and maps are loaded.

use std::path::PathBuf;
use std::sync::OnceLock;

use confine::{Calls, Confined, Rights};
use sys::SysError;
use sys::capability::Capability;

/// Folders of the sockets that the daemon listens on; not set: nothing is confined.
static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// The folder of the configuration's file.
static CONFIGURATION: OnceLock<String> = OnceLock::new();

/// Where /etc/passwd and /etc/subuid are.
pub(crate) const FOLDER_OF_USERS: &str = "/etc";

/// What a thread is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    EventLoop,
    AttachServer,
    Worker,
    Closer,
    Aside,
    Ports,
    Admin,
    AdminClient,
    Log,
    /// The log, if it goes to systemd's journal.
    Journal,
    Signals,
    Reload,
    Service,
    /// Of another process: see `open_sockets.rs`.
    Looker,
    /// Of another process: see `guardian.rs`.
    Guardian,
}

/// From now on threads that [`enter`] are confined; sockets' files are in `folders`, and the
/// configuration's in `configuration`.
pub(crate) fn begin(folders: &[PathBuf], configuration: Option<PathBuf>) {
    if let Some(folder) = configuration.as_ref().and_then(|folder| folder.to_str()) {
        let _ = CONFIGURATION.set(folder.to_owned());
    }
    let _ = FOLDERS.set(folders.to_vec());
}

/// Leaves the calling thread what its work needs, for good. Nothing happens unless confinement has
/// [begun](begin).
///
/// # Errors
/// What the kernel refused. The thread must not go on: it may have less than it needs.
pub(crate) fn enter(role: Role) -> Result<Option<Confined>, SysError> {
    let Some(folders) = FOLDERS.get() else { return Ok(None) };
    let folders: Vec<_> = folders.iter().map(PathBuf::as_path).collect();
    let configuration = CONFIGURATION.get().map_or("/etc/calisto", String::as_str);
    let rights = match role {
        Role::Reload => &Rights { reads: &reads_of_reload(configuration), ..role.rights() },
        role => &Rights { replaces: role.replaces(&folders), ..role.rights() },
    };
    confine::enter(rights).map(Some)
}

/// The same for a thread that has nobody to tell: when it cannot be confined, the daemon ends.
/// Whether the thread may go on.
pub(crate) fn is_entered(role: Role) -> bool {
    match enter(role) {
        Ok(_) => true,
        Err(error) => {
            // Not by the log: its own thread may be the one.
            eprintln!("calistod: {error}; the daemon ends: `confine = false` starts it unconfined");
            sys::signal::request_stop();
            false
        }
    }
}

/// What the thread reads that reads the configuration, in which users may be named. A right to
/// /etc/passwd or /etc/subuid alone would end when the next user is added, which puts another file
/// in its place.
pub(crate) fn reads_of_reload(configuration: &str) -> [&str; 2] {
    [configuration, FOLDER_OF_USERS]
}

impl Role {
    fn rights(self) -> Rights<'static> {
        use Calls::{
            Accepting, Descriptors, Ending, Files, MapElements, Messages, ProgramQueries,
            Replacing, Scheduling, Sharing, Sockets, Threads, Waiting,
        };
        match self {
            Self::EventLoop => Rights {
                // CAP_BPF: kernels before 5.19 ask for it at every bpf(2).
                capabilities: &[Capability::Bpf, Capability::SysNice, Capability::Kill],
                calls: &[
                    Accepting,
                    Files,
                    MapElements,
                    Messages,
                    Replacing,
                    Scheduling,
                    Threads,
                    Waiting,
                ],
                reads: &["/proc", "/sys"],
                reaches_out: true,
                ..Rights::NOTHING
            },
            Self::AttachServer => Rights {
                // CAP_CHOWN: a connection's socket in the kernel is its user's.
                capabilities: &[
                    Capability::Bpf,
                    Capability::Chown,
                    Capability::NetAdmin,
                    Capability::NetBindService,
                ],
                calls: &[
                    Accepting,
                    Files,
                    MapElements,
                    Messages,
                    ProgramQueries,
                    Replacing,
                    Sharing,
                    Sockets,
                    Threads,
                    Waiting,
                ],
                reads: &["/proc"],
                reaches_out: true,
                ..Rights::NOTHING
            },
            // Transmits of a worker are the event loop's; it wakes programs by descriptors that it
            // has.
            Self::Worker => Rights { calls: &[Waiting], ..Rights::NOTHING },
            Self::Signals => Rights { calls: &[Waiting], ..Rights::NOTHING },
            Self::Reload => Rights { calls: &[Files], ..Rights::NOTHING },
            Self::Service | Self::Journal => Rights { calls: &[Messages], ..Rights::NOTHING },
            Self::Closer | Self::Log => Rights::NOTHING,
            Self::Aside => Rights {
                // As who has it ask: for sockets in the place of a user's, and guards of its ports.
                capabilities: &[
                    Capability::Chown,
                    Capability::NetAdmin,
                    Capability::NetBindService,
                ],
                calls: &[Messages, Sharing, Sockets],
                reaches_out: true,
                ..Rights::NOTHING
            },
            Self::Ports => Rights {
                capabilities: &[
                    Capability::Bpf,
                    Capability::IpcLock,
                    Capability::NetAdmin,
                    Capability::NetRaw,
                ],
                calls: &[Files, MapElements, Messages, Calls::Ports, Sockets, Waiting],
                reads: &["/proc", "/sys"],
                ..Rights::NOTHING
            },
            Self::Admin => Rights {
                calls: &[Accepting, Files, Messages, Replacing, Sockets, Threads],
                ..Rights::NOTHING
            },
            Self::AdminClient => Rights { calls: &[Messages], ..Rights::NOTHING },
            Self::Guardian => Rights {
                // CAP_CHOWN: a connection's socket in the kernel is its user's.
                capabilities: &[
                    Capability::Bpf,
                    Capability::Chown,
                    Capability::NetAdmin,
                    Capability::NetBindService,
                ],
                calls: &[Ending, Files, MapElements, Messages, Sharing, Sockets, Threads],
                reads: &["/proc"],
                reaches_out: true,
                ..Rights::NOTHING
            },
            Self::Looker => Rights {
                // The list of another user's descriptors is a folder of its.
                capabilities: &[Capability::DacReadSearch, Capability::SysPtrace],
                calls: &[Descriptors, Files, Messages, Threads],
                traces: true,
                ..Rights::NOTHING
            },
        }
    }

    /// Of the sockets' folders, those whose files it replaces.
    fn replaces<'a>(self, folders: &'a [&'a std::path::Path]) -> &'a [&'a std::path::Path] {
        match self {
            Self::EventLoop | Self::AttachServer | Self::Admin => folders,
            _ => &[],
        }
    }
}
