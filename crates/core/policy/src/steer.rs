//! The steering policies: who gets a new group, and what changes when the workers do.
//!
//! A policy is one file, its module, its line in [`NAMES`](crate::steer::NAMES), its arm of
//! [`by_name`](crate::steer::by_name), and what a recording keeps of it in `saved.rs`.

mod balanced;
mod calisto;
mod historic;
mod hybrid;
mod least_loaded;
mod least_movement;
mod modulo;
mod prefilled;
mod saved;
mod shared;
mod sticky;
mod workers;

use base::{FlowGroup, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use crate::plan::Move;
use crate::sample::LoadSample;
use crate::table::OwnerTable;
use crate::unknown::UnknownPolicy;

pub use least_movement::{Census, LeastMovement};
use saved::Saved;
pub use saved::SavedSteer;
pub use workers::Workers;

/// Decides which worker owns each flow group. Asks for changes; never performs them.
///
/// [`crate::Control`] calls it; a policy never sees a pinned group.
pub trait Steer: Send {
    /// The name under which it is chosen.
    fn name(&self) -> &'static str;

    /// A group that nobody owns has sent a packet. Constant time, no allocation: this is called
    /// between two packets.
    fn place(&mut self, group: FlowGroup, workers: &Workers, now: Nanos) -> WorkerId;

    /// A group that has been idle for long has sent a packet; `owner` is active. Another owner
    /// than this one costs a hand-over before the packet goes anywhere, and most flows that rest
    /// come back, so it stays unless the policy has a reason. Constant time, no allocation.
    fn wake(
        &mut self,
        group: FlowGroup,
        owner: WorkerId,
        workers: &Workers,
        now: Nanos,
    ) -> WorkerId {
        let _ = (group, workers, now);
        owner
    }

    /// Whether `change` asks for a new table. When a worker left, a new table is made in any
    /// case: its groups must go somewhere.
    fn wants_rewrite(&self, change: Change) -> bool;

    /// A rewrite begins: `census` is what the table holds. [`Steer::reassign`] follows for every
    /// group, in ascending order.
    /// Bounded by the number of workers, never of groups: packets wait meanwhile.
    fn begin_rewrite(&mut self, census: &Census, workers: &Workers) {
        let _ = (census, workers);
    }

    /// The owner of a group in the new table. `owner` is who has it now (perhaps a worker that
    /// is leaving), `home` who had it before it was driven away. `None` leaves it unowned.
    fn reassign(&mut self, group: GroupState, workers: &Workers, now: Nanos) -> Option<WorkerId> {
        let owner = group.owner?;
        Some(if workers.is_active(owner) { owner } else { self.place(group.group, workers, now) })
    }

    /// One slice of load has been measured: moves that it asks for. Bounded by the slice.
    fn observe(
        &mut self,
        load: &LoadSample,
        table: &OwnerTable,
        workers: &Workers,
        moves: &mut Vec<Move>,
    ) {
        let _ = (load, table, workers, moves);
    }

    /// An outside controller had the table for a while and has it no more: what was measured
    /// before is about another table.
    fn resume(&mut self) {}

    /// All that it remembers, so that a recording can begin at any moment; `None`: it cannot be
    /// recorded.
    fn save(&self) -> Option<SavedSteer> {
        None
    }

    /// Any worker may take any packet: the shell then picks the shortest queue itself and reads
    /// no table.
    fn shares_queue(&self) -> bool {
        false
    }
}

/// One group as a rewrite meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// Which.
    pub group: FlowGroup,
    /// Who owns it now.
    pub owner: Option<WorkerId>,
    /// Who owned it before its owner left, or whoever it was given to deliberately.
    pub home: Option<WorkerId>,
    /// Whether it has been without packets for long.
    pub idle: bool,
}

impl GroupState {
    /// Its home, when that is another worker and there.
    #[inline]
    pub fn way_home(&self, workers: &Workers) -> Option<WorkerId> {
        self.home.filter(|&home| Some(home) != self.owner && workers.is_active(home))
    }

    /// Whether its owner only keeps it for a worker that is away (when it has no way home).
    #[inline]
    pub fn is_displaced(&self) -> bool {
        self.home.is_some() && self.home != self.owner
    }
}

/// Why a new table may be wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The policy has just been chosen.
    Adopted,
    /// Workers came, or came back.
    Grown,
}

/// What a policy may be told at its making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteerConfig {
    /// Hashed and virtual groups together.
    pub groups: usize,
    /// Seed of the policies that draw lots.
    pub seed: u64,
}

/// Every policy with a sentence of help.
pub const NAMES: [(&str, &str); 10] = [
    ("modulo", "group modulo active workers, rewritten whole whenever they change (Shenango)"),
    ("calisto", "a group's first packet places it on the next worker in turn, where it stays"),
    ("hybrid", "modulo while a group is cold, sticky once it repeats"),
    ("prefilled", "every group has an owner before its first packet; then like sticky"),
    ("sticky", "like calisto, and when workers change the fewest groups move that restore balance"),
    (
        "balanced",
        "like sticky, and a slow loop moves few groups from loaded to idle workers (RSS++)",
    ),
    ("least_loaded", "a new group goes to the less delayed of two workers drawn by lot"),
    ("shared", "any worker takes any packet: one queue, no affinity, no order (scale-up)"),
    ("listing3", "historic: the Calisto paper's Listing 3, to be measured against"),
    ("public_code", "historic: the public code of Calisto, to be measured against"),
];

/// Makes the policy of that name.
///
/// # Errors
/// No policy has that name; the error suggests the nearest one.
pub fn by_name(name: &str, config: SteerConfig) -> Result<Box<dyn Steer>, UnknownPolicy> {
    Ok(match name {
        "modulo" => Box::new(modulo::Modulo),
        "calisto" => Box::new(calisto::Calisto::default()),
        "hybrid" => Box::new(hybrid::Hybrid::new(config.groups)),
        "prefilled" => Box::new(prefilled::Prefilled::default()),
        "sticky" => Box::new(sticky::Sticky::default()),
        "balanced" => Box::new(balanced::Balanced::default()),
        "least_loaded" => Box::new(least_loaded::LeastLoaded::new(config.seed)),
        "shared" => Box::new(shared::Shared),
        "listing3" => Box::new(historic::Listing3::default()),
        "public_code" => Box::new(historic::PublicCode),
        unknown => return Err(UnknownPolicy::new("steering", unknown, &NAMES)),
    })
}

/// Round robin over the active workers, without a reset that would use the first one more often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Turn(usize);

impl Turn {
    #[inline]
    fn next(&mut self, workers: &Workers) -> WorkerId {
        let active = workers.active();
        self.0 = if self.0 < active.len().saturating_sub(1) { self.0 + 1 } else { 0 };
        active[self.0]
    }
}

/// Shenango's rule: the group's number modulo the number of active workers, as a rank among them.
#[inline]
fn modulo_owner(group: FlowGroup, workers: &Workers) -> WorkerId {
    workers.active()[group.index() % workers.active().len()]
}

#[cfg(test)]
mod tests;
