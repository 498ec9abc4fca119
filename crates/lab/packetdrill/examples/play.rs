//! Plays the scripts that are named, and says of each whether it passes.
#![expect(clippy::disallowed_methods, reason = "the crate is pure, who brings it scripts is not")]

use std::process::ExitCode;

use base::Nanos;
use packetdrill::{Ending, Script, run};

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        eprintln!("Usage: play SCRIPT...");
        return ExitCode::FAILURE;
    }
    for name in names {
        let text = match std::fs::read_to_string(&name) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("{name} cannot be read: {error}");
                return ExitCode::FAILURE;
            }
        };
        let tolerance = Nanos::from_millis(4);
        let result =
            Script::parse(&text).and_then(|script| run(&script, Ending::Strict, tolerance));
        match result {
            Ok(()) => println!("{name} passes"),
            Err(failure) => {
                println!("{name}: {failure}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
