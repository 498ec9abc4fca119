//! Ids and times as plain numbers in serialised form.
//!
//! For `#[serde(with = "number::worker")]`: `base` knows no serialisation, and what is written
//! should not depend on how its types are built.

use base::{FlowGroup, Nanos, WorkerId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A worker's id, checked against [`WorkerId::LIMIT`].
pub(crate) mod worker {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(id: &WorkerId, to: S) -> Result<S::Ok, S::Error> {
        id.0.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<WorkerId, D::Error> {
        check(u16::deserialize(from)?)
    }

    pub(super) fn check<E: serde::de::Error>(id: u16) -> Result<WorkerId, E> {
        if id < WorkerId::LIMIT {
            return Ok(WorkerId(id));
        }
        Err(E::custom(format_args!(
            "worker {id} is not possible: ids end at {}",
            WorkerId::LIMIT - 1
        )))
    }
}

/// Workers' ids, each checked.
pub(crate) mod workers {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(ids: &[WorkerId], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ids.iter().map(|id| id.0))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<WorkerId>, D::Error> {
        Vec::<u16>::deserialize(from)?.into_iter().map(worker::check).collect()
    }
}

/// A group's number.
pub(crate) mod group {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(id: &FlowGroup, to: S) -> Result<S::Ok, S::Error> {
        id.0.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FlowGroup, D::Error> {
        u32::deserialize(from).map(FlowGroup)
    }
}

/// Nanoseconds.
pub(crate) mod nanos {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        time.0.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        u64::deserialize(from).map(Nanos)
    }
}
