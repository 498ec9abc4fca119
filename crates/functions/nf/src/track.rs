//! Connection tracking: which connection a packet is of, and whether it may be.
//!
//! Functions of one slice share a table. [`Track::look`] says what a packet is; one that begins a
//! connection becomes one by [`Track::open`], which whoever permits it calls. Nothing here reads a
//! clock, allocates after the start, or trusts a header: what cannot be a packet of its connection
//! is invalid and changes nothing.
//!
//! Both directions of a connection have one entry and one hash, so that a slice which gets both
//! finds it from either side. The table is bounded. When it is full, one of the connections that
//! nobody has answered gives way, one of some drawn at random (random early drop), so that a flood
//! of first packets takes the place of its own and not of those that are in use; and one source has
//! a bounded number of unanswered ones. TCP counts as answered once its handshake is over, because
//! an open port answers a flood too.

mod fragments;
mod icmp;
mod invalid;
mod packet;
mod sources;
mod table;
mod tcp;
mod timeouts;
mod tuple;

use arrayvec::ArrayVec;
use base::Nanos;

pub(crate) use fragments::Fragments;
pub use invalid::Invalid;
pub use packet::{Packet, Unread};
pub use table::ConnectionId;
pub use timeouts::Timeouts;
pub use tuple::Tuple;
pub(crate) use tuple::hash_of;

use packet::Kind;
pub(crate) use sources::Owner;
pub use sources::Refused;
use sources::Sources;
use table::{Entry, Table};

/// The most connections that a table may have room for.
pub const CONNECTIONS_MAX: usize = 1 << 24;
/// Marks of connections that have ended which wait for whoever reads them: as many as one call
/// ends.
const ENDED_MAX: usize = 64;

/// What an operator may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSettings {
    /// Connections that there is room for, at most [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// Connections of one source (an IPv4 address, an IPv6 /64) that nobody has answered, at most.
    pub unanswered_each: u32,
    /// Connections of one owner, at most; below `u32::MAX` owners also have shares: where all
    /// connections are in use, whoever has most of them gives one to whoever has less.
    pub connections_each: u32,
    /// Whether TCP connections that began before we looked are taken up.
    pub picks_up: bool,
    /// How long connections are kept that say nothing.
    pub timeouts: Timeouts,
    /// Anything that others cannot know: keeps them from choosing connections that collide.
    pub seed: u64,
}

impl Default for TrackSettings {
    fn default() -> Self {
        Self {
            connections: 1 << 18,
            unanswered_each: 4096,
            connections_each: u32::MAX,
            picks_up: false,
            timeouts: Timeouts::default(),
            seed: 0,
        }
    }
}

/// The connections of one slice.
#[derive(Debug)]
pub struct Track {
    table: Table,
    sources: Sources,
    fragments: Fragments<(ConnectionId, bool)>,
    timeouts: Timeouts,
    picks_up: bool,
    /// Marks of connections that have ended, of a table whose user asked for them.
    ended: ArrayVec<u64, ENDED_MAX>,
    tells_ended: bool,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// One of this connection.
    Known {
        /// Which one.
        id: ConnectionId,
        /// Whether it goes to whoever began it.
        is_reply: bool,
    },
    /// An ICMP error about a packet of this connection.
    Related {
        /// Which one.
        id: ConnectionId,
    },
    /// The first of a connection, if somebody opens it.
    New,
    /// Of no connection, and none begins like that.
    Invalid(Invalid),
}

impl Track {
    /// An empty table. Its memory is reserved now and mapped as connections come.
    pub fn new(settings: &TrackSettings) -> Self {
        let connections = settings.connections.clamp(1, CONNECTIONS_MAX);
        Self {
            table: Table::new(connections, settings.seed),
            sources: Sources::new(
                settings.connections_each,
                settings.unanswered_each,
                settings.seed,
            ),
            fragments: Fragments::new(settings.seed),
            timeouts: settings.timeouts,
            picks_up: settings.picks_up,
            ended: ArrayVec::new(),
            tells_ended: false,
        }
    }

    /// A table that keeps the marks of connections that have ended until [`Self::take_ended`],
    /// which is to follow each call that may end some.
    pub(crate) fn telling_ended(settings: &TrackSettings) -> Self {
        Self { tells_ended: true, ..Self::new(settings) }
    }

    /// The mark of a connection that has ended since the last call.
    #[inline]
    pub(crate) fn take_ended(&mut self) -> Option<u64> {
        self.ended.pop()
    }

    /// Whether a connection has gone both ways and on: one answer proves nothing, because an open
    /// port answers whoever lies about his address.
    #[inline]
    pub(crate) fn is_in_use(&self, id: ConnectionId) -> bool {
        self.table.get(id).is_some_and(|entry| entry.is_answered() && entry.is_lasting)
    }

    fn forget(&mut self, gone: &Entry) {
        self.sources.forget(gone.is_answered(), gone.source_slot);
        if self.tells_ended {
            // There is room for all that one call ends.
            let _ = self.ended.try_push(gone.mark);
        }
    }

    /// Connections that there are, some of which may have run out.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What [`Self::open`] was told of a connection.
    pub fn mark(&self, id: ConnectionId) -> u64 {
        self.table.get(id).map_or(0, |entry| entry.mark)
    }

    /// Which connection a packet is of. It is counted as having come: what it changes is changed.
    #[inline]
    pub fn look(&mut self, packet: &Packet, now: Nanos) -> Seen {
        if let Some(fragment) = packet.fragment
            && !fragment.is_first
        {
            let id = self.fragments.find(&packet.tuple, fragment.id, now);
            return match id.filter(|(id, _)| self.table.get(*id).is_some()) {
                Some((id, is_reply)) => Seen::Known { id, is_reply },
                None => Seen::Invalid(Invalid::Fragment),
            };
        }
        if let Kind::Error(error) = &packet.kind {
            return self.look_at_error(error, packet);
        }
        let Some((id, is_reply)) = self.table.find(&packet.tuple, now) else {
            return self.first(packet);
        };
        let seen = self.advance(id, is_reply, packet, now);
        if let (Seen::Known { id, is_reply }, Some(fragment)) = (seen, packet.fragment) {
            self.fragments.note(&packet.tuple, fragment.id, (id, is_reply), now);
        }
        seen
    }

    /// Makes a connection of a packet that [`Self::look`] has just found to be new. `mark` is
    /// anything that whoever opens it wants to find again. Its source is its owner.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn open(
        &mut self,
        packet: &Packet,
        mark: u64,
        now: Nanos,
    ) -> Result<ConnectionId, Refused> {
        let owner = Owner(self.sources.slot(&packet.tuple));
        self.open_for(owner, packet, mark, now)
    }

    /// Who owns what somebody began, as told by any two words.
    #[inline]
    pub(crate) fn owner(&self, words: [u64; 2]) -> Owner {
        Owner(self.sources.slot_of(words))
    }

    /// Whether there is room for a connection of that owner; nothing is changed, so that nothing
    /// has to be undone for one that is refused.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn has_room(&self, owner: Owner, now: Nanos) -> Result<(), Refused> {
        self.sources.has_room(owner.0)?;
        let has_place =
            !self.table.is_full() || self.table.may_make_room(self.sources.heavier(owner.0), now);
        if has_place { Ok(()) } else { Err(Refused::Full) }
    }

    /// Connections in use that have given way to owners with fewer.
    pub(crate) const fn given(&self) -> u64 {
        self.table.given
    }

    /// As [`Self::open`], for an owner that its source is not.
    pub(crate) fn open_for(
        &mut self,
        owner: Owner,
        packet: &Packet,
        mark: u64,
        now: Nanos,
    ) -> Result<ConnectionId, Refused> {
        let Owner(slot) = owner;
        self.sources.has_room(slot)?;
        let mut entry = Entry::new(&packet.tuple, slot, mark);
        if let Kind::Tcp(segment) = &packet.kind {
            entry.tcp.begin(segment);
        }
        let timeout = self.timeouts.of(&entry);
        if self.table.is_full() {
            for gone in self.table.make_room(self.sources.heavier(slot), now).into_iter().flatten()
            {
                self.forget(&gone);
            }
        }
        let Some(id) = self.table.insert(entry, now + timeout) else { return Err(Refused::Full) };
        self.sources.add(slot);
        if let Some(fragment) = packet.fragment {
            self.fragments.note(&packet.tuple, fragment.id, (id, false), now);
        }
        Ok(id)
    }

    /// Ends a connection.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(gone) = self.table.remove(id) {
            self.forget(&gone);
        }
    }

    /// Looks at some of the connections, as many for each call, and ends those that have run out.
    pub fn sweep(&mut self, now: Nanos) {
        for gone in self.table.sweep(now).into_iter().flatten() {
            self.forget(&gone);
        }
    }

    /// A packet of no known connection.
    fn first(&self, packet: &Packet) -> Seen {
        match &packet.kind {
            Kind::Tcp(segment) if !segment.may_begin(self.picks_up) => Seen::Invalid(Invalid::Tcp),
            Kind::Query { is_request: false } => Seen::Invalid(Invalid::Icmp),
            Kind::NeighbourDiscovery | Kind::OtherIcmp => Seen::Invalid(Invalid::Icmp),
            _ => Seen::New,
        }
    }

    fn advance(&mut self, id: ConnectionId, is_reply: bool, packet: &Packet, now: Nanos) -> Seen {
        let Some(entry) = self.table.get_mut(id) else { return Seen::New };
        let was_answered = entry.is_answered();
        match &packet.kind {
            Kind::Tcp(segment) => {
                if segment.begins_again(&entry.tcp) {
                    // A new connection in the place of one that is over (RFC 9293 section 3.6.1),
                    // which may begin at the other end: it was not permitted with this one.
                    self.close(id);
                    return Seen::New;
                }
                match entry.tcp.take(segment, is_reply) {
                    Ok(()) => {}
                    Err(invalid) => return Seen::Invalid(invalid),
                }
            }
            Kind::Query { is_request } if *is_request == is_reply => {
                return Seen::Invalid(Invalid::Icmp);
            }
            _ => {}
        }
        entry.is_lasting |= !is_reply && entry.has_reply;
        entry.has_reply |= is_reply;
        if !was_answered && entry.is_answered() {
            let slot = entry.source_slot;
            self.sources.note_answer(slot);
        }
        if let Some(entry) = self.table.get(id) {
            let timeout = self.timeouts.of(entry);
            self.table.extend(id, now + timeout);
        }
        Seen::Known { id, is_reply }
    }

    /// RFC 5508 section 4.2, RFC 4884: an error goes to whoever sent the packet that it quotes.
    fn look_at_error(&self, error: &icmp::Quoted, packet: &Packet) -> Seen {
        let invalid = Seen::Invalid(Invalid::Icmp);
        if error.tuple.source != packet.tuple.destination {
            return invalid;
        }
        let Some((id, is_reply)) = self.table.peek(&error.tuple) else { return invalid };
        let Some(entry) = self.table.get(id) else { return invalid };
        match error.sequence {
            // RFC 5927 section 4.1: what was never sent, nobody can complain about.
            Some(sequence) if !entry.tcp.has_sent(sequence, is_reply) => invalid,
            _ => Seen::Related { id },
        }
    }
}

#[cfg(test)]
mod tests;
