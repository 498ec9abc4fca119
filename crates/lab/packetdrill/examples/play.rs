//! Plays the scripts that are named, and says of each whether it passes: by default as our own
//! scripts are meant, with `--loose` as packetdrill does it: packets that a script does not mention
//! may follow its end, and times are met within 20 ms.
#![expect(clippy::disallowed_methods, reason = "the crate is pure, who brings it scripts is not")]

use std::process::ExitCode;

use base::Nanos;
use packetdrill::{Ending, Script, run};

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let is_loose = names.first().is_some_and(|first| first == "--loose");
    let (ending, tolerance) = match is_loose {
        true => (Ending::Loose, Nanos::from_millis(20)),
        false => (Ending::Strict, Nanos::from_millis(4)),
    };
    names.drain(..usize::from(is_loose));
    if names.is_empty() {
        eprintln!("Usage: play [--loose] SCRIPT...");
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
        let result = Script::parse(&text).and_then(|script| run(&script, ending, tolerance));
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
