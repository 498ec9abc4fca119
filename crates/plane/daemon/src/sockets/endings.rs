//! Sockets whose last descriptor is closed: as the kernel tells, and as it must be guessed.

use base::{AppId, Generation, Nanos};
use sys::SysError;
use sys::socket_end::SocketEnds;

use super::given::Given;
use super::names::SlotKey;

/// What is heard and guessed of ends.
pub(super) struct Endings {
    pub(super) ends: SocketEnds,
    pub(super) suspects: Vec<Suspects>,
    /// Connections that have ended here and go on in the kernel.
    pub(super) given: Given,
}

/// Connections of an application that no descriptor may stand for.
pub(super) struct Suspects {
    pub(super) app: AppId,
    pub(super) nameless: Vec<Nameless>,
    pub(super) look_at: Nanos,
    /// There is reason to look at all of them again after that.
    pub(super) again: bool,
}

/// A connection without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nameless {
    pub(super) place: SlotKey,
    pub(super) generation: Generation,
}

impl Endings {
    /// Hears of ends from now on.
    ///
    /// # Errors
    /// The kernel's netlink socket cannot be opened.
    pub(super) fn watch() -> Result<Self, SysError> {
        Ok(Self { ends: SocketEnds::watch()?, suspects: Vec::new(), given: Given::new() })
    }

    /// Notes that there is reason to look again at what is suspected of an application. False:
    /// nothing is.
    pub(super) fn look_again(&mut self, app: AppId) -> bool {
        // However often its processes come and go: two lists of an application are never kept.
        let suspects = self.suspects.iter_mut().find(|one| one.app == app);
        suspects.map(|one| one.again = true).is_some()
    }

    /// Takes what is to be looked at now.
    pub(super) fn take_due(&mut self, now: Nanos) -> Vec<Suspects> {
        self.suspects.extract_if(.., |suspects| suspects.look_at <= now).collect()
    }

    /// When to look next.
    pub(super) fn next_deadline(&self) -> Nanos {
        let due = self.suspects.iter().map(|one| one.look_at);
        due.min().unwrap_or(Nanos::FAR_FUTURE)
    }
}
