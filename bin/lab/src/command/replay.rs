//! `calisto replay`: a capture through the real data path.

use clap::Args;
use cli::failure::Failure;
use cli::output;

/// Play a capture through the data path, and say what became of its packets.
#[derive(Args, Debug)]
pub(crate) struct Replay {
    #[command(flatten)]
    args: Box<replay::Args>,
}

impl Replay {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        // Ctrl-C ends the replay, not the report.
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        let report = replay::run(&self.args, json).map_err(|error| {
            if error.is_usage() { Failure::usage(error) } else { Failure::new(error) }
        })?;
        if json {
            output::json(&report)?;
        } else {
            output::text(&report.table())?;
        }
        report.failure().map_or(Ok(()), |sentence| Err(Failure::new(sentence)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Cli;
    use crate::command::Command;

    #[test]
    fn a_number_of_workers_that_cannot_be_is_wrong_usage_and_a_missing_file_is_not() {
        for (workers, exit_code) in [("65", 2), ("4", 1)] {
            let words = ["calisto", "replay", "no-such-file.pcap", "--workers", workers];
            let cli = Cli::try_parse_from(words).expect("well formed");
            let Command::Replay(replay) = cli.command else { panic!("{:?}", cli.command) };
            let failure = replay.run(true).expect_err("neither can be played");
            assert_eq!(failure.exit_code(), exit_code, "{failure}");
        }
    }
}
