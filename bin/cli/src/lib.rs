//! The operator's command: starts, asks and steers the daemon, runs programs on it, makes bad
//! wires.
//!
//! One file per command under `command/`, and `command.rs` is the list of them; what measures,
//! simulates and shows is in a program of its own, the laboratory (`laboratory.rs`). What commands
//! share, those of the laboratory too: how to find programs (`program.rs`), to ask the daemon
//! (`target.rs`, `daemon.rs`, `sockets.rs`), to print (`output.rs`, `table.rs`), to write a file
//! while they go on (`growing_file.rs`), to fail (`failure.rs`), to judge a configuration
//! (`findings.rs`), to end a daemon one at a time (`turn.rs`), to serve HTTP (`http.rs`), and how
//! people write quantities (`units.rs`).
#![forbid(unsafe_code)]

mod args;
mod command;
/// How the daemon is asked.
pub mod daemon;
/// Why a command failed.
pub mod failure;
mod findings;
mod growing_file;
mod http;
/// The program that has the commands which measure, simulate and show.
pub mod laboratory;
/// How results are printed.
pub mod output;
/// Where the project's programs are.
pub mod program;
mod sockets;
/// Tables for people.
pub mod table;
mod target;
mod turn;
mod units;

use std::process::ExitCode;

pub use args::Cli;
pub use command::completions::Completions;
pub use command::man::Man;
pub use command::run::obstacle::{Flaw, Obstacle};

use failure::Failure;

/// Runs a command as a process: what it fails with is a sentence on standard error and the exit
/// code.
pub fn run(command: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    // A reader like `head` that has seen enough ends us silently, as it ends every filter.
    if let Err(error) = sys::signal::ignore_broken_pipes(false) {
        eprintln!("calisto: {error}");
    }
    match command() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("calisto: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
