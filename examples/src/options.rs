//! The options that every example application has.

use std::path::PathBuf;

use calisto_client::{AttachOptions, CoresClass, CoresRequest};
use clap::Args;

use crate::cpus::Cpus;

/// The options that every example application has.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Whose packets to take, such as udp:10.0.0.2:53; may be given several times.
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub listen: Vec<String>,
    /// Threads, each with a share of the flows.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: u32,
    /// CPUs to run on: worker n on the n-th of the list, such as 0,2-3.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<Cpus>,
    /// Run on cores that the daemon grants and takes back: this many whenever there is work, and
    /// more when there is more.
    #[arg(long, value_name = "GUARANTEED", conflicts_with = "cpus")]
    pub cores: Option<u16>,
    /// With --cores: ask for another core when a packet waits for this many microseconds; 0: from
    /// one look of the daemon to the next.
    #[arg(long, value_name = "US", default_value_t = 0, requires = "cores")]
    pub queue_delay: u32,
    /// What the daemon's operator sees it called; the program's own name if not given.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The daemon's socket for applications.
    #[arg(long, value_name = "PATH", env = calisto_client::SOCKET_VARIABLE, default_value_os_t = calisto_client::default_socket())]
    pub socket: PathBuf,
    /// Wait for a daemon that is not there, and attach again when it has ended and is back.
    #[arg(long)]
    pub keep: bool,
    /// At the end, print the figures as JSON.
    #[arg(short = 'j', long)]
    pub json: bool,
}

impl Options {
    /// What it asks the daemon for; `program` is its name if it has got no other.
    pub(crate) fn request(&self, program: &str) -> AttachOptions {
        let name = self.name.clone().unwrap_or_else(|| program.to_owned());
        let request = AttachOptions::new(name).socket(&self.socket).workers(self.workers);
        let cores = self.cores.map(|guaranteed| CoresRequest {
            guaranteed,
            burst: None,
            class: CoresClass::Latency,
            queue_delay_us: self.queue_delay,
        });
        let request = cores.into_iter().fold(request, AttachOptions::cores);
        self.listen.iter().fold(request, AttachOptions::listen)
    }
}
