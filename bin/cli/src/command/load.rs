//! `calisto load`: requests on a schedule that no reply can bend, and what came back.

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output;

/// Generate load and measure what comes back.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto load udp 10.0.0.2:7 --rate 20k --flows 4000")]
pub(crate) struct Load {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// UDP requests, latency from the intended send time.
    #[command(after_help = "Examples:\n  \
        calisto load udp 10.0.0.2:7 --rate 20k --flows 4000 --seconds 10\n      \
            open loop, Poisson, from sockets of this kernel\n  \
        calisto load udp 10.0.0.2:7 --outstanding 16 -j\n      \
            closed loop, as JSON\n  \
        calisto load udp 10.0.0.2:7 --transport xdp:eth1 --source-prefix 10.78.0.0/14 \
            --flows 700000 --check lost=0,p95=200us\n      \
            from a port of ours; fails when a threshold is missed")]
    Udp(Box<load::udp::Args>),
}

impl Load {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        // Ctrl-C ends the load, not the report.
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        let Kind::Udp(args) = &self.kind;
        let report = load::udp::run(args, json).map_err(|error| {
            if error.is_usage() { Failure::usage(error) } else { Failure::new(error) }
        })?;
        if json {
            output::json(&report)?;
        } else if args.csv {
            let header = load::Report::csv_header();
            output::text(&format!("{header}\n{}\n", report.csv_line()))?;
        } else {
            output::text(&report.table())?;
        }
        match &report.failed_checks[..] {
            [] => Ok(()),
            missed => Err(Failure::new(format!("missed: {}", missed.join("; ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Cli, Command};

    #[test]
    fn settings_that_make_no_sense_are_wrong_usage() {
        let words = ["calisto", "load", "udp", "127.0.0.1:0"];
        let cli = Cli::try_parse_from(words).expect("it is an address");
        let Command::Load(load) = cli.command else { panic!("{:?}", cli.command) };
        let failure = load.run(false).expect_err("nobody can listen at port 0");
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains("port 0"), "{failure}");
    }
}
