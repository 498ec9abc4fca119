//! What the ends of daemons have shown, as figures.

use base::Nanos;

use super::callers::{Fault, Seen};
use super::text::Wrong;
use crate::error::Error;
use crate::figure::{Figure, Target, quantile};
use crate::report::Report;

/// What was asked for: in milliseconds, of the connections of one death.
const P50_MS: f64 = 60.0;
const P99_MS: f64 = 300.0;
const ALL_STAND_MS: f64 = 1000.0;

/// What one end has shown.
#[derive(Clone, Debug)]
pub(super) struct Death {
    pub(super) seen: Vec<Seen>,
    /// Connections that the kernel goes on with, as the daemon or its guardian says.
    pub(super) given: usize,
    /// From the signal to the moment at which that was said.
    pub(super) took: Nanos,
}

/// Everything about `deaths`; `quiet` is what the same callers waited when nothing ended.
pub(super) fn print(
    report: &mut Report<'_>,
    deaths: &[Death],
    quiet: &[Vec<Seen>],
) -> Result<(), Error> {
    let all: Vec<&Seen> = deaths.iter().flat_map(|death| &death.seen).collect();
    let faults: Vec<&Fault> = all.iter().filter_map(|seen| seen.fault.as_ref()).collect();
    let mut broken = Figure::new("connections broken", "", &[faults.len() as f64])
        .target(Target::AtMost(0.0))
        .note(format!("of {} in {} deaths", all.len(), deaths.len()));
    if let Some(first) = faults.first() {
        broken = broken.note(format!("of {}; the first: {first:?}", all.len()));
    }
    report.figure(broken)?;
    let [lost, doubled, changed] = bytes(&faults);
    for (name, unit, count) in [
        ("bytes lost", "B", lost),
        ("bytes doubled", "B", doubled),
        ("connections with changed bytes", "", changed),
    ] {
        report.figure(Figure::new(name, unit, &[count as f64]).target(Target::AtMost(0.0)))?;
    }
    let kept = all.len() as f64 - deaths.iter().map(|death| death.given as f64).sum::<f64>();
    report
        .figure(Figure::new("not given to the kernel", "", &[kept]).target(Target::AtMost(0.0)))?;
    let took: Vec<f64> = deaths.iter().map(|death| millis(death.took)).collect();
    let took = Figure::new("all stand", "ms", &took).target(Target::AtMost(ALL_STAND_MS));
    report.figure(took)?;
    stalls(report, deaths, quiet)
}

fn stalls(report: &mut Report<'_>, deaths: &[Death], quiet: &[Vec<Seen>]) -> Result<(), Error> {
    let any: fn(&Seen) -> bool = |_| true;
    for (name, share, bound) in [("p50", 0.5, P50_MS), ("p99", 0.99, P99_MS)] {
        let own = quantiles(deaths.iter().map(|death| &death.seen), share, any);
        let alone = quantiles(quiet.iter(), share, any);
        let figure = Figure::new(format!("stall, {name}"), "ms", &own);
        let figure = figure.target(Target::AtMost(bound)).against("no end", &own, &alone);
        report.figure(figure)?;
    }
    let longest = quantiles(deaths.iter().map(|death| &death.seen), 1.0, any);
    report.figure(Figure::new("stall, longest", "ms", &longest))?;
    // What the peer's own timer adds is nothing that anybody here can mend.
    for (name, share, bound) in [("p50", 0.5, P50_MS), ("p99", 0.99, P99_MS)] {
        let seen = deaths.iter().map(|death| &death.seen);
        let own = quantiles(seen, share, |seen| !seen.sent_again);
        let metric = format!("stall where the client sent nothing again, {name}");
        report.figure(Figure::new(metric, "ms", &own).target(Target::AtMost(bound)))?;
    }
    let share = |of: fn(&Seen) -> bool| {
        let percent = |death: &Death| {
            let count = death.seen.iter().filter(|seen| of(seen)).count();
            100.0 * count as f64 / death.seen.len().max(1) as f64
        };
        deaths.iter().map(percent).collect::<Vec<f64>>()
    };
    let again = share(|seen| seen.sent_again);
    report.figure(Figure::new("connections whose client sent again", "%", &again))?;
    let long = share(|seen| millis(seen.stall) > P99_MS);
    report.figure(Figure::new("connections that stalled for more than 300 ms", "%", &long))
}

/// Bytes that were lost and doubled, and connections of which bytes were changed.
fn bytes(faults: &[&Fault]) -> [u64; 3] {
    let mut sums = [0; 3];
    for fault in faults {
        match fault {
            Fault::Wrong(Wrong::Lost(bytes)) => sums[0] += bytes,
            Fault::Wrong(Wrong::Doubled(bytes)) => sums[1] += bytes,
            Fault::Wrong(Wrong::Changed) => sums[2] += 1,
            Fault::Broken(_) => {}
        }
    }
    sums
}

/// Of each death one, in milliseconds, among those connections that did not break.
fn quantiles<'a>(
    deaths: impl Iterator<Item = &'a Vec<Seen>>,
    share: f64,
    counts: impl Fn(&Seen) -> bool,
) -> Vec<f64> {
    let of_death = |seen: &Vec<Seen>| {
        let counted = seen.iter().filter(|seen| seen.fault.is_none() && counts(seen));
        let mut stalls: Vec<f64> = counted.map(|seen| millis(seen.stall)).collect();
        stalls.sort_by(f64::total_cmp);
        (!stalls.is_empty()).then(|| quantile(&stalls, share))
    };
    deaths.filter_map(of_death).collect()
}

fn millis(time: Nanos) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_broke_is_summed_by_its_kind_and_has_no_stall() {
        let broken = Fault::Broken("reset".to_owned());
        let faults = [Wrong::Lost(5), Wrong::Doubled(7), Wrong::Lost(1), Wrong::Changed];
        let faults: Vec<Fault> = faults.map(Fault::Wrong).into_iter().chain([broken]).collect();
        assert_eq!(bytes(&faults.iter().collect::<Vec<_>>()), [6, 7, 1]);
        let seen = |ms: u64, fault: Option<Fault>| Seen {
            stall: Nanos::from_millis(ms),
            sent_again: ms > 2,
            fault,
        };
        let death =
            vec![seen(1, None), seen(2, None), seen(3, None), seen(900, faults.last().cloned())];
        let all = |share| quantiles([&death].into_iter(), share, |_| true);
        assert_eq!((all(0.5), all(1.0)), (vec![2.0], vec![3.0]));
        let silent = quantiles([&death].into_iter(), 1.0, |seen| !seen.sent_again);
        assert_eq!(silent, [2.0]);
    }
}
