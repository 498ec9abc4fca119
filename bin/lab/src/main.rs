//! `calisto-lab`: the commands of `calisto` that make load, measure, simulate, replay and show.
//!
//! People type `calisto bench …`, and the operator's command becomes this program with the same
//! words; so it calls itself `calisto` too. One file per command under `command/`; how commands
//! print, fail and ask the daemon is the operator's command's, whose library this uses.
#![forbid(unsafe_code)]

mod args;
mod command;
#[cfg(test)]
mod reference;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;

/// Counts what `calisto bench` proves to be nothing: allocations of the steady state.
#[global_allocator]
static ALLOCATOR: sys::counting_alloc::CountingAllocator =
    sys::counting_alloc::CountingAllocator::new();

fn main() -> ExitCode {
    cli::run(|| {
        let Cli { json, command } = Cli::parse();
        command.run(json, args::whole())
    })
}
