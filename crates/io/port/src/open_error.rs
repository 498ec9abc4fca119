//! Why a port could not be opened, as one sentence with what to do.

use std::fmt;

use rustix::io::Errno;
use sys::SysError;
use sys::capability::{self, Capability};

/// The largest chunk that an aligned AF_XDP memory area may have: a page.
const CHUNK_BYTES_MAX: u32 = 4096;

/// Why a port could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A system call failed; the sentence is its own.
    Sys(SysError),
    /// The process may not do it.
    MissingRights {
        /// What was being done.
        doing: String,
        /// The capabilities that it needs and we lack; empty when we seem to have them.
        missing: Vec<Capability>,
    },
    /// Another program has this queue.
    Busy {
        /// The interface.
        interface: String,
        /// Its queue.
        queue: u16,
    },
    /// Another XDP program is attached.
    OtherProgram {
        /// The interface.
        interface: String,
        /// The other program, when the kernel told.
        program_id: Option<u32>,
    },
    /// The interface has no such queue.
    NoQueue {
        /// The interface.
        interface: String,
        /// What was asked for.
        queue: u16,
        /// How many it uses.
        queues: u32,
    },
    /// A packet of the interface's MTU does not fit into a frame.
    MtuTooLarge {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: u32,
        /// The largest that works.
        max: u32,
        /// Bytes of the chunks of the pool.
        chunk_bytes: u32,
    },
    /// Native mode was asked for and the driver refused it.
    NoNativeMode {
        /// The interface.
        interface: String,
        /// What the driver said.
        errno: Errno,
    },
    /// Zero copy was asked for and the driver refused it.
    NoZeroCopy {
        /// The interface.
        interface: String,
        /// What the driver said.
        errno: Errno,
    },
    /// The locked-memory limit is too small for the frames.
    LockedMemory {
        /// Bytes of all frames.
        bytes: usize,
        /// The limit.
        limit: Option<u64>,
    },
    /// Two ports of one UMEM must use the pool that it was made of.
    OtherPool,
    /// A setting is outside of what is possible.
    Setting(String),
    /// A capture file cannot be used.
    File {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

impl OpenError {
    /// `errno` of `doing`, as missing rights where it says so.
    pub(crate) fn of(
        doing: impl Into<String>,
        errno: Errno,
        needs: &[Capability],
        advice: &'static str,
    ) -> Self {
        let doing = doing.into();
        match errno {
            Errno::PERM | Errno::ACCESS => {
                Self::MissingRights { doing, missing: capability::missing(needs) }
            }
            errno => Self::Sys(SysError::new(doing, errno, advice)),
        }
    }
}

impl From<SysError> for OpenError {
    fn from(error: SysError) -> Self {
        Self::Sys(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sys(error) => error.fmt(f),
            Self::MissingRights { doing, missing } if missing.is_empty() => write!(
                f,
                "cannot {doing}: not permitted; start as root in the network namespace's own \
                 user namespace"
            ),
            Self::MissingRights { doing, missing } => {
                let names = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                write!(f, "cannot {doing}: {names} missing; start as root or grant them")
            }
            Self::Busy { interface, queue } => write!(
                f,
                "queue {queue} of {interface} is in use by another AF_XDP socket (of another \
                 program, or of this one not yet closed); end that program or choose another queue"
            ),
            Self::OtherProgram { interface, program_id } => {
                write!(f, "another XDP program ")?;
                if let Some(id) = program_id {
                    write!(f, "(id {id}) ")?;
                }
                write!(
                    f,
                    "is attached to {interface}; end the program that attached it, or remove it \
                     with `ip link set dev {interface} xdp off`"
                )
            }
            Self::NoQueue { interface, queue, queues } => write!(
                f,
                "{interface} has no queue {queue}: it uses {queues}, counted from 0; choose a \
                 smaller one or add queues with `ethtool -L {interface}`"
            ),
            Self::MtuTooLarge { interface, mtu, max, chunk_bytes } => {
                let way_out = match chunk_bytes {
                    ..CHUNK_BYTES_MAX => " or use larger frames (`frames.bytes`)",
                    _ => "; there are no larger frames",
                };
                write!(
                    f,
                    "the MTU of {interface} is {mtu}, and frames of {chunk_bytes} bytes allow {max}; \
                     lower it with `ip link set dev {interface} mtu {max}`{way_out}"
                )
            }
            Self::NoNativeMode { interface, errno } => write!(
                f,
                "the driver of {interface} refuses native XDP: {errno}; leave out mode=native, \
                 and check its MTU and queues"
            ),
            Self::NoZeroCopy { interface, errno } => write!(
                f,
                "the driver of {interface} refuses zero copy: {errno}; leave out `zerocopy`"
            ),
            Self::LockedMemory { bytes, limit } => {
                write!(f, "cannot lock {bytes} bytes of frames: the limit is ")?;
                match limit {
                    Some(limit) => write!(f, "{limit} bytes")?,
                    None => write!(f, "not set, so memory is short")?,
                }
                write!(f, "; raise it (ulimit -l), grant CAP_IPC_LOCK, or use fewer frames")
            }
            Self::OtherPool => f.write_str(
                "the ports of one UMEM must all use the pool that it was made of: report this",
            ),
            Self::Setting(sentence) => f.write_str(sentence),
            Self::File { path, reason } => write!(f, "capture file {path}: {reason}"),
        }
    }
}

impl std::error::Error for OpenError {}
