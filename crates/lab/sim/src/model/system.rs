//! Whose rules decide where a packet goes.

use policy::OwnerTable;
use policy::steer::{SteerConfig, by_name};

use super::PlanError;

/// Groups of the daemon's own table, unless configured otherwise.
const GROUPS: u32 = 1 << 16;

/// Who steers an application's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// Shenango: the hash modulo the number of workers that hold a core, for each packet anew.
    Shenango,
    /// The public code of Calisto: Shenango's rule, and for each packet a look into a table of 500
    /// flows that decides nothing while a worker is active.
    PublicCode,
    /// One queue from which every worker takes: what theory calls M/G/n. No daemon reaches it,
    /// because nothing is charged for what they do to each other there ([`crate::scan`] does that).
    OneQueue,
    /// One of this project's policies, by name, over this many groups.
    Policy {
        /// As `calisto steer` knows it; the Calisto paper's Listing 3 is `listing3`.
        name: String,
        /// A power of two from 128 to 1 Mi.
        groups: u32,
    },
}

impl System {
    /// A policy over as many groups as the daemon's own table has.
    pub fn policy(name: &str) -> Self {
        Self::policy_over(name, GROUPS)
    }

    /// A policy over that many groups. A scenario with very many applications wants few (the daemon
    /// gives an attached one 4096): 65,536 groups are some 400 kB.
    pub fn policy_over(name: &str, groups: u32) -> Self {
        Self::Policy { name: name.to_owned(), groups }
    }

    /// The system of that name: `shenango`, `public_code`, `one_queue`, or a policy over as many
    /// groups.
    ///
    /// # Errors
    /// There is none of that name, or that many groups are not possible.
    pub fn by_name(name: &str, groups: u32) -> Result<Self, PlanError> {
        let system = match name {
            "shenango" => Self::Shenango,
            "public_code" => Self::PublicCode,
            "one_queue" => Self::OneQueue,
            policy => Self::policy_over(policy, groups),
        };
        system.check().map(|()| system)
    }

    /// Its name in a legend.
    pub fn name(&self) -> &str {
        match self {
            Self::Shenango => "shenango",
            Self::PublicCode => "public_code",
            Self::OneQueue => "one_queue",
            Self::Policy { name, .. } => name,
        }
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        let Self::Policy { name, groups } = self else { return Ok(()) };
        OwnerTable::new(*groups, 0).map_err(PlanError::Groups)?;
        by_name(name, SteerConfig { groups: 0, seed: 0 }).map_err(PlanError::Policy)?;
        Ok(())
    }

    /// Groups of its table, if it has one.
    pub(super) fn groups(&self) -> u32 {
        match self {
            Self::Policy { groups, .. } => *groups,
            Self::Shenango | Self::PublicCode | Self::OneQueue => 0,
        }
    }

    /// Whether each packet pays for an exact table of flows, and of how many.
    pub(super) fn flow_table(&self) -> Option<u32> {
        match self {
            Self::PublicCode => Some(500),
            // The paper's "up to 700 thousand records".
            Self::Policy { name, .. } if name == "listing3" => Some(700_000),
            _ => None,
        }
    }

    /// Whether flows stay with a worker that has no core. By the paper's Listing 3 each packet asks
    /// for the core of its flow, however long that has been away.
    pub(super) fn keeps_flows(&self) -> bool {
        matches!(self, Self::Policy { name, .. } if name == "listing3")
    }

    /// Whether the workers that are parked lose their flows at once.
    pub(super) fn follows_cores(&self) -> bool {
        matches!(self, Self::Shenango | Self::PublicCode)
    }
}
