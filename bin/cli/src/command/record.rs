//! `calisto record`: everything that the control loop sees and decides, as lines.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;

use admin::Command;
use clap::Args;
use serde::Serialize;

use crate::daemon::{Daemon, StreamError};
use crate::failure::Failure;
use crate::growing_file::GrowingFile;
use crate::output;
use crate::target::{About, Admin};

/// Record what the control loop sees and decides, to be replayed later.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  calisto record --seconds 10 night.rec\n  \
    calisto replay-plans night.rec\n  \
    calisto record --seconds 1 --app dns - | head -1")]
pub(crate) struct Record {
    /// Where to; `-` is standard output.
    file: PathBuf,
    /// For how long.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    about: About,
}

/// What was recorded, for `-j`.
#[derive(Serialize)]
struct Recorded<'a> {
    file: &'a Path,
    bytes: u64,
    seconds: f64,
}

impl Record {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        // Ctrl-C ends the recording; what is there is whole up to its last line.
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        let daemon = Daemon::at(&self.admin.socket).about(self.about.app.as_deref());
        let command = Command::Record { seconds: self.seconds };
        let begun = Instant::now();
        if self.file == Path::new("-") {
            let streamed = daemon.stream(command, &mut io::stdout().lock(), |_| {});
            return streamed.map(drop).map_err(StreamError::into_failure);
        }
        let mut file = GrowingFile::new(&self.file);
        let shown = io::stderr().is_terminal() && self.seconds > 2;
        let streamed = daemon.stream(command, &mut file, |bytes| {
            if shown {
                let second = begun.elapsed().as_secs().min(u64::from(self.seconds));
                eprint!("\rrecording: {second} of {} s, {bytes} bytes ", self.seconds);
            }
        });
        if shown {
            eprintln!();
        }
        let bytes = match streamed {
            Ok(bytes) => bytes,
            Err(StreamError::Output(error)) => return Err(file.broken_off(&error)),
            Err(StreamError::Daemon(failure)) => return Err(failure),
        };
        file.finish()?;
        if json {
            let seconds = begun.elapsed().as_secs_f64();
            return output::json(&Recorded { file: &self.file, bytes, seconds });
        }
        let file = self.file.display();
        output::done(&format!("{bytes} bytes are in {file}: calisto replay-plans {file}"), json)
    }
}
