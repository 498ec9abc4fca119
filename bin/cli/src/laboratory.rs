//! Hands commands over to the laboratory: `calisto-lab` measures, simulates and shows.
//!
//! The command line stays the same: `calisto bench …` becomes the laboratory, with the same words,
//! as git becomes the program of a command that is not built in. What the laboratory
//! links (the benchmarks, the models, other people's stacks) is no part of the operator's command.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;

use crate::failure::Failure;
use crate::program;

/// The commands that the laboratory has.
pub const COMMANDS: [&str; 7] = ["load", "replay", "sim", "plan", "report", "bench", "demo"];

// The words of such a command, which the laboratory reads. No comment for the documentation: what
// a command is stands at its name.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Words {
    /// Whatever the laboratory understands.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<OsString>,
}

/// Whether the words after `calisto` are `help` and a command of the laboratory.
pub fn is_asked_to_explain(words: impl IntoIterator<Item = OsString>) -> bool {
    let is_option = |word: &OsString| word == "-j" || word == "--json";
    let mut words = words.into_iter().filter(|word| !is_option(word));
    let is_own = |word: OsString| COMMANDS.iter().any(|&command| word == OsStr::new(command));
    words.next().is_some_and(|word| word == "help") && words.next().is_some_and(is_own)
}

/// Whether it is there to hand over to.
pub(crate) fn is_there() -> bool {
    program::find(program::LABORATORY).is_ok()
}

/// Becomes the laboratory, with the words that this process was started with. Returns only when
/// that cannot be.
///
/// # Errors
///
/// There is no such program beside this one or on the PATH, or the kernel does not start it.
pub fn hand_over() -> Result<(), Failure> {
    let laboratory = program::find(program::LABORATORY)?;
    let mut words = std::env::args_os();
    let mut command = Command::new(&laboratory);
    // Its messages call it what this process was called.
    command.arg0(words.next().unwrap_or_else(|| program::COMMAND.into()));
    let error = command.args(words).exec();
    Err(Failure::new(format!("cannot start {}: {error}", laboratory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(line: &str) -> bool {
        is_asked_to_explain(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn help_about_a_command_of_the_laboratory_is_its_to_give() {
        for line in ["help bench", "help bench tcp", "-j help sim", "help --json demo"] {
            assert!(asks(line), "{line}");
        }
        for line in ["", "help", "help steer", "bench --help", "bench help", "steer help bench"] {
            assert!(!asks(line), "{line}");
        }
    }
}
