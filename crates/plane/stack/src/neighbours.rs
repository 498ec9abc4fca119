//! How datagrams leave: by the next hop that the kernel's routes and neighbours name.
//!
//! A frame says only what whoever sent it wanted to say. So the way that a datagram came by is used
//! for answers just until the slow side has asked the kernel, and it never takes the place of what
//! the kernel has said: a forged source address redirects nobody's datagrams. Nor does what comes
//! make anybody ask: only who sends to an address wants to know its way, and invented sources to
//! which nobody answers cost no question.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use base::{Nanos, PortId};

use crate::routes::{NextHop, PortLink, Route};

/// Addresses at once, at most. Beyond that the oldest of the user with most of them is forgotten,
/// and asked for when it is needed again: no user's addresses crowd out another's.
const NEIGHBOURS_MAX: usize = 4096;

/// A next hop that was silent for this long may lead nowhere by now: it is used, and asked
/// for again.
const FRESH_FOR: Nanos = Nanos::from_secs(30);

/// The next hops that are known.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    known: BTreeMap<IpAddr, Known>,
    known_of: OfUsers,
    /// Addresses that the slow side was asked for, when, and for which user.
    asked: BTreeMap<IpAddr, (Nanos, u32)>,
    asked_of: OfUsers,
    /// What it is to be asked next, and for which user.
    questions: Vec<(IpAddr, u32)>,
    /// The link address of each port, once it was told.
    macs: BTreeMap<PortId, [u8; 6]>,
    /// Changes of those that the ways of connections do not know yet: of each port one, or as many
    /// as are told at once.
    readdressed: Vec<PortLink>,
}

/// Addresses by the user for whom they are known, in the order in which they came.
#[derive(Debug, Default)]
struct OfUsers {
    addresses: BTreeMap<u32, VecDeque<IpAddr>>,
}

impl OfUsers {
    fn add(&mut self, user: u32, address: IpAddr) {
        self.addresses.entry(user).or_default().push_back(address);
    }

    fn remove(&mut self, user: u32, address: IpAddr) {
        let Some(own) = self.addresses.get_mut(&user) else { return };
        // From the back: what is forgotten at once, for no room to ask, has come last.
        if let Some(at) = own.iter().rposition(|other| *other == address) {
            own.remove(at);
        }
        if own.is_empty() {
            self.addresses.remove(&user);
        }
    }

    /// The oldest of the user with most.
    fn take_from_largest(&mut self) -> Option<IpAddr> {
        let (&user, own) = self.addresses.iter_mut().max_by_key(|(_, own)| own.len())?;
        let oldest = own.pop_front();
        if own.is_empty() {
            self.addresses.remove(&user);
        }
        oldest
    }
}

#[derive(Debug)]
struct Known {
    route: Route,
    /// Our address on it.
    local: IpAddr,
    heard_at: Nanos,
    /// Whether the kernel has named this way, and nothing has come by another since. If not, who
    /// sends there has the kernel asked.
    is_confirmed: bool,
    /// The user whose program wanted it first.
    user: u32,
}

/// A question that got no answer for this long, or a negative one, may be asked again.
const ASK_EVERY: Nanos = Nanos::from_secs(4);

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
        // A next hop without an answer has no route; one that is being asked for will have one
        // soon.
        let was_asked = self.was_asked(remote, now);
        match self.known.get_mut(&remote) {
            Some(known) if known.route == route => known.heard_at = now,
            // It may have moved, or another pretends to be it: the kernel knows.
            Some(known) => known.is_confirmed = false,
            None if was_asked => {}
            None => {
                let is_confirmed = false;
                self.insert(remote, Known { route, local, heard_at: now, is_confirmed, user });
            }
        }
    }

    /// Whether an address is known, and by that port.
    pub(crate) fn is_known_by(&self, remote: IpAddr, port: PortId) -> bool {
        self.known.get(&remote).is_some_and(|known| known.route.port() == port)
    }

    fn was_asked(&self, remote: IpAddr, now: Nanos) -> bool {
        self.asked.get(&remote).is_some_and(|(at, _)| now < *at + ASK_EVERY)
    }

    /// The slow side has found a next hop, or that there is none.
    pub(crate) fn set(&mut self, remote: IpAddr, next_hop: Option<(&NextHop, IpAddr)>, now: Nanos) {
        match next_hop.and_then(|(next_hop, local)| Some((Route::of_next_hop(next_hop)?, local))) {
            Some((route, local)) => {
                let user = self.forget_asked(remote).unwrap_or_default();
                let is_confirmed = true;
                self.insert(remote, Known { route, local, heard_at: now, is_confirmed, user });
            }
            // A question without an answer is not asked again at once.
            None => {
                if let Some(known) = self.known.remove(&remote) {
                    self.known_of.remove(known.user, remote);
                }
                let user = self.forget_asked(remote).unwrap_or_default();
                self.note_asked(remote, user, now);
            }
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
            }
            self.readdressed.push(*link);
        }
    }

    /// The changes that are new since the last call, for the ways of connections.
    pub(crate) fn take_readdressed(&mut self) -> impl Iterator<Item = PortLink> + use<'_> {
        self.readdressed.drain(..)
    }

    /// Asks for the next hop of an address: once, however many datagrams wait for it.
    fn ask(&mut self, remote: IpAddr, user: u32, now: Nanos) {
        if self.was_asked(remote, now) {
            return;
        }
        self.note_asked(remote, user, now);
        self.questions.push((remote, user));
    }

    fn note_asked(&mut self, remote: IpAddr, user: u32, now: Nanos) {
        if let Some((at, _)) = self.asked.get_mut(&remote) {
            *at = now;
            return;
        }
        if self.asked.len() >= NEIGHBOURS_MAX
            && let Some(oldest) = self.asked_of.take_from_largest()
        {
            self.asked.remove(&oldest);
        }
        self.asked_of.add(user, remote);
        self.asked.insert(remote, (now, user));
    }

    /// It is not asked for any more: for whom it was.
    fn forget_asked(&mut self, remote: IpAddr) -> Option<u32> {
        let (_, user) = self.asked.remove(&remote)?;
        self.asked_of.remove(user, remote);
        Some(user)
    }

    /// What the slow side is to be asked: the addresses whose ways nobody knows, or that nothing
    /// was heard from for a while; each with the user who wants it.
    pub(crate) fn questions(&mut self) -> impl Iterator<Item = (IpAddr, u32)> + use<'_> {
        self.questions.drain(..)
    }

    /// Forgets the last questions, so that no more than `room` are left, and that they were asked:
    /// whoever sends there again asks again. How many those are.
    pub(crate) fn forget_questions_beyond(&mut self, room: usize) -> usize {
        let mut forgotten = 0;
        while self.questions.len() > room
            && let Some((remote, _)) = self.questions.pop()
        {
            self.forget_asked(remote);
            forgotten += 1;
        }
        forgotten
    }

    fn insert(&mut self, remote: IpAddr, known: Known) {
        if let Some(before) = self.known.get_mut(&remote) {
            *before = Known { user: before.user, ..known };
            return;
        }
        if self.known.len() >= NEIGHBOURS_MAX
            && let Some(oldest) = self.known_of.take_from_largest()
        {
            self.known.remove(&oldest);
        }
        self.known_of.add(known.user, remote);
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
        let is_sure = |known: &Known| known.is_confirmed && now.since(known.heard_at) <= FRESH_FOR;
        if !known.is_some_and(is_sure) {
            self.ask(remote, user, now);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use base::PortId;

    use super::*;

    #[test]
    fn a_next_hop_that_nothing_came_by_for_long_is_used_and_asked_for_once() {
        let mut neighbours = Neighbours::default();
        let [remote, local] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
        let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
        let at = Nanos::from_secs;
        let ask = |neighbours: &mut Neighbours, now| {
            let is_found = neighbours.find(remote, local, 7, now).is_some();
            (is_found, neighbours.questions().count())
        };
        assert_eq!(ask(&mut neighbours, at(1)), (false, 1));
        assert_eq!(ask(&mut neighbours, at(2)), (false, 0), "it was asked already");
        neighbours.set(remote, None, at(3));
        assert_eq!(ask(&mut neighbours, at(3)), (false, 0), "it was told that there is none");
        assert_eq!(ask(&mut neighbours, at(7)), (false, 1), "perhaps there is by now");
        neighbours.set(remote, Some((&next_hop, local)), at(7));
        assert_eq!(ask(&mut neighbours, at(31)), (true, 0));
        assert_eq!(ask(&mut neighbours, at(38)), (true, 1), "it is thirty seconds old");
        assert_eq!(ask(&mut neighbours, at(39)), (true, 0));
        let route = Route::of_next_hop(&next_hop).expect("a short header");
        neighbours.set(remote, Some((&next_hop, local)), at(39));
        neighbours.learn(remote, local, route, 7, at(50));
        assert_eq!(ask(&mut neighbours, at(79)), (true, 0), "something came by it");
    }

    #[test]
    fn a_forged_frame_redirects_nobody_and_only_has_the_kernel_asked() {
        let mut neighbours = Neighbours::default();
        let [remote, local] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
        let [honest, forged] = [1, 2].map(|mac| NextHop {
            port: PortId(1),
            vlan_tci: 0,
            header: [&[mac; 12][..], &[8, 0]].concat(),
        });
        let route = |next_hop| Route::of_next_hop(next_hop).expect("a short header");
        let at = Nanos::from_secs;
        let found = |neighbours: &mut Neighbours, now| {
            neighbours.find(remote, local, 7, now).map(|(route, _)| route)
        };
        // Of what nobody knows, the first word is believed until the kernel has answered.
        neighbours.learn(remote, local, route(&forged), 7, at(1));
        assert_eq!(found(&mut neighbours, at(1)), Some(route(&forged)));
        assert_eq!(neighbours.questions().collect::<Vec<_>>(), [(remote, 7)]);
        neighbours.set(remote, Some((&honest, local)), at(2));
        assert_eq!(found(&mut neighbours, at(2)), Some(route(&honest)));
        for second in 3..7 {
            neighbours.learn(remote, local, route(&forged), 7, at(second));
            assert_eq!(found(&mut neighbours, at(second)), Some(route(&honest)));
        }
        assert_eq!(neighbours.questions().count(), 1, "it is asked for again, not often");
        // What the kernel has no route to is not learned from frames either.
        neighbours.set(remote, None, at(7));
        neighbours.learn(remote, local, route(&forged), 7, at(7));
        assert_eq!(found(&mut neighbours, at(7)), None);
    }

    #[test]
    fn sources_to_which_nobody_answers_have_nobody_asked_however_many_come() {
        let mut neighbours = Neighbours::default();
        let local: IpAddr = "10.0.0.2".parse().expect("an address");
        let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
        let route = Route::of_next_hop(&next_hop).expect("a short header");
        let address = |at: usize| IpAddr::from([10, 1, (at >> 8) as u8, at as u8]);
        let now = Nanos::from_secs(1);
        for at in 0..3 * NEIGHBOURS_MAX {
            neighbours.learn(address(at), local, route, 7, now);
        }
        assert_eq!((neighbours.questions().count(), neighbours.asked.len()), (0, 0));
        let last = address(3 * NEIGHBOURS_MAX - 1);
        let found = (0..2).map(|_| neighbours.find(last, local, 7, now)).collect::<Vec<_>>();
        assert_eq!(found, [Some((route, local)); 2], "an answer leaves at once");
        assert_eq!(neighbours.questions().collect::<Vec<_>>(), [(last, 7)]);
    }

    #[test]
    fn a_question_for_which_there_is_no_room_is_asked_when_somebody_sends_again() {
        let mut neighbours = Neighbours::default();
        let local: IpAddr = "10.0.0.2".parse().expect("an address");
        let remotes = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let now = Nanos::from_secs(1);
        let mut find_all = |room| {
            for remote in remotes {
                assert!(neighbours.find(remote, local, 7, now).is_none());
            }
            let forgotten = neighbours.forget_questions_beyond(room);
            (forgotten, neighbours.questions().map(|(remote, _)| remote).collect::<Vec<_>>())
        };
        assert_eq!(find_all(1), (2, remotes[..1].to_vec()));
        assert_eq!(find_all(0), (2, vec![]));
        assert_eq!(find_all(9), (0, remotes[1..].to_vec()));
        assert_eq!(find_all(9), (0, vec![]), "all were asked");
    }

    #[test]
    fn a_user_with_many_addresses_makes_no_address_of_another_be_forgotten() {
        let mut neighbours = Neighbours::default();
        let address = |of: u32, at: u32| IpAddr::from([of as u8, 0, (at >> 8) as u8, at as u8]);
        let local: IpAddr = "10.0.0.2".parse().expect("an address");
        let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
        let now = Nanos::from_secs(1);
        // The quiet user's addresses are first, last and in the middle of the order.
        let quiet: Vec<_> =
            [1, 10, 200].iter().flat_map(|of| (0..3).map(|at| address(*of, at))).collect();
        let mut find = |remote, user| neighbours.find(remote, local, user, now).is_some();
        let asked = |remote: IpAddr| (remote, 7);
        quiet.iter().for_each(|remote| assert!(!find(*remote, 7)));
        assert_eq!(
            neighbours.questions().collect::<Vec<_>>(),
            quiet.iter().copied().map(asked).collect::<Vec<_>>()
        );
        for remote in &quiet {
            neighbours.set(*remote, Some((&next_hop, local)), now);
        }
        for at in 0..2 * NEIGHBOURS_MAX as u32 {
            for of in [0, 100, 250] {
                assert!(neighbours.find(address(of, at), local, 8, now).is_none());
                neighbours.set(address(of, at), Some((&next_hop, local)), now);
            }
        }
        assert_eq!(neighbours.known.len(), NEIGHBOURS_MAX);
        for remote in quiet {
            assert!(neighbours.find(remote, local, 7, now).is_some(), "{remote} is forgotten");
        }
        // The same holds of what was asked for, and of what nobody answered.
        for at in 0..2 * NEIGHBOURS_MAX as u32 {
            neighbours.set(address(100, at), None, now);
        }
        assert!(neighbours.asked.len() <= NEIGHBOURS_MAX);
        let kept = |of: &OfUsers| of.addresses.values().map(VecDeque::len).sum::<usize>();
        assert_eq!(kept(&neighbours.known_of), neighbours.known.len());
        assert_eq!(kept(&neighbours.asked_of), neighbours.asked.len());
    }
}
