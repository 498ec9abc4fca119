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
    unknown: Option<Unknown>,
    /// Connections that have ended here and go on in the kernel.
    pub(super) given: Given,
}

/// It was not known which sockets are open. When that is looked for again, and how long after the
/// look before.
#[derive(Clone, Copy, Debug)]
struct Unknown {
    look_at: Nanos,
    rest: Nanos,
}

/// One that could not know is followed by another look after so long at first, and at most: each
/// keeps the attach server for as long as processes keep it.
const LOOK_AGAIN_AFTER: Nanos = Nanos::from_secs(10);
const LOOK_AGAIN_MAX: Nanos = Nanos::from_secs(600);

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
        Ok(Self {
            ends: SocketEnds::watch()?,
            suspects: Vec::new(),
            unknown: None,
            given: Given::new(),
        })
    }

    /// Notes that there is reason to look again at what is suspected of an application. False:
    /// nothing is.
    pub(super) fn look_again(&mut self, app: AppId) -> bool {
        // However often its processes come and go: two lists of an application are never kept.
        let suspects = self.suspects.iter_mut().find(|one| one.app == app);
        suspects.map(|one| one.again = true).is_some()
    }

    /// A look for sockets that are open has ended; whether it was one for all of them, and whether
    /// it knows. One for some tells nothing of the others: when those are looked for stays.
    pub(super) fn note_look(&mut self, is_for_all: bool, is_known: bool, now: Nanos) {
        if !is_for_all && (is_known || self.unknown.is_some()) {
            return;
        }
        let rest = match self.unknown {
            Some(Unknown { rest, .. }) => Nanos(rest.0 * 2).min(LOOK_AGAIN_MAX),
            None => LOOK_AGAIN_AFTER,
        };
        self.unknown = (!is_known).then_some(Unknown { look_at: now + rest, rest });
    }

    /// Whether all sockets are to be looked for again, because the last look did not know.
    pub(super) fn is_look_due(&self, now: Nanos) -> bool {
        self.unknown.is_some_and(|unknown| unknown.look_at <= now)
    }

    /// Takes what is to be looked at now.
    pub(super) fn take_due(&mut self, now: Nanos) -> Vec<Suspects> {
        self.suspects.extract_if(.., |suspects| suspects.look_at <= now).collect()
    }

    /// When to look next.
    pub(super) fn next_deadline(&self) -> Nanos {
        let due = self.suspects.iter().map(|one| one.look_at);
        let unknown = self.unknown.map(|unknown| unknown.look_at);
        due.chain(unknown).min().unwrap_or(Nanos::FAR_FUTURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_did_not_know_is_followed_by_others_ever_later_until_one_knows() {
        let mut endings = Endings::watch().expect("netlink is there");
        let mut now = Nanos::from_secs(7);
        assert!(!endings.is_look_due(now) && endings.next_deadline() == Nanos::FAR_FUTURE);
        let mut rests = Vec::new();
        for _ in 0..8 {
            endings.note_look(true, false, now);
            assert!(!endings.is_look_due(now));
            let due = endings.next_deadline();
            rests.push(due.since(now).0 / 1_000_000_000);
            now = due;
            assert!(endings.is_look_due(now));
        }
        assert_eq!(rests, [10, 20, 40, 80, 160, 320, 600, 600]);
        endings.note_look(true, true, now);
        assert!(!endings.is_look_due(Nanos::FAR_FUTURE));
    }

    #[test]
    fn a_look_about_one_application_leaves_the_look_for_all_due() {
        let mut endings = Endings::watch().expect("netlink is there");
        let now = Nanos::from_secs(7);
        endings.note_look(false, true, now);
        assert_eq!(endings.next_deadline(), Nanos::FAR_FUTURE);
        endings.note_look(false, false, now);
        let due = endings.next_deadline();
        assert_eq!(due, now + LOOK_AGAIN_AFTER);
        for is_known in [true, false, true] {
            endings.note_look(false, is_known, now + Nanos::from_secs(1));
            assert_eq!(endings.next_deadline(), due, "{is_known}");
        }
        assert!(endings.is_look_due(due));
        endings.note_look(true, true, due);
        assert!(!endings.is_look_due(Nanos::FAR_FUTURE));
    }
}
