//! The admin socket: each client has a thread of a pool, and one question at a time is answered by
//! the loop.
//!
//! Nothing that a client sends is trusted: lines have a largest length, clients a largest number,
//! and a client that is slow or silent keeps only its own thread waiting. Parsing and printing of
//! large tables happens here, not in the loop.

use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use admin::{Command, Reply, ReplyBody, Request};
use policy::{Entry, table_text};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::admin_clients::{CLIENTS_MAX, ClientId, Clients};
use crate::ask::{ANSWER_MAX, Asks, Question};
use crate::capture;
use crate::confinement::{self, Role};
use crate::failure::Failure;
use crate::folder;
use crate::log;
use crate::named_app::NamedApp;
use crate::outside::Proposal;
use crate::request_lines::{LongLine, RequestLines};
use crate::stream;
use crate::thread_pool::{PoolConfig, ThreadPool};

/// The socket's file, removed when this drops.
pub(crate) struct Server {
    path: String,
    clients: Clients,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.clients.await_answers();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens on `path` and answers clients on threads of their own.
pub(crate) fn serve(path: &str, asks: Asks) -> Result<Server, Failure> {
    let failed = |error: std::io::Error| Failure::Socket(path.to_owned(), error.to_string());
    folder::make_for(Path::new(path)).map_err(failed)?;
    if UnixStream::connect(path).is_ok() {
        let why = "a daemon answers there already; stop it with `calisto down`, or give this one \
                   another path with --admin";
        return Err(Failure::Socket(path.to_owned(), why.to_owned()));
    }
    match std::fs::symlink_metadata(path) {
        // A socket that nobody answers is left over from a daemon that was killed.
        Ok(file) if is_socket(&file) => std::fs::remove_file(path).map_err(failed)?,
        Ok(_) => {
            let why = "there is a file of that name that is no socket; choose another path";
            return Err(Failure::Socket(path.to_owned(), why.to_owned()));
        }
        Err(_) => {}
    }
    // Read here: the thread of the socket may not ask for it.
    let own = rustix::process::geteuid().as_raw();
    let mut listener = Listener::bind(path, own).map_err(failed)?;
    let clients = Clients::default();
    let entered = clients.clone();
    std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || {
            if confinement::is_entered(Role::Admin) {
                accept(&mut listener, &asks, &entered);
            }
        })
        .map_err(failed)?;
    Ok(Server { path: path.to_owned(), clients })
}

/// The socket, and its file as it was made: one that somebody has removed is made anew.
struct Listener {
    socket: UnixListener,
    path: String,
    /// Device and inode. The socket keeps the inode, so that it is nobody else's meanwhile.
    file: Option<(u64, u64)>,
    /// The daemon's user.
    own: u32,
    has_complained: bool,
}

/// Threads for clients: those that have lost their place need theirs a moment longer.
const THREADS_MAX: usize = 2 * CLIENTS_MAX;

/// Callers that wait to be taken, at most.
const BACKLOG: i32 = 128;

/// Time between two looks whether the file is there.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl Listener {
    fn bind(path: &str, own: u32) -> std::io::Result<Self> {
        // Its callers can be gone before they are taken.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Nobody can connect before it listens, so nobody comes in by the mode of the umask.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        rustix::net::listen(&socket, BACKLOG)?;
        let (socket, file) = (UnixListener::from(socket), identity(path));
        Ok(Self { socket, path: path.to_owned(), file, own, has_complained: false })
    }

    /// The next caller; nothing after a while.
    fn accept(&self) -> std::io::Result<Option<UnixStream>> {
        if !sys::poll::wait_readable(self.socket.as_fd(), LOOK_EVERY.into()) {
            return Ok(None);
        }
        match self.socket.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the file anew if it is gone; one that is somebody else's is left alone.
    fn look(&mut self) {
        if identity(&self.path) == self.file {
            self.has_complained = false;
            return;
        }
        match Self::bind(&self.path, self.own) {
            Ok(anew) => {
                let path = &self.path;
                tracing::warn!(target: log::ADMIN, path, "it was removed, and is made anew");
                *self = anew;
            }
            Err(error) if !self.has_complained => {
                self.has_complained = true;
                let path = &self.path;
                tracing::warn!(target: log::ADMIN, path, "it is gone: no operator finds us; {error}");
            }
            Err(_) => {}
        }
    }
}

fn identity(path: &str) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn is_socket(file: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.file_type().is_socket()
}

/// Whether whoever connected is root or the daemon's own user. The file's mode says so, too, and
/// somebody may change that.
fn is_operator(stream: &UnixStream, own: u32) -> bool {
    sys::unix_socket::peer_credentials(stream.as_fd()).is_ok_and(|who| [0, own].contains(&who.uid))
}

fn accept(listener: &mut Listener, asks: &Asks, clients: &Clients) {
    let threads = ThreadPool::new(PoolConfig {
        name: "admin-client",
        role: Role::AdminClient,
        threads_max: THREADS_MAX,
        idle_max: CLIENTS_MAX,
    });
    let long = LongLine::default();
    let mut looked = Instant::now();
    for number in 0.. {
        if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            listener.look();
        }
        let entered = listener.accept().and_then(|came| {
            came.map(|stream| Ok((ClientId(number), stream.try_clone()?, stream))).transpose()
        });
        let (client, handle, mut stream) = match entered {
            Ok(Some(entered)) => entered,
            Ok(None) => continue,
            // Out of descriptors, most likely: others will close theirs.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        if !is_operator(&stream, listener.own) {
            let _ = respond(&mut stream, error("only root and the daemon's own user may ask"));
            continue;
        }
        if !clients.enter(client, handle, Instant::now()) {
            let _ = respond(
                &mut stream,
                error(&format!(
                    "{CLIENTS_MAX} clients are being answered, which is the most: try again in a \
                     second, or end one"
                )),
            );
            continue;
        }
        let leaves = Leaves { clients: clients.clone(), asks: asks.clone(), client };
        let long = long.clone();
        // Without a thread it is dropped, and has left.
        let _ = threads.run(move || {
            let _ = answer_lines(&mut stream, &leaves.asks, client, &leaves.clients, long);
        });
    }
}

/// A client that leaves when this drops, however its thread ends.
struct Leaves {
    clients: Clients,
    asks: Asks,
    client: ClientId,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.clients.leave(self.client);
        self.asks.gone(self.client);
    }
}

fn answer_lines(
    stream: &mut UnixStream,
    asks: &Asks,
    client: ClientId,
    clients: &Clients,
    long: LongLine,
) -> std::io::Result<()> {
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let mut lines = RequestLines::new(stream, long)?;
    loop {
        let line = match lines.next() {
            Ok(line) if line.is_empty() => return Ok(()),
            Ok(line) => line,
            Err(why) => return respond(stream, error(why)),
        };
        if !clients.begin(client) {
            return Ok(());
        }
        let request = match read_request(&line) {
            Ok(request) => request,
            Err(wrong) => {
                respond(stream, error(&wrong))?;
                clients.end(client, Instant::now());
                continue;
            }
        };
        match request.command {
            Command::Watch { every_us, load } => {
                return stream::watch(stream, asks, request.app, every_us, load);
            }
            Command::Record { seconds } => {
                return stream::record(stream, asks, request.app, seconds);
            }
            Command::Trace { one_in } => {
                return stream::trace(stream, asks, client, request.app, one_in);
            }
            Command::Capture(capture) => {
                return capture::serve(stream, asks, request.app, capture);
            }
            _ => {
                let _answering = clients.answering();
                respond(stream, answer(request, asks, client))?;
            }
        }
        clients.end(client, Instant::now());
    }
}

fn read_request(line: &str) -> Result<Request, String> {
    let request: Request = admin::decode(line).map_err(|wrong| wrong.to_string())?;
    request.check().map_err(|wrong| wrong.to_string())?;
    let (command, app) = (request.command.name(), request.app.as_deref());
    tracing::debug!(target: log::ADMIN, command, app, "an operator asks");
    Ok(request)
}

fn answer(request: Request, asks: &Asks, client: ClientId) -> ReplyBody {
    match request.command {
        Command::SteerLoad { table } => match table_text::import(&table) {
            Ok(entries) => load(entries, request.app, asks),
            Err(wrong) => error(&wrong.to_string()),
        },
        Command::Plan { moves, place, lease_ms } => {
            let proposal = Proposal { moves, place, lease_ms };
            asks.ask(Question::Propose(request.app, proposal, client))
        }
        Command::Sockets { .. } | Command::Fallbacks => {
            asks.ask_attach_server(request.command, request.app)
        }
        Command::Detach => detach(request, asks),
        Command::Apps => apps(request, asks),
        Command::Reload => asks.reload(),
        Command::Log { target, level } => log::answer(target.as_deref(), level.as_deref()),
        _ => asks.ask(Question::Request(request)),
    }
}

/// Applications in packet mode are the loop's, programs with sockets the attach server's: who asks
/// need not know which of the two one is, unless the word fits several.
fn detach(request: Request, asks: &Asks) -> ReplyBody {
    let attached = match apps(Request::new(Command::Apps), asks) {
        ReplyBody::Apps { apps } => apps,
        other => return other,
    };
    match NamedApp::find(&attached, request.app.as_deref().unwrap_or_default()) {
        Ok(NamedApp::InPacketMode(number)) => {
            asks.ask(Question::Request(Request::about(&number.to_string(), Command::Detach)))
        }
        Ok(NamedApp::BySockets(number)) => {
            asks.ask_attach_server(Command::Detach, Some(number.to_string()))
        }
        Err(why) => error(&why),
    }
}

/// The list of both kinds: those that are attached first, whichever they are.
fn apps(request: Request, asks: &Asks) -> ReplyBody {
    match asks.ask(Question::Request(request)) {
        ReplyBody::Apps { apps: in_packet_mode } => {
            let mut apps = match asks.ask_attach_server(Command::Apps, None) {
                ReplyBody::Apps { apps } => apps,
                // It serves none.
                _ => Vec::new(),
            };
            apps.extend(in_packet_mode);
            // Stable: those of one state stay in order.
            apps.sort_by_key(|app| app.state == "gone");
            ReplyBody::Apps { apps }
        }
        other => other,
    }
}

/// A table of a million owners is looked through here, not in the loop.
fn load(owners: Vec<Entry>, app: Option<String>, asks: &Asks) -> ReplyBody {
    let checked = asks.workers(app.clone()).and_then(|active| {
        policy::check_owners(&owners, &active).map_err(|refused| refused.to_string())
    });
    match checked {
        Ok(()) => asks.ask(Question::Load(app, owners)),
        Err(why) => error(&why),
    }
}

pub(crate) fn respond(stream: &mut UnixStream, body: ReplyBody) -> std::io::Result<()> {
    let line = admin::encode(&Reply::new(body)).map_err(std::io::Error::other)?;
    stream.write_all(line.as_bytes())
}

pub(crate) fn error(message: &str) -> ReplyBody {
    ReplyBody::Error { message: message.to_owned() }
}
