//! Every command line of the help can be parsed, and wrong ones end with 2.

use clap::CommandFactory;

use super::*;
use crate::laboratory;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(["calisto"].into_iter().chain(line.split_whitespace()))
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_teaches_by_an_example() {
    fn check(command: &clap::Command) {
        // Those of the laboratory are explained there.
        let elsewhere = |name: &str| name == "help" || laboratory::COMMANDS.contains(&name);
        for sub in command.get_subcommands().filter(|sub| !elsewhere(sub.get_name())) {
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

#[test]
fn json_and_admin_are_taken_before_and_after_the_command() {
    for line in ["-j status", "status -j", "--json status --admin /tmp/x.sock"] {
        assert!(parse(line).expect(line).json, "{line}");
    }
    let cli = parse("steer --admin /tmp/x.sock show").expect("an option of the group");
    assert!(matches!(cli.command, Command::Steer(_)));
    parse("steer show --admin /tmp/x.sock").expect("the same, later");
}

#[test]
fn commands_are_read_as_people_write_them() {
    for line in [
        "up --port xdp:eth1 --port tap:t0 --listen udp:10.0.0.2:7 --workers 4 --state 4KiB",
        "up --config x.toml --set steer.groups=128 --set workers.max=9 --print-config",
        "down",
        "reload",
        "library /run/calisto/lib",
        "log",
        "log debug",
        "log sockets debug",
        "stats --all --help-text",
        "flows -n 5",
        "steer set modulo",
        "steer export",
        "steer export x.table",
        "steer load -",
        "steer pin --group 7 2",
        "steer unpin --group 7",
        "workers 5",
        "cores",
        "cores set utilisation",
        "top",
        "top --interval 200ms --count 3",
        "top --once",
        "completions zsh",
        "man /tmp/x",
    ] {
        parse(line).expect(line);
    }
    let flow = ["calisto", "steer", "pin", "--flow", "udp 10.0.0.1:5 -> 10.0.0.2:7", "2"];
    Cli::try_parse_from(flow).expect("a flow is one word for the shell");
}

#[test]
fn a_command_of_the_laboratory_takes_whatever_words_it_is_given() {
    for name in laboratory::COMMANDS {
        for words in ["", "--help", "-h", "-V", "-j", "help", "tcp --case rpc -j", "--list x -- y"]
        {
            let line = format!("{name} {words}");
            parse(&line).expect(&line);
            parse(&format!("--json {line}")).expect(&line);
        }
    }
}

#[test]
fn wrong_usage_ends_with_two() {
    for line in [
        "dance",
        "up --wrokers 4",
        "up --workers many",
        "up --state 1.0001KiB",
        "flows -n 0",
        "workers 0",
        "cores set",
        "top --interval 1ms",
        "top --interval 1h",
        "top --count 0",
        "top --once --count 2",
        "workers",
        "steer",
        "steer pin 2",
        "steer pin --group 7",
        "steer pin --group 7 --flow x 2",
        "steer load",
        "completions tcsh",
    ] {
        assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
    }
}
