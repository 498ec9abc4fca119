//! `calisto nf run`: a chain, until Ctrl-C; SIGHUP makes it read its file again.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use base::Nanos;
use chain::Event;
use clap::Args;
use sys::clock;

use crate::failure::Failure;
use crate::output;
use crate::table::grouped;

/// Run a chain until Ctrl-C or SIGTERM; nothing is left behind then.
///
/// At SIGHUP it reads its file again, and those that this one names, and puts them in force while
/// packets flow. If anything is wrong with them it says so, and goes on as before.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto nf run edge.toml\n  \
    kill -HUP $(pidof calisto)    it reads edge.toml again\n  \
    calisto nf run edge.toml --seconds 10 -j    then print what was counted, as JSON")]
pub(crate) struct Run {
    /// The file that describes the chain.
    file: PathBuf,
    /// End by itself after this many seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    seconds: Option<u64>,
}

impl Run {
    pub(crate) fn run(&self, sockets: &Path, json: bool) -> Result<(), Failure> {
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        sys::signal::install_reload_handler().map_err(Failure::new)?;
        let mut says = Says::new();
        let mut tell = |event| says.tell(&event);
        let end = self.seconds.map_or(Nanos::FAR_FUTURE, |n| clock::now() + Nanos::from_secs(n));
        let is_over = || sys::signal::stop_requested() || clock::now() >= end;
        let read = || super::file::read(&self.file);
        // Ports and socket are given back before the last word is said.
        let (figures, ended) = chain::serve::serve(read, sockets, is_over, &mut tell)?;
        if json {
            output::json(&figures)?;
        } else {
            output::text(&super::stats::render(&figures, false, false))?;
        }
        ended.map_err(Failure::new)
    }
}

/// Says on standard error what happens, so that standard output is the figures alone.
struct Says {
    /// Whether progress can be shown in place.
    is_terminal: bool,
    next: Nanos,
    is_in_line: bool,
}

/// What takes less is not worth a line.
const PROGRESS_EVERY: Nanos = Nanos::from_millis(500);

impl Says {
    fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { is_terminal, next: clock::now() + PROGRESS_EVERY, is_in_line: false }
    }

    fn tell(&mut self, event: &Event) {
        if let Event::Reading { bytes, of } = *event {
            return self.progress(bytes, of);
        }
        if std::mem::take(&mut self.is_in_line) {
            eprintln!();
        }
        match event {
            Event::Loaded { routes, ipv4, ipv6, took } => {
                let [four, six] = [ipv4, ipv6].map(|count| grouped(*count as u64));
                let seconds = took.as_secs_f64();
                eprintln!("routes of {routes}: {four} of IPv4, {six} of IPv6, in {seconds:.2} s");
            }
            event => eprintln!("{event}"),
        }
    }

    fn progress(&mut self, bytes: usize, of: usize) {
        let now = clock::now();
        if now < self.next {
            return;
        }
        self.next = now + PROGRESS_EVERY;
        let percent = 100 * bytes as u64 / (of as u64).max(1);
        if self.is_terminal {
            eprint!("\r\x1b[Kreading routes: {percent} %");
            self.is_in_line = true;
            // Progress that cannot be shown is not worth an error.
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("reading routes: {percent} %");
        }
    }
}
