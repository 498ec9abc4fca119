//! `calisto nf run`: a chain, until Ctrl-C; SIGHUP makes it read its file again.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use base::Nanos;
use chain::{Chain, ChainError, Event};
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
        let (file, folder) = super::file::read(&self.file)?;
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        sys::signal::install_reload_handler().map_err(Failure::new)?;
        let mut says = Says::new();
        let mut tell = |event| says.tell(&event);
        let mut chain = Chain::start(&file, &folder, sockets, &mut tell).map_err(Failure::new)?;
        let end = self.seconds.map_or(Nanos::FAR_FUTURE, |n| clock::now() + Nanos::from_secs(n));
        let is_over = || sys::signal::stop_requested() || clock::now() >= end;
        let ended = loop {
            let ended = chain.run_until(is_over, sys::signal::reload_requested, &mut tell);
            if ended.is_err() || is_over() || !sys::signal::take_reload_request() {
                break ended;
            }
            match self.reload(&mut chain, &mut tell) {
                Ok(()) => {}
                Err(Refused::Chain(ended @ ChainError::Ended { .. })) => break Err(ended),
                Err(refused) => tell(Event::Note(format!("the chain stays as it was: {refused}"))),
            }
        };
        let figures = chain.figures();
        // Ports and socket are given back before the last word is said.
        drop(chain);
        if json {
            output::json(&figures)?;
        } else {
            output::text(&super::stats::render(&figures, false, false))?;
        }
        ended.map_err(Failure::new)
    }

    /// Reads the file again and puts it in force.
    fn reload(&self, chain: &mut Chain, tell: &mut dyn FnMut(Event)) -> Result<(), Refused> {
        let (file, folder) = super::file::read(&self.file).map_err(Refused::File)?;
        chain.reload(&file, &folder, tell).map_err(Refused::Chain)
    }
}

/// Why a chain is not as its file says now.
enum Refused {
    File(Failure),
    Chain(ChainError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(failure) => failure.fmt(f),
            Self::Chain(error) => error.fmt(f),
        }
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
            Event::Reading { .. } => {}
            Event::Loaded { routes, ipv4, ipv6, took } => {
                let [four, six] = [ipv4, ipv6].map(|count| grouped(*count as u64));
                let seconds = took.as_secs_f64();
                eprintln!("routes of {routes}: {four} of IPv4, {six} of IPv6, in {seconds:.2} s");
            }
            Event::Reloaded { functions } => {
                eprintln!("read again: {functions} functions are in force");
            }
            Event::Note(sentence) => eprintln!("note: {sentence}"),
            Event::Forwarding { ports, slices } => {
                let threads = if *slices == 1 { "one thread" } else { "a thread for each slice" };
                eprintln!("forwarding between {ports} ({threads}); Ctrl-C ends it");
            }
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
