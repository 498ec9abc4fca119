//! `cargo xtask`: the one entry to the project's checks, the same here and in CI.
#![forbid(unsafe_code)]

mod book;
mod ci;
mod replaced;
mod rules;
mod source;
mod tidy;
mod usage;
mod workspace;

use std::process::ExitCode;

use usage::USAGE;
use workspace::Workspace;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let command: fn(&Workspace) -> bool = match words.as_slice() {
        ["tidy"] => tidy::run,
        ["book"] => book::run,
        ["ci"] => |workspace| ci::run(workspace, ci::Extent::Everything),
        ["ci", "--quick"] => |workspace| ci::run(workspace, ci::Extent::Quick),
        ["-h" | "--help" | "help"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match Workspace::load() {
        Ok(workspace) if command(&workspace) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
