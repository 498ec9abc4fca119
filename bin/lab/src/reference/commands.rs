//! `commands.md`: what `calisto help` says, of every command.

use std::fmt::Write;

use clap::Command;

use super::{GENERATED, holds};
use crate::args::whole;

/// Columns of the help texts.
const WIDTH: usize = 100;

#[test]
fn commands() {
    let mut page = format!("# Commands\n\n{GENERATED}\n");
    page.push_str("`calisto help COMMAND` prints each of these.\n");
    let mut root = without_environment(whole());
    root.build();
    describe(root, "", &mut page);
    holds("commands.md", &page);
}

/// Help shows what variables hold here and now; a page must not.
fn without_environment(command: Command) -> Command {
    let command = command.term_width(WIDTH).mut_args(|arg| arg.hide_env_values(true));
    command.mut_subcommands(without_environment)
}

fn describe(mut command: Command, parents: &str, page: &mut String) {
    let name = format!("{parents}{}", command.get_name());
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim());
    let parents = format!("{name} ");
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for command in command.get_subcommands().filter(shown) {
        describe(command.clone(), &parents, page);
    }
}
