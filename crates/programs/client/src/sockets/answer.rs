//! What the daemon's answers bring: descriptors, of which regions are mapped.

use std::os::fd::OwnedFd;

use attach::{AttachError, RegionKind, Reply};
use base::RegionId;
use shm::sockets::{Side, SocketMemory};
use sys::eventfd::EventFd;

use super::region::Region;

/// Maps what the daemon gave for a region.
pub(crate) fn map(
    id: RegionId,
    reply: &Reply,
    descriptors: Vec<OwnedFd>,
) -> Result<Region, AttachError> {
    let mut descriptors = descriptors.into_iter();
    let mut next =
        || descriptors.next().ok_or_else(|| unusable("a region came without its memory"));
    match reply {
        Reply::Region { kind: RegionKind::App, .. } => {
            let (memory, daemon) = (open(next()?)?, event(next()?)?);
            Ok(Region::own(id, memory, daemon))
        }
        Reply::Region { kind: RegionKind::LocalPair, side } => {
            let side = if *side == 0 { Side::Zero } else { Side::One };
            let memory = open(next()?)?;
            let (other, own) = (event(next()?)?, event(next()?)?);
            Ok(Region::local_pair(id, memory, side, other, own))
        }
        _ => Err(unusable("it has no such region")),
    }
}

/// A doorbell of the daemon, away from the numbers that programs expect to be free.
pub(crate) fn event(fd: OwnedFd) -> Result<EventFd, AttachError> {
    Ok(EventFd::from_fd(fd)?.out_of_the_way())
}

/// Maps the memory of sockets.
pub(crate) fn open(memory: OwnedFd) -> Result<SocketMemory, AttachError> {
    SocketMemory::open(memory).map_err(|error| AttachError::Protocol(error.to_string()))
}

/// The error of an answer that makes no sense.
pub(crate) fn unusable(what: &str) -> AttachError {
    AttachError::Protocol(format!(
        "the daemon's answer cannot be used: {what}; build both from the same release"
    ))
}
