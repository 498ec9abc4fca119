//! The command line of `calisto nf`, and what it prints.

use chain::figures::{
    CounterFigure, Figures, GroupFigures, HookFigures, PlaceFigures, SliceFigures,
};
use clap::Parser;

use super::*;
use crate::args::Cli;
use crate::command::Command;

fn run(words: &[&str]) -> Result<(), Failure> {
    let words = ["calisto", "nf"].iter().chain(words);
    let cli = Cli::try_parse_from(words).expect("well formed");
    let Command::Nf(nf) = cli.command else { panic!("{:?}", cli.command) };
    nf.run(true)
}

#[test]
fn a_missing_or_wrong_file_is_named() {
    for action in ["run", "check"] {
        let failure = run(&[action, "no-such-file.toml"]).expect_err("it is not there");
        assert!(failure.to_string().contains("cannot read no-such-file.toml"), "{failure}");
    }
    let path = std::env::temp_dir().join(format!("calisto-nf-{}.toml", std::process::id()));
    std::fs::write(&path, "name = 1\n").expect("the temporary folder is ours");
    let failure = run(&["check", path.to_str().expect("a plain path")]).expect_err("no name");
    let expected = format!("{}, line 1: `name` is 1; allowed is", path.display());
    assert!(failure.to_string().starts_with(&expected), "{failure}");
    let _ = std::fs::remove_file(&path);
}

#[test]
fn a_function_that_there_is_not_is_wrong_usage_and_those_there_are_are_named() {
    let failure = run(&["help", "rooter"]).expect_err("there is none");
    assert_eq!(failure.exit_code(), 2);
    assert!(failure.to_string().contains("l2"), "{failure}");
}

#[test]
fn without_a_chain_stats_say_how_to_start_one() {
    let nobody = std::env::temp_dir().join("calisto-no-such-folder");
    let folder = nobody.to_str().expect("a plain path");
    for name in [&[][..], &["edge"]] {
        let words = [&["--sockets", folder, "stats"], name].concat();
        let failure = run(&words).expect_err("nobody runs");
        assert!(failure.to_string().contains("calisto nf run FILE"), "{failure}");
    }
    let failure = run(&["stats", "../edge"]).expect_err("a path");
    assert_eq!(failure.exit_code(), 2);
}

#[test]
fn figures_are_shown_by_slice_and_function_and_zeros_when_asked_for() {
    let counter = |name: &str, value| CounterFigure {
        name: name.to_owned(),
        help: format!("{name}, explained."),
        value,
    };
    let group = |of: &str, name: &str, fault: Option<&str>| GroupFigures {
        of: of.to_owned(),
        name: name.to_owned(),
        fault: fault.map(str::to_owned),
        counters: vec![counter("seen", 1234), counter("lost", 0)],
    };
    let figures = Figures {
        schema_version: 1,
        name: "edge".to_owned(),
        pid: 7,
        uptime_seconds: 2.4,
        slices: vec![SliceFigures {
            name: "edge-0".to_owned(),
            cpus: vec![1],
            filter: None,
            groups: vec![group("slice", "edge-0", None), group("port", "eth1", Some("it is down"))],
        }],
        router: None,
        hook: HookFigures::default(),
    };
    assert_eq!(
        stats::render(&figures, false, false),
        "chain edge, process 7, forwards for 2 s\n\
         slice edge-0, port eth1: it is down\n\
         slice   of         counter  value\n\
         edge-0  slice      seen     1,234\n\
         edge-0  port eth1  seen     1,234\n"
    );
    let all = stats::render(&figures, true, true);
    assert!(all.contains("lost         0  lost, explained.\n"), "{all}");
}

#[test]
fn where_functions_run_is_shown_with_why() {
    let place = |name: &str, why: Option<&str>| PlaceFigures {
        name: name.to_owned(),
        hook: why.is_none(),
        why: why.map(str::to_owned),
    };
    let figures = Figures {
        schema_version: 2,
        name: "edge".to_owned(),
        pid: 7,
        uptime_seconds: 2.4,
        slices: Vec::new(),
        router: None,
        hook: HookFigures {
            functions: vec![place("acl", None), place("nat", Some("the hook has no nat"))],
            entries: vec![place("eth1", None)],
            exits: vec![place("eth2", Some("its driver"))],
        },
    };
    assert_eq!(
        show::render(&figures),
        "chain edge, process 7\n\
         \u{20}               runs in                       why\n\
         function  acl   hook, and slice for the rest\n\
         function  nat   slice                         the hook has no nat\n\
         in by     eth1  hook first\n\
         out by    eth2  slice only                    its driver\n"
    );
}
