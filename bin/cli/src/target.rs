//! What a command is about: which daemon, and the workers of which application.

use std::path::PathBuf;

use clap::Args;

/// Where the daemon that is meant listens.
#[derive(Args, Clone, Debug)]
pub(crate) struct Admin {
    /// Socket of the daemon to talk to.
    #[arg(
        long = "admin",
        value_name = "PATH",
        env = "CALISTO_ADMIN",
        default_value_os_t = default_socket(),
        global = true
    )]
    pub(crate) socket: PathBuf,
}

/// Whose workers are meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct About {
    /// An attached application, by name or number; without it, the daemon's own workers.
    #[arg(long, value_name = "APP", global = true)]
    pub(crate) app: Option<String>,
}

/// The socket of a daemon that is told of no other.
pub(crate) fn default_socket() -> PathBuf {
    calisto_client::folder().join("admin.sock")
}
