//! Requests to the control loop that cannot be carried out, and why.

use std::fmt;

use base::{FlowGroup, WorkerId};

use crate::table::Entry;

/// Pins at once, at most.
pub const PINS_MAX: usize = 4096;

/// Whether every owner is one of `active`: for whoever reads a table from outside, before it is
/// given to [`crate::Control::load`]. Looks at every group, so it is no work for the data loop.
///
/// # Errors
/// The first worker that is not active.
pub fn check_owners(owners: &[Entry], active: &[WorkerId]) -> Result<(), Refused> {
    let mut owners = owners.iter().filter_map(|entry| entry.owner());
    match owners.find(|owner| !active.contains(owner)) {
        Some(stranger) => Err(Refused::Worker(stranger)),
        None => Ok(()),
    }
}

/// A request that cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A loaded table has another number of groups.
    Groups {
        /// In the table given.
        given: usize,
        /// In the table in use.
        have: u32,
    },
    /// The worker is not active.
    Worker(WorkerId),
    /// There is no such group.
    NoGroup(FlowGroup),
    /// Too many pins.
    Pins,
    /// The group is pinned to another worker.
    Pinned(FlowGroup, WorkerId),
    /// The group has another owner than the proposal says, or none.
    NotOwner(FlowGroup, WorkerId),
    /// The group has an owner: it is to be moved, not placed.
    Owned(FlowGroup, WorkerId),
    /// The group is to move to the worker that has it.
    Stays(FlowGroup, WorkerId),
    /// More proposals than are kept.
    Proposals {
        /// In this proposal.
        given: usize,
        /// For how many more there is room now.
        room: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Groups { given, have } => write!(
                f,
                "the table has {given} groups and the daemon {have}: export one from this daemon, \
                 or start it with `groups = {given}`"
            ),
            Self::Worker(worker) => {
                write!(f, "worker {worker} is not active: see `calisto status`")
            }
            Self::NoGroup(group) => {
                write!(f, "there is no group {group}: see `calisto steer show`")
            }
            Self::Pins => {
                write!(f, "{PINS_MAX} pins are in force and no more are possible: unpin some")
            }
            Self::Pinned(group, worker) => write!(
                f,
                "group {group} is pinned to worker {worker}: unpin it first, or leave it there"
            ),
            Self::NotOwner(group, worker) => write!(
                f,
                "worker {worker} does not own group {group}: propose again from a newer sample"
            ),
            Self::Owned(group, worker) => {
                write!(f, "group {group} is worker {worker}'s: move it from there")
            }
            Self::Stays(group, worker) => {
                write!(f, "group {group} is worker {worker}'s already: leave it out")
            }
            Self::Proposals { given, room } => write!(
                f,
                "{given} proposals at once are too many: there is room for {room}; wait until \
                 what was proposed before is carried out, or propose less"
            ),
        }
    }
}

impl std::error::Error for Refused {}
