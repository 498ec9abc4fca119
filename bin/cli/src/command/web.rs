//! `calisto web`: the daemon as a page, live.

mod address;
mod change;
mod look;
mod server;
mod token;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::target::Admin;
use crate::units;

/// Show the daemon as a page, live: cores over time, workers, applications, flows, drops.
///
/// Serves on a loopback address until Ctrl-C; from elsewhere, look through `ssh -L`. The page only
/// shows, unless --token-file is given: then it can set the policies and the number of workers too,
/// for a reader who knows the token. However many pages are open, the daemon is asked once every
/// --every-ms. The page needs nothing from other hosts.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto web\n      \
        then open http://127.0.0.1:9465/\n  \
    (umask 077; head -c 24 /dev/urandom | base64 > token); calisto web --token-file token\n      \
        a page that can change the daemon; it asks for the token\n  \
    ssh -L 9465:127.0.0.1:9465 server calisto web\n      \
        the page of another machine")]
pub(crate) struct Web {
    /// Serve at this loopback address.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = default_address())]
    #[arg(value_parser = units::socket_address)]
    listen: SocketAddr,
    /// Allow changes to readers who know what this file holds: a line of at least 16 characters.
    /// Only its owner may have access to the file.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Milliseconds between two looks at the daemon.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = value_parser!(u16).range(100..))]
    every_ms: u16,
    #[command(flatten)]
    admin: Admin,
}

/// The port after that of the metrics.
fn default_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 9465).into()
}

impl Web {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        address::check(self.listen)?;
        let token = self.token_file.as_deref().map(token::Token::read).transpose()?;
        let every = Duration::from_millis(self.every_ms.into());
        server::serve(self.listen, Daemon::at(&self.admin.socket), token, every, json)
    }
}
