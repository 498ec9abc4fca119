//! `synthetic`: requests that say how much work they are.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::ExitCode;

use calisto_client::{Frame, Verdict, reply};
use clap::Parser;
use examples::{Options, Service, run};

/// Answers requests of 16 bytes, iterations and index (u64 each, big endian), after this many
/// iterations of fake work: the workload of `calisto load`, in an application.
#[derive(Debug, Parser)]
#[command(
    name = "synthetic",
    version,
    after_help = "Examples:\n  \
        synthetic --listen udp:10.0.0.2:7\n  \
        synthetic --listen udp:10.0.0.2:7 --workers 4 --cpus 2-5 -j"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// Iterations that a request may ask for, at most, as in the daemon's own job of this name: about
/// 100 ms. More is a hostile request.
const ITERATIONS_MAX: u64 = 20_000_000;

#[derive(Default)]
struct Synthetic {
    bad_requests: u64,
}

impl Service for Synthetic {
    fn packet(&mut self, frame: &mut Frame) -> Verdict {
        let request = reply::payload(frame).and_then(|payload| payload.first_chunk::<16>());
        let iterations = request.and_then(|request| request.first_chunk().copied());
        match iterations.map(u64::from_be_bytes) {
            Some(iterations) if iterations <= ITERATIONS_MAX => {
                work(iterations);
                reply::echo(frame)
            }
            _ => {
                self.bad_requests += 1;
                Verdict::Done
            }
        }
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("bad_requests", self.bad_requests)]
    }
}

/// Square roots, each of what the one before it gave.
fn work(iterations: u64) {
    let end = (0..iterations).fold(1.0_f64, |root, step| black_box(root + step as f64).sqrt());
    black_box(end);
}

fn main() -> ExitCode {
    let Cli { options } = Cli::parse();
    run("synthetic", &options, Synthetic::default)
}
