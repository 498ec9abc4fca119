//! What an application asks for.

use std::path::PathBuf;
use std::time::Duration;

use attach::{AttachRequest, CoresRequest};

/// The environment variable that names the folder of all sockets: the daemon's two, and those of
/// chains of network functions.
pub const FOLDER_VARIABLE: &str = "CALISTO_DIR";

/// That folder where the variable is not set.
pub const DEFAULT_FOLDER: &str = "/run/calisto";

/// The environment variable that names the daemon's socket for applications, if it is not
/// `apps.sock` in the folder of all sockets.
pub const SOCKET_VARIABLE: &str = "CALISTO_APPS";

/// The folder of all sockets: what `CALISTO_DIR` says, or `/run/calisto`.
#[must_use]
pub fn folder() -> PathBuf {
    variable(FOLDER_VARIABLE).unwrap_or_else(|| DEFAULT_FOLDER.into())
}

/// The daemon's socket for applications where a program names none: what `CALISTO_APPS` says, or
/// `apps.sock` in [`folder`].
#[must_use]
pub fn default_socket() -> PathBuf {
    variable(SOCKET_VARIABLE).unwrap_or_else(|| folder().join("apps.sock"))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// What an application asks for; by default one worker, nothing to listen on, and no waiting.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    pub(crate) socket: Option<PathBuf>,
    pub(crate) wait: Duration,
    pub(crate) request: AttachRequest,
}

impl AttachOptions {
    /// Options of an application called `name`: 1 to 32 letters, digits, `-`, `_` and `.`.
    pub fn new(name: impl Into<String>) -> Self {
        let request = AttachRequest {
            name: name.into(),
            listen: Vec::new(),
            workers: 1,
            frames: None,
            frame_bytes: None,
            cores: None,
            features: 0,
        };
        Self { socket: None, wait: Duration::ZERO, request }
    }

    /// The daemon's socket; if not given, that of [`default_socket`].
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// One more address whose packets it wants, such as `udp:10.0.0.2:53`.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.request.listen.push(address.into());
        self
    }

    /// Workers, 1 to 64: one for each thread that is to work.
    #[must_use]
    pub fn workers(mut self, workers: u32) -> Self {
        self.request.workers = workers;
        self
    }

    /// Buffers for received packets, all workers together; the daemon's default if not given. This
    /// is how many packets can be with the application at once.
    #[must_use]
    pub fn frames(mut self, frames: u32) -> Self {
        self.request.frames = Some(frames);
        self
    }

    /// Bytes of a buffer, 2048 or 4096; the daemon's default if not given.
    #[must_use]
    pub fn frame_bytes(mut self, bytes: u32) -> Self {
        self.request.frame_bytes = Some(bytes);
        self
    }

    /// Its workers run on cores that the daemon grants and takes back as load moves: see
    /// [`crate::Worker::wait`]. Needs a daemon that has cores to give (`cores.set`).
    #[must_use]
    pub fn cores(mut self, cores: CoresRequest) -> Self {
        self.request.cores = Some(cores);
        self
    }

    /// How long to go on trying while there is no daemon yet, or again.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(default_socket)
    }
}
