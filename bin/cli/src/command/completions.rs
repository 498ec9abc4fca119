//! `calisto completions`: what a shell needs to complete our command lines.

use clap::Args;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output;

/// Print completions for a shell.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    calisto completions bash > /etc/bash_completion.d/calisto")]
pub struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    /// Does it, for the command line that `grammar` defines.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn run(&self, grammar: &mut clap::Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, grammar, "calisto", &mut script);
        output::text(&String::from_utf8_lossy(&script))
    }
}
