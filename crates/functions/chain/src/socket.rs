//! The socket of a running chain: whoever connects gets all figures as one line of JSON.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::ChainError;
use crate::figures::Figures;

/// Bytes of an answer that are believed.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// A client that does not read keeps the control thread waiting for this long at most.
const TIMEOUT: Duration = Duration::from_millis(200);

/// How long a client waits for a chain that loads a table at that moment.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The socket of the chain of that name.
pub fn path_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

/// A listening socket; its file goes when this drops.
#[derive(Debug)]
pub struct FigureSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl FigureSocket {
    /// Listens at `path`, for root and whoever started the chain only.
    ///
    /// # Errors
    /// Another chain answers there, or the folder cannot be written.
    pub fn listen(path: &Path) -> Result<Self, ChainError> {
        let failed = |why: String| ChainError::Socket { path: path.display().to_string(), why };
        let refused = |error: io::Error| {
            failed(format!("{error}; run as root, or choose another folder with --sockets"))
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(refused)?;
        }
        if UnixStream::connect(path).is_ok() {
            let why = "a chain of that name runs already: end it, or give this one another name";
            return Err(failed(why.to_owned()));
        }
        match std::fs::symlink_metadata(path) {
            // A socket that nobody answers is left over from a chain that was killed.
            Ok(file) if file.file_type().is_socket() => {
                std::fs::remove_file(path).map_err(refused)?;
            }
            Ok(_) => {
                return Err(failed("there is a file of that name that is no socket".to_owned()));
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(refused)?;
        let socket = Self { listener, path: path.to_owned() };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(refused)?;
        socket.listener.set_nonblocking(true).map_err(refused)?;
        Ok(socket)
    }

    /// Answers every client that has connected.
    pub fn answer(&self, mut figures: impl FnMut() -> Figures) {
        // Bounded, so that a swarm of clients does not keep the tables from their changes.
        for _ in 0..16 {
            let Ok((stream, _)) = self.listener.accept() else { return };
            // Whoever went away meanwhile wants no answer.
            let _ = send(stream, &figures());
        }
    }
}

fn send(mut stream: UnixStream, figures: &Figures) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut line = serde_json::to_vec(figures).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}

impl Drop for FigureSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl AsFd for FigureSocket {
    /// Readable when somebody wants figures.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// The figures of the chain whose socket is at `path`.
///
/// # Errors
/// Nobody answers there; the text says what to do.
pub fn ask(path: &Path) -> Result<Figures, ChainError> {
    let failed = |why: String| ChainError::Socket { path: path.display().to_string(), why };
    let mut stream = UnixStream::connect(path).map_err(|error| {
        failed(match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "no chain of that name runs: start one with `calisto nf run FILE`".to_owned()
            }
            io::ErrorKind::PermissionDenied => {
                "it may not be used by you: run this as root or as who started the chain".to_owned()
            }
            _ => error.to_string(),
        })
    })?;
    let broken = |error: io::Error| failed(format!("the answer did not come: {error}; ask again"));
    stream.set_read_timeout(Some(CLIENT_TIMEOUT)).map_err(broken)?;
    let mut answer = Vec::new();
    (&mut stream).take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(broken)?;
    serde_json::from_slice(&answer).map_err(|error| {
        failed(format!("the answer is of no use ({error}): use the calisto that came with it"))
    })
}

/// The sockets of all chains in `folder`, by name.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::SCHEMA_VERSION;

    fn figures() -> Figures {
        Figures {
            schema_version: SCHEMA_VERSION,
            name: "edge".to_owned(),
            pid: 7,
            uptime_seconds: 1.5,
            slices: Vec::new(),
            router: None,
            hook: crate::figures::HookFigures::default(),
        }
    }

    fn folder(test: &str) -> PathBuf {
        let name = format!("calisto-chain-{}-{test}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn who_connects_gets_the_figures_and_the_file_goes_with_the_chain() {
        let folder = folder("asks");
        let path = path_of(&folder, "edge");
        let socket = FigureSocket::listen(&path).expect("the folder is ours");
        assert_eq!(list(&folder), std::slice::from_ref(&path));
        let asking = {
            let path = path.clone();
            std::thread::spawn(move || ask(&path))
        };
        assert!(sys::poll::wait_readable(socket.as_fd(), base::Nanos::from_secs(10)));
        socket.answer(figures);
        assert_eq!(asking.join().expect("it does not panic"), Ok(figures()));
        let again = FigureSocket::listen(&path).expect_err("the name is taken").to_string();
        assert!(again.contains("runs already"), "{again}");
        drop(socket);
        assert_eq!(list(&folder), Vec::<PathBuf>::new());
        let nobody = ask(&path).expect_err("nobody is there").to_string();
        assert!(nobody.contains("calisto nf run"), "{nobody}");
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_a_file_is_not() {
        let folder = folder("left");
        std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
        let path = path_of(&folder, "edge");
        drop(UnixListener::bind(&path).expect("the folder is new"));
        drop(FigureSocket::listen(&path).expect("nobody answers there"));
        std::fs::write(&path, "precious").expect("the folder is ours");
        let refused = FigureSocket::listen(&path).expect_err("it is a file").to_string();
        assert!(refused.contains("no socket"), "{refused}");
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn an_answer_that_is_no_figures_is_said_to_be_of_no_use() {
        let folder = folder("nonsense");
        std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
        let path = path_of(&folder, "edge");
        let listener = UnixListener::bind(&path).expect("the folder is new");
        let liar = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            stream.write_all(b"{\"schema_version\":1").expect("it listens");
        });
        let said = ask(&path).expect_err("it is cut").to_string();
        assert!(said.contains("of no use"), "{said}");
        liar.join().expect("it does not panic");
        let _ = std::fs::remove_dir_all(&folder);
    }
}
