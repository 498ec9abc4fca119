//! `calistod`: the daemon as a program. The work is in `crates/plane/daemon`.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use daemon::Source;

/// Runs the data plane in the foreground until SIGINT, SIGTERM or `calisto down`.
///
/// Usually started by `calisto up`, which makes the configuration from flags.
#[derive(Debug, Parser)]
#[command(name = "calistod", version)]
struct Arguments {
    /// The configuration, in TOML.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Replaces one setting of it, as in `--set steer.policy=modulo`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

fn main() -> ExitCode {
    // Not options: only the daemon starts this program so.
    match std::env::args_os().nth(1) {
        Some(argument) if argument == daemon::LOOK_FOR_OPEN_SOCKETS => {
            return daemon::look_for_open_sockets();
        }
        Some(argument) if argument == daemon::GUARD => return daemon::guard(),
        Some(argument) if argument == daemon::START_GUARDIANS => return daemon::start_guardians(),
        _ => {}
    }
    let arguments = Arguments::parse();
    match daemon::run(Source::new(arguments.config, arguments.settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("calistod: {failure}");
            ExitCode::FAILURE
        }
    }
}
