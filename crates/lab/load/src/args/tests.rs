//! What `args` promises, case by case.

use clap::Parser;

use super::*;
use crate::{Schedule, ShardCount};

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    common: Common,
}

fn parse(line: &str) -> Result<Common, String> {
    let words = std::iter::once("load").chain(line.split_ascii_whitespace());
    CommandLine::try_parse_from(words).map(|line| line.common).map_err(|error| error.to_string())
}

fn plan(line: &str) -> Plan {
    let target = "10.0.0.2:7".parse().expect("it is an address");
    parse(line).expect(line).plan(target).expect(line)
}

/// Requests due in each tenth of a second.
fn tenths(line: &str) -> Vec<usize> {
    let mut counts = Vec::new();
    for request in Schedule::new(&plan(line), ShardCount::ALONE) {
        let tenth = (request.intended.0 / 100_000_000) as usize;
        counts.resize(counts.len().max(tenth + 1), 0);
        counts[tenth] += 1;
    }
    counts
}

#[test]
fn samples_are_steps_from_behind_the_start_to_the_rate_as_in_synthetic() {
    let line = "--arrival constant --rate 14k --start 4k --samples 5 --seconds 0.1";
    assert_eq!(tenths(line), [600, 800, 1000, 1200, 1400]);
    let plan = plan("--mpps 0.014 --start_mpps 0.004 --samples 10 --runtime 5");
    assert_eq!((plan.length, plan.by_piece), (Nanos::from_secs(50), true));
    let rates: Vec<f64> = plan.profile.measured().iter().map(|piece| piece.from).collect();
    assert!((rates[0] - 5e3).abs() < 1e-6 && (rates[9] - 14e3).abs() < 1e-6, "{rates:?}");
}

#[test]
fn a_ramp_and_shifts_have_their_requests_at_their_times() {
    let ramp = tenths("--arrival constant --ramp 1k --rate 5k --seconds 0.4");
    assert_eq!(ramp, [150, 250, 350, 450]);
    let shift = tenths("--arrival constant --loadshift 1000:100000,5k:200ms,0:0.1s,2k:100ms");
    assert_eq!(shift, [100, 500, 500, 0, 200]);
}

#[test]
fn what_comes_before_the_first_step_is_sent_and_not_measured() {
    let line = "--arrival constant --rate 2k --rampup 0.2 --warmup 0.1 --seconds 0.1";
    assert_eq!(tenths(line), [50, 150, 200, 200]);
    assert_eq!(plan(line).warmup, Nanos::from_millis(300));
}

#[test]
fn the_command_line_has_the_defaults_of_the_library() {
    let parsed = parse("").expect("nothing is needed");
    assert_eq!(format!("{parsed:?}"), format!("{:?}", Common::default()));
}

#[test]
fn leaders_and_followers_are_told_apart() {
    let barrier = |line: &str| parse(line).expect(line).options(false).barrier;
    assert_eq!(barrier(""), None);
    assert!(matches!(barrier("--clients 3"), Some(Barrier::Lead { clients: 3, listen, .. })
        if listen.port() == 23_232));
    assert!(matches!(barrier("--barrier-peers 2 --barrier-listen 127.0.0.1:9"),
        Some(Barrier::Lead { clients: 2, listen, .. }) if listen.port() == 9));
    for line in ["--leader 10.0.0.1", "--barrier-leader 10.0.0.1:23232"] {
        assert!(matches!(barrier(line), Some(Barrier::Follow { leader, .. })
            if leader.to_string() == "10.0.0.1:23232"));
    }
}

#[test]
fn wrong_settings_are_refused_by_a_sentence_with_what_to_do() {
    for (line, words) in [
        ("--samples 0", "1..=100"),
        ("--samples 101", "1..=100"),
        ("--start 5", "--samples"),
        ("--ramp 5 --samples 2", "cannot be used with"),
        ("--shift 5", "10k:500ms"),
        ("--shift 5:soon", "100us"),
        ("--shift 5:1s --rate 3", "cannot be used with"),
        ("--outstanding 3 --ramp 5", "cannot be used with"),
        ("--leader here", "10.0.0.1:23232"),
        ("--clients 2 --leader 10.0.0.1", "cannot be used with"),
        ("--clients 0", "1..=1000"),
    ] {
        let error = parse(line).map(drop).expect_err(line);
        assert!(error.contains(words), "{line}: {error}");
    }
    let target = "10.0.0.2:7".parse().expect("it is an address");
    for (line, words) in [
        ("--shift 0:1s", "nothing would be sent"),
        ("--ramp 5 --seconds 0", "above zero"),
        ("--rampup=-1", "--rampup"),
        ("--seconds NaN", "--seconds"),
    ] {
        let error = parse(line).expect(line).plan(target).expect_err(line);
        assert!(error.is_usage() && error.to_string().contains(words), "{line}: {error}");
    }
}
