//! Detects kernel packet filters that accelerated traffic would bypass: where there are any,
//! nothing is served until `sockets.ignore_firewall` says so. They are netfilter's, those of
//! traffic control at the interfaces of our ports, BPF programs that choose the socket of a packet,
//! and policies of IPsec: what those want encrypted must not leave as it is.
//!
//! Rules may come later, too. A connection of ours cannot be handed to the kernel, and the rules
//! cannot be asked about it; so whoever has sockets is put out then. Listeners and UDP sockets go
//! on in the kernel, connections end as at the daemon's own end, and new ones are the kernel's.

use std::os::fd::{AsFd, BorrowedFd};

use base::Nanos;
use sys::netns::Netns;
use sys::nftables::{self, RuleChanges};
use sys::{SysError, traffic_filters, xfrm};

/// Of nf_tables the kernel tells changes, of the other filters it does not: they are looked at so
/// often while anything is served, and an answer about them is as old at most.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);

/// What is known of the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Unguarded,
    Guarded,
    /// The kernel did not tell: as if it were guarded, for whoever comes.
    Nothing,
}

/// The filters of this network namespace.
pub(super) struct Firewall {
    is_ignored: bool,
    changes: RuleChanges,
    known: Known,
    look_at: Nanos,
    place: Place,
    look: fn(&Place) -> Result<bool, SysError>,
}

/// Where filters are looked for.
struct Place {
    namespace: Netns,
    /// The interfaces of our ports.
    interfaces: Vec<u32>,
}

impl Place {
    fn has_filters(&self) -> Result<bool, SysError> {
        let mut has_any = nftables::guards()?.any();
        has_any |= xfrm::policies()? > 0;
        has_any |= traffic_filters::of_lookups(self.namespace.as_fd())? > 0;
        for interface in &self.interfaces {
            has_any |= traffic_filters::at_interface(*interface)? > 0;
        }
        Ok(has_any)
    }
}

impl Firewall {
    /// Hears of changes from now on. `interfaces` are those of our ports.
    pub(super) fn watch(
        is_ignored: bool,
        interfaces: impl IntoIterator<Item = u32>,
    ) -> Result<Self, SysError> {
        let mut interfaces: Vec<u32> = interfaces.into_iter().collect();
        // Several ports may be queues of one.
        interfaces.sort_unstable();
        interfaces.dedup();
        Ok(Self {
            is_ignored,
            changes: RuleChanges::watch()?,
            known: Known::Nothing,
            look_at: Nanos::ZERO,
            place: Place { namespace: Netns::current()?, interfaces },
            look: Place::has_filters,
        })
    }

    /// The interface of a port is another one from now on.
    pub(super) fn renumber(&mut self, from: u32, to: u32) {
        self.place.interfaces.iter_mut().filter(|is| **is == from).for_each(|is| *is = to);
        self.known = Known::Nothing;
    }

    /// Whether the filters are passed by from now on.
    pub(super) fn ignore(&mut self, is_ignored: bool) {
        self.is_ignored = is_ignored;
        self.known = Known::Nothing;
    }

    /// Whether no socket may pass by the filters now.
    pub(super) fn forbids(&mut self, now: Nanos) -> bool {
        !self.is_ignored && self.update(now) != Known::Unguarded
    }

    /// Looks again, if there is reason to.
    fn update(&mut self, now: Nanos) -> Known {
        if self.changes.take() || now >= self.look_at || self.known == Known::Nothing {
            self.look_at = now + LOOK_EVERY;
            self.known = match (self.look)(&self.place) {
                Ok(false) => Known::Unguarded,
                Ok(true) => Known::Guarded,
                Err(_) => Known::Nothing,
            };
        }
        self.known
    }

    /// Whether there are rules that served sockets would pass by. Nothing is looked at while
    /// nobody is served.
    pub(super) fn has_appeared(&mut self, is_anybody_served: bool, now: Nanos) -> bool {
        if self.is_ignored || !is_anybody_served {
            // Read, so that nobody wakes for it again, and looked at when somebody comes.
            if self.changes.take() {
                self.known = Known::Nothing;
            }
            return false;
        }
        self.update(now) == Known::Guarded
    }

    /// When the filters are looked at next although nothing is told.
    pub(super) fn next_deadline(&self, is_anybody_served: bool) -> Nanos {
        match self.is_ignored || !is_anybody_served {
            true => Nanos::FAR_FUTURE,
            false => self.look_at,
        }
    }

    /// Readable when rules may have changed.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.changes.descriptor().filter(|_| !self.is_ignored)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::io::Errno;

    use super::*;

    /// Zero: there are none, one: there are some, two: the kernel does not say.
    static FILTERS: AtomicU32 = AtomicU32::new(0);

    fn told(_: &Place) -> Result<bool, SysError> {
        match FILTERS.load(Ordering::Relaxed) {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SysError::new("look for packet filter rules", Errno::NOBUFS, "")),
        }
    }

    #[test]
    fn a_filter_that_is_there_or_cannot_be_asked_forbids_and_is_asked_again() {
        let mut firewall = Firewall::watch(false, []).expect("netlink is there");
        firewall.look = told;
        let at = Nanos::from_millis;
        assert!(!firewall.forbids(at(0)));
        FILTERS.store(2, Ordering::Relaxed);
        assert!(firewall.forbids(at(1000)), "what is not known is not allowed");
        FILTERS.store(0, Ordering::Relaxed);
        assert!(!firewall.forbids(at(1001)), "an error is not kept");
        FILTERS.store(1, Ordering::Relaxed);
        assert!(firewall.forbids(at(2001)));
        firewall.is_ignored = true;
        assert!(!firewall.forbids(at(3001)));
    }
}
