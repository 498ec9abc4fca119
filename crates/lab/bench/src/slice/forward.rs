//! Packets a second from one wire to the other: through a slice, and through everybody else.

use std::time::Duration;

use super::absent::{Given, in_turns_if_there};
use super::forwarder::Forwarder;
use super::generator::Traffic;
use super::rig::Rig;
use crate::cases::Plan;
use crate::error::Error;
use crate::figure::{Figure, Target};
use crate::report::Report;

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

/// Everybody's millions of packets a second, in turns.
fn contest(
    plan: &Plan,
    report: &Report<'_>,
    rig: &mut Rig,
    frame_bytes: usize,
) -> Result<Vec<Given<f64>>, Error> {
    let length = plan.pick(Duration::from_millis(500), Duration::from_millis(100));
    let traffic = Traffic { frame_bytes, rate: None };
    let what = format!("{frame_bytes} B");
    in_turns_if_there(plan, report, &what, Forwarder::ALL.len(), |which| {
        Ok(rig.measure(Forwarder::ALL[which], traffic, length)?.mpps)
    })
}

/// Ours against those that it must beat, then everybody.
fn print(report: &mut Report<'_>, frame_bytes: usize, rates: &[Given<f64>]) -> Result<(), Error> {
    let of = |forwarder: Forwarder| {
        let at = Forwarder::ALL.iter().position(|&one| one == forwarder);
        at.and_then(|at| rates[at].as_deref().ok())
    };
    let packet_rings = (frame_bytes == FRAME_BYTES[0]).then_some(Target::RatioAtLeast(1.15));
    for (ours, theirs, target) in [
        (Forwarder::Bridge, Forwarder::TestpmdXdp, Some(Target::RatioAtLeast(1.1))),
        (Forwarder::Bridge, Forwarder::PacketRings, packet_rings),
        (Forwarder::Router, Forwarder::Kernel, None),
    ] {
        // Of an absent one there is a line below.
        let (Some(own), other) = (of(ours), of(theirs).unwrap_or_default()) else { continue };
        let metric = format!("{frame_bytes} B: {}", ours.name());
        let figure = Figure::new(metric, "Mpps", own).against(theirs.name(), own, other);
        report.figure(figure.target(target))?;
    }
    for (forwarder, rates) in Forwarder::ALL.into_iter().zip(rates) {
        let metric = format!("{frame_bytes} B: {}", forwarder.name());
        match rates {
            Err(why) => report.figure(Figure::missing(metric, why))?,
            Ok(_) if forwarder.is_ours() => {}
            Ok(rates) => report.figure(Figure::new(metric, "Mpps", rates))?,
        }
    }
    Ok(())
}
