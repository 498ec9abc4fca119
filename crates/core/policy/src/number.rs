//! Ids and times as plain numbers in serialised form.
//!
//! For `#[serde(with = "number::worker")]`: `base` knows no serialisation, and what is written
//! should not depend on how its types are built.

use base::{AppId, FlowGroup, Nanos, WorkerId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cores::APP_LIMIT;

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

/// An application's number, checked against [`APP_LIMIT`].
pub(crate) mod app {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(id: &AppId, to: S) -> Result<S::Ok, S::Error> {
        id.0.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<AppId, D::Error> {
        check(u16::deserialize(from)?)
    }

    pub(super) fn check<E: serde::de::Error>(id: u16) -> Result<AppId, E> {
        if id < APP_LIMIT {
            return Ok(AppId(id));
        }
        Err(E::custom(format_args!(
            "application {id} is not possible: ids end at {}",
            APP_LIMIT - 1
        )))
    }
}

/// Applications' numbers, each checked.
pub(crate) mod apps {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(ids: &[AppId], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ids.iter().map(|id| id.0))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<AppId>, D::Error> {
        Vec::<u16>::deserialize(from)?.into_iter().map(app::check).collect()
    }
}

/// Two lists of applications' numbers, each checked.
pub(crate) mod both_apps {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        ids: &[Vec<AppId>; 2],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        ids.each_ref().map(|ids| Numbers(ids.clone())).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<[Vec<AppId>; 2], D::Error> {
        <[Numbers; 2]>::deserialize(from).map(|both| both.map(|Numbers(ids)| ids))
    }

    #[derive(Serialize, Deserialize)]
    struct Numbers(#[serde(with = "apps")] Vec<AppId>);
}

/// What is known of applications, each number checked.
pub(crate) mod by_app {
    use super::*;

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        all: &[(AppId, T)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(|(id, known)| (id.0, known)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        from: D,
    ) -> Result<Vec<(AppId, T)>, D::Error> {
        let all = Vec::<(u16, T)>::deserialize(from)?;
        all.into_iter().map(|(id, known)| Ok((app::check(id)?, known))).collect()
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
