//! What an application asks for.

use std::path::PathBuf;
use std::time::Duration;

use attach::{AttachRequest, CoresRequest};

/// The environment variable that names the daemon's socket for applications.
pub const SOCKET_VARIABLE: &str = "CALISTO_APPS";

/// Where the daemon listens unless it is told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/calisto/apps.sock";

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

    /// The daemon's socket; if not given, what CALISTO_APPS says, or else
    /// `/run/calisto/apps.sock`.
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
        let named = || std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty());
        self.socket
            .clone()
            .or_else(|| named().map(PathBuf::from))
            .unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET))
    }
}
