//! More than can be forwarded, all of it to one queue: whether what is forwarded stays what it was.
//!
//! First the capacity is looked for, by rates one above the other; then those rates and twice the
//! capacity take turns.

use std::time::Duration;

use super::forwarder::Forwarder;
use super::generator::Traffic;
use super::rig::Rig;
use crate::cases::{Plan, in_turns};
use crate::error::Error;
use crate::figure::{Figure, Target, median};
use crate::report::Report;

/// Offered rates as shares of the capacity that was found; the last is the one in question.
const LOADS: [f64; 6] = [0.5, 0.8, 1.0, 1.2, 1.5, 2.0];

/// The first rate that is tried, and how much more each next one is, in packets a second.
const FIRST_RATE: f64 = 200e3;
const STEP: f64 = 1.25;
const STEPS_MAX: usize = 16;

/// Beyond the capacity that much of what is offered is lost.
const LOST: f64 = 0.1;

const FRAME_BYTES: usize = 64;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let length = plan.pick(Duration::from_millis(400), Duration::from_millis(100));
    let cpus = plan.cpus;
    report.begin(
        "overload",
        &format!(
            "as in case forward, {FRAME_BYTES} B, at rates that the generator keeps; every packet \
             comes by the one queue there is. Capacity: the most that comes out at any rate, each \
             a quarter above the one before, until {:.0} % are lost",
            100.0 * LOST
        ),
    )?;
    let mut rig = Rig::new(cpus)?;
    for forwarder in [Forwarder::Bridge, Forwarder::TestpmdXdp, Forwarder::PacketRings] {
        let name = forwarder.name();
        let mut at = |rate: f64| {
            let traffic = Traffic { frame_bytes: FRAME_BYTES, rate: Some(rate) };
            rig.measure(forwarder, traffic, length)
        };
        report.progress(format_args!("{name}: the capacity"));
        let capacity = match capacity(&mut at) {
            Ok(capacity) => capacity,
            Err(error @ Error::Needs { .. }) => {
                report.figure(Figure::missing(name, error.to_string()))?;
                continue;
            }
            Err(error) => return Err(error),
        };
        let samples =
            in_turns(plan, report, name, LOADS.len(), |which| at(LOADS[which] * capacity))?;
        let goodput =
            |which: usize| samples[which].iter().map(|through| through.mpps).collect::<Vec<f64>>();
        let rates: Vec<Vec<f64>> = (0..LOADS.len()).map(goodput).collect();
        for ((load, rates), samples) in LOADS.iter().zip(&rates).zip(&samples) {
            let offered: Vec<f64> = samples.iter().map(|through| through.offered_mpps).collect();
            let metric = format!("{name}: goodput at {load} x capacity");
            let figure = Figure::new(metric, "Mpps", rates);
            report.figure(figure.against("offered", rates, &offered))?;
        }
        let twice = rates.last().expect("there is more than one load");
        let peak = peak(&rates);
        let figure = Figure::new(format!("{name}: goodput at twice the capacity"), "Mpps", twice);
        let figure = figure.against("peak", twice, peak);
        report.figure(match forwarder {
            Forwarder::Bridge => figure.target(Target::RatioAtLeast(0.9)),
            _ => figure,
        })?;
    }
    Ok(())
}

/// The most that comes out, in packets a second.
fn capacity(at: &mut dyn FnMut(f64) -> Result<super::rig::Through, Error>) -> Result<f64, Error> {
    let (mut rate, mut most) = (FIRST_RATE, 0.0_f64);
    for _ in 0..STEPS_MAX {
        let through = at(rate)?;
        most = most.max(through.mpps * 1e6);
        if through.mpps * 1e6 < (1.0 - LOST) * rate {
            break;
        }
        rate *= STEP;
    }
    Ok(most)
}

/// The rates of the load with the largest median.
fn peak(rates: &[Vec<f64>]) -> &[f64] {
    let of = |rates: &[f64]| median(rates).unwrap_or(0.0);
    rates.iter().max_by(|a, b| of(a).total_cmp(&of(b))).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::rig::Through;

    #[test]
    fn the_capacity_is_what_comes_out_where_more_is_lost() {
        let mut tried = Vec::new();
        let mut forwarder = |rate: f64| {
            tried.push(rate);
            Ok(Through { offered_mpps: rate / 1e6, mpps: (rate / 1e6).min(0.5) })
        };
        assert_eq!(capacity(&mut forwarder).expect("nothing fails"), 500e3);
        assert!(tried.len() < STEPS_MAX, "{tried:?}");
        assert!(tried.windows(2).all(|pair| pair[0] < pair[1]), "{tried:?}");
    }

    #[test]
    fn one_that_never_loses_ends_the_search_all_the_same() {
        let mut wire = |rate: f64| Ok(Through { offered_mpps: rate / 1e6, mpps: rate / 1e6 });
        assert!(capacity(&mut wire).expect("nothing fails") > 1e6);
    }

    #[test]
    fn the_peak_is_of_medians_and_not_of_the_luckiest_round() {
        let rates = [vec![1.0, 1.0, 9.0], vec![2.0, 2.0, 2.0], vec![1.5, 1.5, 1.5]];
        assert_eq!(peak(&rates), [2.0, 2.0, 2.0]);
        assert!(peak(&[]).is_empty());
    }
}
