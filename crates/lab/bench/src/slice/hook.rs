//! `calisto bench hook`: what a chain forwards in the XDP hook, and what the kernel and the
//! shortest programs do there.

use std::time::Duration;

use super::absent::{Given, in_turns_if_there};
use super::forwarder::Forwarder;
use super::generator::Traffic;
use super::rig::Rig;
use crate::cases::{Bench, Case, Plan};
use crate::error::Error;
use crate::figure::{Figure, Target};
use crate::report::Report;

/// `calisto bench hook` has no options of its own.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Hook {}

impl Bench for Hook {
    const NAME: &'static str = "hook";
    const CASES: &'static [Case] =
        &[Case { name: "forward", help: "packets a second between two wires", run: forward }];
    const NEEDS_TWO_CPUS: bool = true;
}

/// Bytes of the frames, without their checksums.
pub(super) const FRAME_BYTES: usize = 64;

fn forward(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpus = plan.cpus;
    report.begin(
        "forward",
        &format!(
            "as `calisto bench slice --case forward`: two veth pairs, BPF live frames of 64 bytes on \
             CPU {}, a sink that counts. What is in the hook runs where the generator does, as the \
             kernel's ip_forward does there",
            cpus.client
        ),
    )?;
    let mut rig = Rig::new(cpus)?;
    let length = plan.pick(Duration::from_millis(500), Duration::from_millis(100));
    let traffic = Traffic { frame_bytes: FRAME_BYTES, rate: None };
    let all = Forwarder::IN_HOOK;
    let rates = in_turns_if_there(plan, report, "64 B", all.len(), |which| {
        Ok(rig.measure(all[which], traffic, length)?.mpps)
    })?;
    print(report, &rates)
}

/// Ours against those that it must beat, then everybody.
fn print(report: &mut Report<'_>, rates: &[Given<f64>]) -> Result<(), Error> {
    let of = |forwarder: Forwarder| {
        let at = Forwarder::IN_HOOK.iter().position(|&one| one == forwarder);
        at.and_then(|at| rates[at].as_deref().ok())
    };
    for (ours, theirs, target) in [
        (Forwarder::Hook, Forwarder::Kernel, Some(2.5)),
        (Forwarder::Hook, Forwarder::XdpRoute, Some(0.95)),
        (Forwarder::HookAcl, Forwarder::Kernel, None),
    ] {
        // Of an absent one there is a line below.
        let (Some(own), other) = (of(ours), of(theirs).unwrap_or_default()) else { continue };
        let figure = Figure::new(ours.name(), "Mpps", own).against(theirs.name(), own, other);
        let target = target.map(Target::RatioAtLeast);
        report.figure(target.map_or(figure.clone(), |target| figure.target(target)))?;
    }
    for (forwarder, rates) in Forwarder::IN_HOOK.into_iter().zip(rates) {
        match rates {
            Err(why) => report.figure(Figure::missing(forwarder.name(), why))?,
            Ok(_) if forwarder.is_ours() => {}
            Ok(rates) => report.figure(Figure::new(forwarder.name(), "Mpps", rates))?,
        }
    }
    Ok(())
}
