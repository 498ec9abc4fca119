//! Packets a second from one wire to the other: through a slice, and through everybody else.

use std::time::Duration;

use super::forwarder::Forwarder;
use super::generator::Traffic;
use super::rig::Rig;
use crate::cases::Plan;
use crate::error::Error;
use crate::figure::{Figure, Target};
use crate::report::Report;
use crate::sockets::turns::in_turns;

/// Bytes of the frames, without their checksums: the shortest that are usual, the longest.
pub(super) const FRAME_BYTES: [usize; 2] = [64, 1514];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpus = plan.cpus;
    report.begin(
        "forward",
        &format!(
            "two veth pairs between two namespaces. Generator: BPF live frames on CPU {}, as many \
             as it can, UDP of 1024 flows; sink: XDP that counts and drops. Forwarders run on CPU \
             {}; the kernel's half of receiving runs where the generator does, and all of kernel \
             ip_forward and XDP redirect. Frames without their checksums",
            cpus.client, cpus.server
        ),
    )?;
    let mut rig = Rig::new(cpus)?;
    for frame_bytes in FRAME_BYTES {
        print(report, frame_bytes, &contest(plan, report, &mut rig, frame_bytes)?)?;
    }
    Ok(())
}

/// Millions of packets a second by round, or why there are none.
type Rates = Result<Vec<f64>, String>;

/// Everybody's, in turns.
fn contest(
    plan: &Plan,
    report: &Report<'_>,
    rig: &mut Rig,
    frame_bytes: usize,
) -> Result<Vec<Rates>, Error> {
    let length = plan.pick(Duration::from_millis(500), Duration::from_millis(100));
    let traffic = Traffic { frame_bytes, rate: None };
    let mut absent: Vec<Option<String>> = vec![None; Forwarder::ALL.len()];
    let what = format!("{frame_bytes} B");
    let samples = in_turns(plan, report, &what, Forwarder::ALL.len(), |which| {
        if absent[which].is_some() {
            return Ok(None);
        }
        match rig.measure(Forwarder::ALL[which], traffic, length) {
            Ok(through) => Ok(Some(through.mpps)),
            Err(error @ Error::Needs { .. }) => {
                absent[which] = Some(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    })?;
    let rates = absent.into_iter().zip(samples).map(|(absent, samples)| match absent {
        None => Ok(samples.into_iter().flatten().collect()),
        Some(why) => Err(why),
    });
    Ok(rates.collect())
}

/// Ours against those that it must beat, then everybody.
fn print(report: &mut Report<'_>, frame_bytes: usize, rates: &[Rates]) -> Result<(), Error> {
    let of = |forwarder: Forwarder| {
        let at = Forwarder::ALL.iter().position(|&one| one == forwarder);
        at.map_or(&[][..], |at| rates[at].as_deref().unwrap_or_default())
    };
    let own = of(Forwarder::Slice);
    let packet_rings = (frame_bytes == FRAME_BYTES[0]).then_some(Target::RatioAtLeast(1.15));
    for (forwarder, target) in [
        (Forwarder::TestpmdXdp, Some(Target::RatioAtLeast(1.1))),
        (Forwarder::PacketRings, packet_rings),
    ] {
        let metric = format!("{frame_bytes} B: {}", Forwarder::Slice.name());
        let figure = Figure::new(metric, "Mpps", own).against(forwarder.name(), own, of(forwarder));
        report.figure(target.map_or(figure.clone(), |target| figure.target(target)))?;
    }
    for (forwarder, rates) in Forwarder::ALL.into_iter().zip(rates) {
        let metric = format!("{frame_bytes} B: {}", forwarder.name());
        match rates {
            Err(why) => report.figure(Figure::missing(metric, why))?,
            Ok(_) if forwarder == Forwarder::Slice => {}
            Ok(rates) => report.figure(Figure::new(metric, "Mpps", rates))?,
        }
    }
    Ok(())
}
