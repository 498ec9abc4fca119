//! `udp-echo`: every packet goes back where it came from.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use calisto_client::{Frame, Verdict, reply};
use clap::Parser;
use examples::{Options, Service, run};

/// Sends every UDP packet back where it came from, over packets from the Calisto daemon.
#[derive(Debug, Parser)]
#[command(
    name = "udp-echo",
    version,
    after_help = "Examples:\n  \
        udp-echo --listen udp:10.0.0.2:7\n  \
        udp-echo --listen udp:10.0.0.2:7 --workers 2 --cpus 0,1 --keep -j"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

struct Echo;

impl Service for Echo {
    fn packet(&mut self, frame: &mut Frame) -> Verdict {
        reply::echo(frame)
    }
}

fn main() -> ExitCode {
    let Cli { options } = Cli::parse();
    run("udp-echo", &options, || Echo)
}
