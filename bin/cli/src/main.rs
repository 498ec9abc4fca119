//! `calisto`: starts, asks and steers the daemon, makes load and bad wires, measures.
//!
//! One file per command under `command/`; `args.rs` is the list of them. What they share: how to
//! ask the daemon (`target.rs`, `daemon.rs`, `sockets.rs`), how to print (`output.rs`, `table.rs`), how to fail
//! (`failure.rs`), how people write quantities (`units.rs`).
#![forbid(unsafe_code)]

mod args;
mod command;
mod daemon;
mod failure;
mod output;
mod program;
mod sockets;
mod table;
mod target;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::Cli;

/// Counts what `calisto bench` proves to be nothing: allocations of the steady state.
#[global_allocator]
static ALLOCATOR: sys::counting_alloc::CountingAllocator =
    sys::counting_alloc::CountingAllocator::new();

fn main() -> ExitCode {
    // A reader like `head` that has seen enough ends us silently, as it ends every filter.
    if let Err(error) = sys::signal::ignore_broken_pipes(false) {
        eprintln!("calisto: {error}");
    }
    // clap itself ends with 2 on wrong usage, and with 0 after --help.
    let Cli { json, command } = Cli::parse();
    match command.run(json, Cli::command()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("calisto: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
