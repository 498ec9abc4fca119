//! How datagrams leave: by the next hop that the kernel's routes and neighbours name.
//!
//! A frame says only what whoever sent it wanted to say. So the way that a datagram came by is used
//! for answers just until the slow side has asked the kernel, and it never takes the place of what
//! the kernel has said: a forged source address redirects no datagrams of others. Nor does what
//! comes make anybody ask: only who sends to an address wants to know its way, and invented sources
//! to which nobody answers cost no question.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use base::{Nanos, PortId};

use crate::routes::{NextHop, PortLink, Route};

/// Addresses at once, at most. Beyond that the oldest of the user with most of them is forgotten,
/// and asked for when it is needed again: no user's addresses crowd out another's, nor those of
/// strangers whom its programs answer the ones that they began with themselves.
const NEIGHBOURS_MAX: usize = 4096;

/// A next hop that was silent for this long may lead nowhere by now: it is used, and asked
/// for again.
const FRESH_FOR: Nanos = Nanos::from_secs(30);

/// The next hops that are known.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    known: BTreeMap<IpAddr, Known>,
    known_of: OfUsers,
    /// Addresses that the slow side was asked for, when it may be asked again, and for whom.
    asked: BTreeMap<IpAddr, (Nanos, Wanter)>,
    asked_of: OfUsers,
    /// What it is to be asked next: of what programs began with, and of what strangers did.
    wishes: Vec<Question>,
    answers: Vec<Question>,
    /// The link address of each port, once it was told.
    macs: BTreeMap<PortId, [u8; 6]>,
    /// Changes of those that the ways of connections do not know yet: of each port one, or as many
    /// as are told at once.
    readdressed: Vec<PortLink>,
}

/// For whom an address is known or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanter {
    user: u32,
    /// Something came from there first: whom the user's programs answer is a stranger's choice.
    is_answer: bool,
}

/// For whom what another worker has asked for is known here.
const NOBODY: Wanter = Wanter { user: u32::MAX, is_answer: true };

/// What the slow side is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) remote: IpAddr,
    /// Whose program sends there.
    pub(crate) user: u32,
    /// A stranger may have caused it.
    pub(crate) is_answer: bool,
}

/// Addresses by those for whom they are known, in the order in which they came.
#[derive(Debug, Default)]
struct OfUsers {
    addresses: BTreeMap<Wanter, VecDeque<IpAddr>>,
}

impl OfUsers {
    fn add(&mut self, wanter: Wanter, address: IpAddr) {
        self.addresses.entry(wanter).or_default().push_back(address);
    }

    fn remove(&mut self, wanter: Wanter, address: IpAddr) {
        let Some(own) = self.addresses.get_mut(&wanter) else { return };
        // From the back: what is forgotten at once, for no room to ask, has come last.
        if let Some(at) = own.iter().rposition(|other| *other == address) {
            own.remove(at);
        }
        if own.is_empty() {
            self.addresses.remove(&wanter);
        }
    }

    /// The oldest of whoever has most.
    fn take_from_largest(&mut self) -> Option<IpAddr> {
        let (&wanter, own) = self.addresses.iter_mut().max_by_key(|(_, own)| own.len())?;
        let oldest = own.pop_front();
        if own.is_empty() {
            self.addresses.remove(&wanter);
        }
        oldest
    }
}

#[derive(Debug)]
struct Known {
    route: Route,
    /// Our address on it.
    local: IpAddr,
    /// When something came by it, or the kernel named it.
    heard_at: Nanos,
    kernel: Kernel,
    /// Another way by which something has come, and the kernel named `route` all the same: the
    /// peer is behind two routers, or its link address is not the one that it tells. What comes by
    /// it makes nobody doubt.
    also: Option<Route>,
    /// For whom it was wanted first.
    wanter: Wanter,
}

/// What the kernel has said of a way.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    /// Nothing yet. Who sends there has it asked.
    Unasked,
    /// It has named this way, then.
    Named(Nanos),
    /// The same, and something has come by that one since. Who sends there has it asked.
    Doubted(Route),
    /// The same, before its routes have changed. Who sends there has it asked.
    Outdated,
}

/// A question that got no answer for this long, or a negative one, may be asked again; and about a
/// way that the kernel has named, what comes by others has it asked no more often.
const ASK_EVERY: Nanos = Nanos::from_secs(4);

/// One that the slow side had no room for may be asked again after so long.
const ASK_AGAIN: Nanos = Nanos::from_millis(100);

impl Neighbours {
    /// A datagram from `remote` to `local` came by that route, and a program of `user` has it. It
    /// is used until the kernel was asked.
    pub(crate) fn learn(
        &mut self,
        remote: IpAddr,
        local: IpAddr,
        route: Route,
        user: u32,
        now: Nanos,
    ) {
        match self.known.get_mut(&remote) {
            Some(known) if known.route == route => known.heard_at = now,
            // It may have moved, or another pretends to be it: the kernel knows.
            Some(known) => match known.kernel {
                Kernel::Named(at) if known.also != Some(route) && now >= at + ASK_EVERY => {
                    known.kernel = Kernel::Doubted(route);
                }
                Kernel::Unasked | Kernel::Named(_) | Kernel::Doubted(_) | Kernel::Outdated => {}
            },
            // A next hop without an answer has no route; one that is being asked for will have one
            // soon.
            None if self.asked.contains_key(&remote) => {}
            None => {
                let (kernel, wanter) = (Kernel::Unasked, Wanter { user, is_answer: true });
                let known = Known { route, local, heard_at: now, kernel, also: None, wanter };
                self.insert(remote, known);
            }
        }
    }

    /// Whether an address is known, and by that port.
    pub(crate) fn is_known_by(&self, remote: IpAddr, port: PortId) -> bool {
        self.known.get(&remote).is_some_and(|known| known.route.port() == port)
    }

    fn was_asked(&self, remote: IpAddr, now: Nanos) -> bool {
        self.asked.get(&remote).is_some_and(|(again_at, _)| now < *again_at)
    }

    /// The slow side has found a next hop, or that there is none.
    pub(crate) fn set(&mut self, remote: IpAddr, next_hop: Option<(&NextHop, IpAddr)>, now: Nanos) {
        match next_hop.and_then(|(next_hop, local)| Some((Route::of_next_hop(next_hop)?, local))) {
            Some((route, local)) => {
                let wanter = self.forget_asked(remote).unwrap_or(NOBODY);
                let also = self.known.get(&remote).and_then(|known| match known.kernel {
                    Kernel::Unasked => Some(known.route).filter(|other| *other != route),
                    _ if known.route != route => None,
                    Kernel::Doubted(other) => Some(other),
                    Kernel::Named(_) | Kernel::Outdated => known.also,
                });
                let kernel = Kernel::Named(now);
                self.insert(remote, Known { route, local, heard_at: now, kernel, also, wanter });
            }
            // A question without an answer is not asked again at once.
            None => {
                if let Some(known) = self.known.remove(&remote) {
                    self.known_of.remove(known.wanter, remote);
                }
                let wanter = self.forget_asked(remote).unwrap_or(NOBODY);
                self.note_asked(remote, wanter, now + ASK_EVERY);
            }
        }
    }

    /// The kernel's routes have changed: what it has named is used until it was asked again.
    pub(crate) fn outdate(&mut self) {
        for known in self.known.values_mut() {
            if let Kernel::Named(_) = known.kernel {
                known.kernel = Kernel::Outdated;
            }
        }
    }

    /// The slow side had no room for the question: it is asked again soon.
    pub(crate) fn ask_again(&mut self, remote: IpAddr, now: Nanos) {
        if let Some((again_at, _)) = self.asked.get_mut(&remote) {
            *again_at = (*again_at).min(now + ASK_AGAIN);
        }
    }

    /// The interfaces of our ports are these now. Ways from a link address before lead from the
    /// present one.
    pub(crate) fn readdress(&mut self, links: &[PortLink]) {
        for link in links {
            let is_told = self.macs.insert(link.port, link.mac) == Some(link.mac);
            if is_told || link.mac_before.is_none() {
                continue;
            }
            for known in self.known.values_mut() {
                known.route = known.route.readdressed(link);
                known.also = known.also.map(|also| also.readdressed(link));
            }
            self.readdressed.push(*link);
        }
    }

    /// The changes that are new since the last call, for the ways of connections.
    pub(crate) fn take_readdressed(&mut self) -> impl Iterator<Item = PortLink> + use<'_> {
        self.readdressed.drain(..)
    }

    /// Asks for the next hop of an address: once, however many datagrams wait for it.
    fn ask(&mut self, remote: IpAddr, wanter: Wanter, now: Nanos) {
        if self.was_asked(remote, now) {
            return;
        }
        self.note_asked(remote, wanter, now + ASK_EVERY);
        let Wanter { user, is_answer } = wanter;
        let questions = if is_answer { &mut self.answers } else { &mut self.wishes };
        questions.push(Question { remote, user, is_answer });
    }

    fn note_asked(&mut self, remote: IpAddr, wanter: Wanter, again_at: Nanos) {
        if let Some((at, _)) = self.asked.get_mut(&remote) {
            *at = again_at;
            return;
        }
        if self.asked.len() >= NEIGHBOURS_MAX
            && let Some(oldest) = self.asked_of.take_from_largest()
        {
            self.asked.remove(&oldest);
        }
        self.asked_of.add(wanter, remote);
        self.asked.insert(remote, (again_at, wanter));
    }

    /// It is not asked for any more: for whom it was.
    fn forget_asked(&mut self, remote: IpAddr) -> Option<Wanter> {
        let (_, wanter) = self.asked.remove(&remote)?;
        self.asked_of.remove(wanter, remote);
        Some(wanter)
    }

    /// What the slow side is to be asked: the addresses whose ways nobody knows, or that nothing
    /// was heard from for a while. What programs began with comes first.
    pub(crate) fn questions(&mut self) -> impl Iterator<Item = Question> + use<'_> {
        self.wishes.drain(..).chain(self.answers.drain(..))
    }

    /// Forgets the last questions, so that no more than `room` are left, and of those that a
    /// stranger may have caused no more than half of `of`; and that they were asked: whoever sends
    /// there again asks again. How many those are.
    pub(crate) fn forget_questions_beyond(&mut self, room: usize, of: usize) -> usize {
        let wishes = self.wishes.len().min(room);
        let answers = (room - wishes).min(room.saturating_sub(of / 2)).min(self.answers.len());
        let mut forgotten = self.wishes.split_off(wishes);
        forgotten.append(&mut self.answers.split_off(answers));
        for Question { remote, .. } in &forgotten {
            self.forget_asked(*remote);
        }
        forgotten.len()
    }

    fn insert(&mut self, remote: IpAddr, known: Known) {
        if let Some(before) = self.known.get_mut(&remote) {
            *before = Known { wanter: before.wanter, ..known };
            return;
        }
        if self.known.len() >= NEIGHBOURS_MAX
            && let Some(oldest) = self.known_of.take_from_largest()
        {
            self.known.remove(&oldest);
        }
        self.known_of.add(known.wanter, remote);
        self.known.insert(remote, known);
    }

    /// By which route, and from which address, a datagram of `user` goes to `remote`; `wanted`, if
    /// it is specified, is its sender's.
    pub(crate) fn find(
        &mut self,
        remote: IpAddr,
        wanted: IpAddr,
        user: u32,
        now: Nanos,
    ) -> Option<(Route, IpAddr)> {
        let known = self.known.get(&remote);
        let found = known
            .map(|known| (known.route, if wanted.is_unspecified() { known.local } else { wanted }));
        let is_answer = match known.map(|known| (known.kernel, known)) {
            Some((Kernel::Named(_), known)) if now.since(known.heard_at) <= FRESH_FOR => {
                return found;
            }
            Some((Kernel::Named(_) | Kernel::Outdated, known)) => known.wanter.is_answer,
            // What a stranger has sent, or whoever says so.
            Some((Kernel::Unasked | Kernel::Doubted(_), _)) => true,
            None => false,
        };
        self.ask(remote, Wanter { user, is_answer }, now);
        found
    }
}

#[cfg(test)]
mod tests;
