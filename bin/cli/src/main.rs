//! `calisto`: what people type.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, laboratory};

fn main() -> ExitCode {
    cli::run(|| {
        // clap would explain a command of the laboratory by the little that is known of it here.
        if laboratory::is_asked_to_explain(std::env::args_os().skip(1)) {
            return laboratory::hand_over();
        }
        // clap itself ends with 2 on wrong usage, and with 0 after --help.
        Cli::parse().run()
    })
}
