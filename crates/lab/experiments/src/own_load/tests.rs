//! Loads of one's own: as they were seen, and what is said of them.

use super::*;
use load::Distribution;

/// A load that one core serves with half of its time.
fn half() -> Poisson {
    Poisson {
        rate: 50_000.0,
        service: Nanos::from_micros(10),
        distribution: Distribution::Exponential,
        flows: 500,
        zipf: 0.0,
        requests: 4000,
    }
}

fn load(requests: Requests, cores_max: u16, runs: u32) -> OwnLoad {
    let (told, costs) = (Vec::new(), Costs::default());
    OwnLoad { requests, told, cores_max, runs, seed: 3, costs, threads: 2 }
}

#[test]
fn a_run_has_the_blocks_of_the_trace_in_another_order_and_the_first_has_it_as_it_was() {
    let trace = half().trace(1);
    let own = load(Requests::Seen(Arc::new(trace.clone())), 1, 3);
    let first = own.trace(0).expect("there are requests");
    assert_eq!(*first, trace);
    let (second, third) = (own.trace(1).expect("too"), own.trace(2).expect("too"));
    assert_ne!(second, third);
    assert!(second.length() <= Nanos(trace.length().0 + BLOCKS as u64));
    let works: std::collections::BTreeSet<u64> =
        trace.packets().iter().map(|packet| packet.work.0).collect();
    assert!(
        second.packets().iter().all(|packet| works.contains(&packet.work.0)),
        "none is made up"
    );
    let ratio = second.packets().len() as f64 / trace.packets().len() as f64;
    assert!((0.7..1.3).contains(&ratio), "{ratio}");
}

#[test]
fn every_way_is_tried_and_the_fewest_cores_are_those_from_which_on_all_keep_it() {
    let own = load(Requests::Made(Poisson { rate: 150_000.0, ..half() }), 4, 10);
    let tried = own.run().expect("it is possible");
    assert_eq!(tried.len(), 4 * WAYS.len(), "1.5 cores are busy, so one to four are tried");
    let soon = Nanos::from_millis(1);
    let one = tried.iter().find(|one| (one.way, one.cores) == ("sticky", 1)).expect("it is tried");
    assert_eq!(one.keeps("p99_us", soon), Some(false), "one core cannot serve 1.5");
    let few = fewest(&tried, "sticky", "p99_us", soon).expect("four cores are enough");
    assert!((2..=4).contains(&few.cores), "{few:?}");
    assert_eq!(few.kept("p99_us", soon).1, 10);
    assert!(fewest(&tried, "sticky", "p99_us", Nanos(100)).is_none(), "nobody is that quick");
    let held = few.cores_held().expect("it was served");
    assert!(held > 1.4 && held <= f64::from(few.cores), "{held}");
}

#[test]
fn what_came_out_are_lines_that_a_report_takes_and_the_same_seed_gives_the_same() {
    let own = load(Requests::Made(half()), 2, 2);
    let tried = own.run().expect("it is possible");
    let lines = own.lines(&tried, "calisto sim");
    let again = own.lines(&own.run().expect("it was before"), "calisto sim");
    assert_eq!(lines, again);
    let report = report::Report::of(lines).expect("they fit together");
    let coverage = report.figures()[0].coverage();
    assert_eq!((coverage.there, coverage.lacks.len()), (2 * WAYS.len(), 0), "{coverage:?}");
}

/// A recording with two looks at two groups, a second apart, and one before.
const RECORD: &str = r#"{"calisto_recording":1,"groups":128}
{"idle":{"ticks":412,"last":918273645}}
{"tick":{"now":1000,"load":{"now":1000,"first":0,"runs":[[2,99,5]]}}}
"epoch_finished"
{"tick":{"now":1000001000,"load":{"now":1000001000,"first":0,"runs":[[1,3000,5],[1,1000,5]]}}}
{"end":{"lost":0}}
"#;

#[test]
fn a_recording_gives_the_packets_between_two_looks_their_groups_and_the_work_that_is_told() {
    let work = Nanos::from_micros(2);
    let read = |text: &str| from_record(text.as_bytes(), work, Distribution::Constant, 1);
    let trace = read(RECORD).expect("it is a recording");
    assert_eq!(trace.packets().len(), 4000, "not the 198 of which nobody knows since when");
    assert_eq!(trace.flows(), 2);
    let of_first = trace.packets().iter().filter(|packet| packet.flow == 0).count();
    assert_eq!(of_first, 3000);
    assert_eq!(trace.work(), Nanos(4000 * 2000));
    let length = trace.length().as_secs_f64();
    assert!((0.98..1.0).contains(&length), "{length}");
    let none = RECORD.lines().take(3).collect::<Vec<_>>().join("\n");
    assert!(
        read(&none).expect_err("one look").to_string().contains("no packets between two looks")
    );
    assert!(read("{\"a\":1}\n").expect_err("no recording").to_string().contains("line 1"));
    assert!(read("nonsense").expect_err("no JSON").to_string().contains("line 1"));
}

#[test]
fn every_policy_is_tried_but_those_of_history() {
    for (name, help) in policy::steer::NAMES {
        let is_tried = WAYS.iter().any(|way| way.steering == name);
        assert_eq!(is_tried, !help.starts_with("historic"), "{name}");
    }
}
