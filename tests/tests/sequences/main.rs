//! Sequences of socket calls, played once on Linux and once under `calisto run`: every result,
//! error, readiness, address, option and byte must be the same.
//!
//! `SEED` chooses the first of `SEQUENCES` scripts, each of which is a pure function of its seed; a
//! script that differs is played again, made shorter and printed. `SCRIPT` names a file to play
//! instead. `LANES` are played at once.

mod comparison;
mod differences;
mod generator;
mod hunt;
mod lane;
mod player;
mod script;
mod stage;

use std::fs;

use whole::{Accelerated, Trap, project};

use crate::comparison::Verdict;
use crate::differences::RULES;
use crate::hunt::{Hunt, number};
use crate::lane::Lane;
use crate::script::Script;
use crate::stage::Pace;

#[test]
fn a_seed_gives_one_script_which_is_read_as_it_is_written() {
    for seed in 0..500 {
        let script = generator::script(seed);
        assert_eq!(script, generator::script(seed), "seed {seed}");
        assert_eq!(script, Script::parse(&script.to_string()), "seed {seed}");
    }
}

/// A bed in which ICMP says each time that a port is closed: what it says is compared.
pub(crate) fn bed() -> Accelerated {
    let bed = Accelerated::start();
    for side in [bed.here(), bed.there()] {
        let entered = side.enter(|| {
            for limit in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
                fs::write(format!("/proc/sys/net/{limit}"), "0").expect("the namespace is ours");
            }
        });
        entered.expect("the namespace is there");
    }
    bed
}

#[test]
fn kept_sequences_look_like_linux() {
    let bed = bed();
    let program = Trap::build("player");
    let mut lane = Lane::new(&bed, &program);
    let folder = project().join("tests/sequences");
    let mut files: Vec<_> = match std::env::var_os("SCRIPT") {
        Some(file) => vec![file.into()],
        None => fs::read_dir(&folder)
            .expect("the folder of kept sequences is there")
            .map(|entry| entry.expect("it can be listed").path())
            .filter(|path| path.is_file())
            .collect(),
    };
    files.sort();
    let mut failed = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a script is a text");
        assert!(text.starts_with("# "), "{} says what it holds", file.display());
        let played = lane.play(&Script::parse(&text), Pace::CAREFUL);
        println!("{}\n{played}", file.display());
        // They are kept because both do the same: no reason is good enough.
        if !matches!(played.verdict(), Verdict::Same) {
            failed.push(file);
        }
    }
    assert!(failed.is_empty(), "{failed:?} differ");
}

#[test]
fn documented_differences_are_those_that_there_are() {
    let page = fs::read_to_string(project().join("docs/reference/differences.md"));
    let page = page.expect("the page of the differences is there");
    let rows: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")).collect();
    let named: Vec<&str> = rows.iter().filter_map(|row| row.split('`').next()).collect();
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(named, names, "rows of the page on the left, rules on the right");
    let (bed, program) = (bed(), Trap::build("player"));
    let mut lane = Lane::new(&bed, &program);
    let mut wrong = Vec::new();
    for rule in RULES {
        let file = format!("tests/sequences/differences/{}.txt", rule.name);
        let text = fs::read_to_string(project().join(file)).expect("each rule has a script");
        // Some are races.
        let found = (0..5).find_map(|_| documented(&mut lane, &Script::parse(&text)));
        if found != Some(rule.name) {
            wrong.push((rule.name, found));
        }
    }
    assert_eq!(wrong, [], "one differs as the table says, or leaves the table");
}

/// The name of the documented difference that a script shows.
fn documented(lane: &mut Lane<'_>, script: &Script) -> Option<&'static str> {
    let played = lane.play(script, Pace::CAREFUL);
    println!("{played}");
    match played.verdict() {
        Verdict::Documented(found) => Some(found.name),
        Verdict::Same | Verdict::Differs(_) => None,
    }
}

#[test]
fn sequences_of_calls_look_like_linux() {
    let hunt = Hunt {
        seed: number("SEED", 1),
        sequences: number("SEQUENCES", 1500),
        lanes: number("LANES", 6),
    };
    let found = hunt.run();
    assert_eq!(found, 0, "differences; each is printed above");
}
