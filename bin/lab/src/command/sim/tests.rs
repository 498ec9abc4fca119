//! The command line of `calisto sim`, and what it refuses.

use clap::Parser;
use cli::failure::Failure;

use crate::args::Cli;
use crate::command::Command;

fn sim(words: &[&str]) -> Result<(), Failure> {
    let cli = Cli::try_parse_from(["calisto", "sim"].iter().chain(words)).expect("well formed");
    let Command::Sim(sim) = cli.command else { panic!("{:?}", cli.command) };
    sim.run(false)
}

#[test]
fn a_figure_that_is_not_there_is_wrong_usage_and_the_nearest_one_is_named() {
    let failure = sim(&["calisto-66"]).expect_err("there is none");
    assert_eq!(failure.exit_code(), 2);
    assert!(failure.to_string().contains("did you mean calisto-6?"), "{failure}");
    let failure = sim(&["no-such-file.toml"]).expect_err("there is none");
    assert_eq!(failure.exit_code(), 1);
}

#[test]
fn what_is_to_be_done_has_to_be_said_and_parts_have_to_be_parts() {
    for words in [&["sim"][..], &["sim", "x", "--shard", "5/4"], &["sim", "--all", "x"]] {
        let words = ["calisto"].iter().chain(words);
        let error = Cli::try_parse_from(words.clone()).expect_err("it is not well formed");
        assert_eq!(error.exit_code(), 2, "{words:?}");
    }
}

#[test]
fn the_list_of_figures_can_be_printed() {
    sim(&["--list"]).expect("every scenario that comes with the program is sound");
    sim(&["--settings"]).expect("it is a text");
    sim(&["--print", "calisto-6"]).expect("it is there");
}

#[test]
fn the_command_that_repeats_a_run_is_one_word_a_file() {
    for (name, expected) in [
        ("calisto-6", "calisto-6"),
        ("some/where/mine.toml", "some/where/mine.toml"),
        ("my own.toml", "'my own.toml'"),
        ("it's $HOME.toml", r"'it'\''s $HOME.toml'"),
        ("-x.toml", "'./-x.toml'"),
    ] {
        assert_eq!(super::quoted(name), expected);
    }
}
