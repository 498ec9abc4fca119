//! The laboratory's commands are those that `calisto` hands over, and the whole has all of them.

use clap::CommandFactory;

use super::*;

/// The names of the commands that people see.
fn names(command: &clap::Command) -> Vec<&str> {
    command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(clap::Command::get_name)
        .collect()
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    Cli::command().debug_assert();
    whole().debug_assert();
}

#[test]
fn what_calisto_hands_over_is_here_under_the_same_sentence() {
    let own = Cli::command();
    assert_eq!(names(&own), cli::laboratory::COMMANDS);
    let operator = cli::Cli::command();
    for command in own.get_subcommands() {
        let name = command.get_name();
        let named = operator.find_subcommand(name).expect(name);
        let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
        assert_eq!(about(named), about(command), "{name}");
    }
}

#[test]
fn the_whole_has_every_command_in_its_place_with_its_options() {
    let (whole, operator) = (whole(), cli::Cli::command());
    assert_eq!(names(&whole), names(&operator));
    let order = |command: &clap::Command| -> Vec<usize> {
        command.get_subcommands().map(clap::Command::get_display_order).collect()
    };
    assert_eq!(order(&whole), order(&operator));
    let bench = whole.find_subcommand("bench").expect("it is there");
    assert!(bench.find_subcommand("steer").is_some());
}

#[test]
fn every_command_teaches_by_an_example() {
    fn check(command: &clap::Command) {
        let shown = |sub: &&clap::Command| sub.get_name() != "help" && !sub.is_hide_set();
        for sub in command.get_subcommands().filter(shown) {
            let name = sub.get_name();
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Example"), "{name} has no example");
            assert!(help.contains(name), "the example of {name} does not use it");
            assert!(sub.get_about().is_some(), "{name} does not say what it does");
            for arg in sub.get_arguments() {
                assert!(arg.get_help().is_some(), "{name} does not explain {}", arg.get_id());
            }
            check(sub);
        }
    }
    check(&Cli::command());
}
