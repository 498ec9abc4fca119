//! Several owners on one interface: a program for each queue.
//!
//! Whoever comes first attaches the interface's program, which begins with a look into a map of
//! programs by queue ([`Owners`]). Whoever comes later finds that map by the program's id, and puts
//! a program of its own there for each of its queues. It keeps the link, too: so the program stays
//! for as long as anybody uses it, and an owner that dies harms no other.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::bpf::{MAP_TYPE_PROG_ARRAY, Map, loaded};

/// What programs of ours are called, so that they know each other.
pub(super) const PROGRAM_NAME: &str = sys::bpf_query::OWN_PROGRAM;
const MAP_NAME: &str = "calisto_owners";

/// Queues that an interface can have.
pub(super) const QUEUES_MAX: u32 = 1024;

/// The programs of an interface by queue. A queue without one is served by the program that is
/// attached.
#[derive(Debug)]
pub(super) struct Owners {
    map: Map,
}

/// The program that somebody else has attached, as far as it is shared.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) owners: Owners,
    pub(super) link: OwnedFd,
}

impl Owners {
    pub(super) fn create() -> Result<Self, Errno> {
        Map::create(MAP_TYPE_PROG_ARRAY, MAP_NAME, 4, 4, QUEUES_MAX, 0).map(|map| Self { map })
    }

    /// From the next packet on, `program` decides about the packets of `queue`.
    pub(super) fn set(&self, queue: u16, program: BorrowedFd<'_>) -> Result<(), Errno> {
        self.map.update(&u32::from(queue).to_ne_bytes(), &program.as_raw_fd().to_ne_bytes())
    }

    /// From the next packet on, the attached program decides about the packets of `queue`.
    pub(super) fn unset(&self, queue: u16) -> Result<(), Errno> {
        match self.map.delete(&u32::from(queue).to_ne_bytes()) {
            Err(Errno::NOENT) => Ok(()),
            result => result,
        }
    }
}

impl AsFd for Owners {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// The host on an interface that has the program with id `program`; `None`: that is none of ours,
/// or is just going.
pub(super) fn find(program: u32) -> Result<Option<Host>, Errno> {
    let found = || {
        let map = loaded::map_of(program, PROGRAM_NAME, MAP_NAME, MAP_TYPE_PROG_ARRAY)?;
        let Some(map) = map else { return Ok(None) };
        let link = loaded::link_of(program)?;
        Ok(link.map(|link| Host { owners: Owners { map: Map::from_fd(map, 4, 4) }, link }))
    };
    match found() {
        Err(Errno::NOENT) => Ok(None),
        result => result,
    }
}
