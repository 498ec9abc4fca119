//! `public_code`: what the published code of Calisto does while a worker is active, which is
//! Shenango's rule: the hash modulo the active workers.
//!
//! Its table of 500 flows only suggests which core to wake when none is active; that each packet
//! pays for a look into it, and a line of log once it is full, is the simulator's to charge.

use base::{FlowGroup, Nanos, WorkerId};

use crate::steer::modulo::Modulo;
use crate::steer::{Change, GroupState, Saved, SavedSteer, Steer, Workers};

/// Shenango's rule under another name.
#[derive(Debug)]
pub(in crate::steer) struct PublicCode;

impl Steer for PublicCode {
    fn name(&self) -> &'static str {
        "public_code"
    }

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::PublicCode.into())
    }

    fn place(&mut self, group: FlowGroup, workers: &Workers, now: Nanos) -> WorkerId {
        Modulo.place(group, workers, now)
    }

    fn wants_rewrite(&self, change: Change) -> bool {
        Modulo.wants_rewrite(change)
    }

    fn reassign(&mut self, group: GroupState, workers: &Workers, now: Nanos) -> Option<WorkerId> {
        Modulo.reassign(group, workers, now)
    }
}
