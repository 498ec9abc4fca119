//! What a report promises, case by case.

use super::*;
use crate::{Piece, Profile};

/// Two steps of 2 s, 100 and 200 a second, behind half a second of warm-up; what was due up to
/// `length` was sent and answered.
fn two_steps(length: Nanos) -> Report {
    let rates = [100.0, 200.0];
    let steps = rates.map(|rate| Piece::level(rate, Nanos::from_secs(2))).to_vec();
    let profile = Profile::new(steps).expect("it is possible");
    let profile = profile.after(vec![Piece::level(100.0, Nanos::from_millis(500))]);
    let plan = Plan { by_piece: true, ..Plan::default() }.with_profile(profile);
    let mut totals = Totals::default();
    for (step, rate) in rates.iter().enumerate() {
        let begin = Nanos::from_secs(2 * step as u64);
        let span = length.since(begin).min(Nanos::from_secs(2));
        let sent = (rate * span.as_secs_f64()) as u64;
        let mut latencies = Latencies::default();
        (0..sent).for_each(|_| latencies.record(Nanos::from_micros(9)));
        totals.parts.push(latencies);
        totals.send.parts.push(PartSent { sent, ..PartSent::default() });
    }
    let is_early = length < plan.length;
    let options = Options::default();
    Report::new(&plan, &options, totals, length, is_early, std::iter::empty(), UNIX_EPOCH)
}

#[test]
fn a_step_in_which_a_run_was_ended_has_the_rate_of_the_time_that_it_had() {
    for (millis, expected) in [
        (4000, vec![(2.0, 100.0, 0), (2.0, 200.0, 2)]),
        (3000, vec![(2.0, 100.0, 0), (1.0, 200.0, 2)]),
        (500, vec![(0.5, 100.0, 0)]),
        // Ended with the first step: nothing of the second was due.
        (2000, vec![(2.0, 100.0, 0)]),
    ] {
        let report = two_steps(Nanos::from_millis(millis));
        let found: Vec<_> = report
            .steps
            .iter()
            .map(|step| (step.seconds, step.achieved_rate, step.start))
            .collect();
        assert_eq!(found, expected, "{millis} ms");
        let wanted = report.steps.iter().map(|step| step.target_rate);
        assert!(wanted.zip([100.0, 200.0]).all(|(found, rate)| found == rate));
    }
}

#[test]
fn a_run_that_nobody_answered_says_what_to_look_at() {
    let mut report = sample();
    assert_eq!(report.silence(), None, "one of 101 was lost");
    report.requests.received = 0;
    let sentence = report.silence().expect("nothing came back");
    assert!(sentence.starts_with("nothing was answered of 101 requests: "), "{sentence}");
    assert!(sentence.contains("`calisto status`"), "{sentence}");
    report.transport.refused = 1;
    let sentence = report.silence().expect("nothing came back");
    assert!(sentence.contains("nobody listens"), "{sentence}");
    (report.requests.sent, report.requests.never_sent) = (0, 0);
    assert_eq!(report.silence(), None, "nothing was asked");
}
