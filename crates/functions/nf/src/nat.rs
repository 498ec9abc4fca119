//! nat: lets hosts with private addresses reach others by addresses that they share (NAT44).
//!
//! WHAT IT DOES
//!   A packet from an address `inside` that leaves by a port `outside` gets one of our `addresses`
//!   as its source, and a port there which stands for that end inside whatever the other end is
//!   (endpoint-independent mapping). What comes back to that port goes to the end inside, if the
//!   other end was spoken to, or from anybody (`filtering`). ICMP queries, ICMP errors with the
//!   packets that they quote, and fragments behind their first one go both ways likewise; so do
//!   packets of one host inside to the outer end of another (hairpin). All other packets are left
//!   as they are. A subscriber, which is an address inside, gets its ports in blocks of 64 of one
//!   of our addresses, at most `ports_each` of each protocol.
//!   Destinations are translated where the function stands in the chain, sources once the router
//!   has decided: what stands between the two, a firewall or an acl, sees addresses inside, and the
//!   router's error messages reach whom they are for.
//!
//! PARAMETERS
//!   outside          ports of the slice, as ["eth2"]: what leaves by them is translated
//!   addresses        ours, 1 to 64, as ["192.0.2.7"], the chain's whole: of one that this host has
//!                    too, the kernel gets nothing more but ARP, which it answers
//!   inside           networks whose hosts are translated; 10.0.0.0/8, 172.16.0.0/12,
//!                    192.168.0.0/16 and 100.64.0.0/10
//!   filtering        "address_and_port": only an end that was spoken to gets in; or "endpoint":
//!                    anybody gets in by a port that is in use; address_and_port
//!   ports_each       ports of each protocol of one subscriber, 64 to 64512; 2048
//!   connections      connections that there is room for, 1 to 16777216; 262144
//!   connections_each of them those that one subscriber has begun, and as many that others began
//!                    with it ("endpoint"), 1 to 4294967294; 16384
//!   unanswered_each  of one source, those that nobody has answered, of TCP those whose handshake
//!                    is not over; 1024
//!   picks_up         whether TCP connections that began before are taken up; false
//!
//! COUNTERS
//!   outbound, inbound, errors (translated); opened; no_mapping, filtered, table_full, source_full,
//!   share_full, subscriber_full, pool_full, unsupported, invalid_tcp, invalid_window,
//!   invalid_icmp, invalid_fragment, tiny_fragment, unreadable (dropped); connections_given,
//!   blocks_given; connections_each, connections, mappings, subscribers. Each has a sentence in the
//!   statistics.
//!
//! STANDARDS
//!   RFC 4787 (UDP), RFC 5382 (TCP), RFC 5508 (ICMP), RFC 6888 (limits of subscribers), RFC 7857
//!   (sessions end where TCP's do), RFC 6056 (ports are drawn at random), RFC 6864 (packets that
//!   may be cut get identifications of ours), RFC 1624 (checksums are updated). TCP in use is kept
//!   for 7440 s, opening or closing for 240 s, UDP for 300 s, one that was not answered twice for
//!   120 s, ICMP queries for 60 s. Ports of UDP keep their parity.
//!
//! LIMITS
//!   The chain has one slice, and a router. TCP, UDP and ICMP only. Protocols that name ports or
//!   addresses in their payload (FTP in active mode, SIP) have no help. ICMP errors in fragments
//!   are dropped; a later fragment that comes before its first one is. Ports below 1024 are not
//!   given.
//!   Hosts outside cannot begin a connection by a port that is not in use. When all connections are
//!   in use, one of 32 drawn at random gives way that nobody has answered; when all blocks of ports
//!   are, one in which no mapping was ever answered. Where all that are drawn are in use too, one
//!   gives way of whoever has most, to whoever has less: so each subscriber has a share, whoever
//!   works together. A first packet looks at 32 of its subscriber's blocks at most, and the next
//!   one at others: with more of them, and hardly a free port, it may be dropped. A connection
//!   takes 112 bytes, a mapping 56, an address 900,000.

mod connections;
mod counters;
mod errors;
mod mappings;
mod settings;

use base::{Nanos, PortId};
use shm::{Batch, Frame};
use wire::ipv4;

use crate::rewrite::{End, Identifications, Side, is_atomic, write_end, write_identification};
use crate::tag::strip_priority_tag;
use crate::track::{Fragments, Packet, Track, TrackSettings, Tuple};
use crate::{Function, Prefix, Verdict, Verdicts};

pub use counters::NatCounters;
use counters::Stop;
use mappings::{Class, Mappings};
pub use settings::{ADDRESSES_MAX, Filtering, INSIDE_MAX, NatSettings, PORTS_EACH};

/// The function.
#[derive(Debug)]
pub struct Nat {
    settings: NatSettings,
    /// Address and mask of the networks inside.
    inside: Vec<(u32, u32)>,
    track: Track,
    mappings: Mappings,
    /// What later fragments get.
    pieces: Fragments<Piece>,
    identifications: Identifications,
    counters: NatCounters,
}

/// What the first fragment of a packet got.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// Another source, and with it a number of ours: two hosts inside may have chosen the same.
    Source { address: u32, identification: u16 },
    /// Another destination.
    Destination { address: u32 },
}

/// Bytes of the link header.
const LINK: usize = 14;

impl Nat {
    /// Translates by these settings.
    pub fn new(settings: &NatSettings) -> Self {
        let addresses: Vec<u32> = settings
            .addresses
            .iter()
            .take(ADDRESSES_MAX)
            .map(|address| address.to_bits())
            .collect();
        let seed = settings.track.seed;
        let network = |prefix: &Prefix| match prefix.address() {
            std::net::IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix.bits())).unwrap_or(0);
                Some((address.to_bits() & mask, mask))
            }
            std::net::IpAddr::V6(_) => None,
        };
        Self {
            inside: settings.inside.iter().take(INSIDE_MAX).filter_map(network).collect(),
            track: Track::telling_ended(&settings.track),
            mappings: Mappings::new(
                &addresses,
                settings.ports_each,
                settings.track.connections,
                seed.rotate_left(3),
            ),
            pieces: Fragments::new(seed.rotate_left(19)),
            identifications: Identifications::new(seed.rotate_left(37)),
            counters: NatCounters::default(),
            settings: settings.clone(),
        }
    }

    /// Goes on with the counters of `before`, whose place it takes, and with its connections,
    /// unless addresses or limits are others.
    pub fn take_over(&mut self, before: &mut Self) {
        self.counters = before.counters;
        let (new, old) = (&self.settings, &before.settings);
        let seed = old.track.seed;
        let is_same = new.addresses == old.addresses
            && new.ports_each == old.ports_each
            && TrackSettings { seed, ..new.track } == old.track;
        if is_same {
            std::mem::swap(&mut self.track, &mut before.track);
            std::mem::swap(&mut self.mappings, &mut before.mappings);
            std::mem::swap(&mut self.pieces, &mut before.pieces);
            std::mem::swap(&mut self.identifications, &mut before.identifications);
            self.settings.track.seed = seed;
        }
    }

    /// What has been counted so far.
    pub fn counts(&self) -> &NatCounters {
        &self.counters
    }

    /// Connections that there are.
    pub fn connections(&self) -> usize {
        self.track.len()
    }

    fn is_inside(&self, address: u32) -> bool {
        self.inside.iter().any(|(network, mask)| address & mask == *network)
    }

    fn is_outside(&self, port: PortId) -> bool {
        self.settings.outside.contains(&port)
    }

    /// Source and destination of a frame with an untagged IPv4 packet.
    #[inline]
    fn ends(frame: &Frame) -> Option<(u32, u32)> {
        let head: &[u8; LINK + 20] = frame.bytes().first_chunk()?;
        let is_ipv4 = head[12..14] == [0x08, 0x00];
        let address = |at: usize| Some(u32::from_be_bytes(*head.get(at..)?.first_chunk()?));
        is_ipv4.then_some((address(LINK + 12)?, address(LINK + 16)?))
    }

    /// Gives the packet in `frame`, which leaves, an end outside as its source.
    fn translate_source(&mut self, frame: &mut Frame, now: Nanos) -> Result<(), Stop> {
        let mut packet = Packet::read(frame.bytes())?;
        let from_inside = address_of(packet.tuple.source).is_some_and(|at| self.is_inside(at));
        if packet.quoted_mut().is_some() {
            return self.error_out(frame, packet, from_inside, now);
        }
        let Some(source) = address_of(packet.tuple.source).filter(|_| from_inside) else {
            return Ok(());
        };
        let original = packet.tuple;
        if packet.is_later_fragment() {
            return self.later_fragment(frame, &packet, now);
        }
        let class = class_of(&original).ok_or(Stop::Unsupported)?;
        let owner = self.track.owner([source.into(), BY_ITSELF]);
        let place = self.connection(&packet, owner, now, |this| {
            let found = this.mappings.find(source, original.source_port, class);
            found.map_or_else(|| this.mappings.make(source, original.source_port, class), Ok)
        })?;
        let Some(mapping) = self.mappings.get(place) else { return Err(Stop::PoolFull) };
        let end = End { address: mapping.outside, port: Some(mapping.outside_port) };
        if !is_atomic(frame) {
            let identification = self.identifications.next(end.address, original.destination);
            write_identification(frame, identification);
            let piece = Piece::Source { address: end.address, identification };
            self.note_fragment(&packet, piece, now);
        }
        write_end(frame, Side::Source, end);
        self.counters.outbound += 1;
        Ok(())
    }

    /// Gives the packet in `frame`, which is for one of our addresses, its end inside.
    fn translate_destination(
        &mut self,
        frame: &mut Frame,
        pool: u16,
        now: Nanos,
    ) -> Result<(), Stop> {
        let mut packet = Packet::read(frame.bytes())?;
        if packet.quoted_mut().is_some() {
            return self.error_in(frame, packet, pool, now);
        }
        if packet.is_later_fragment() {
            return self.later_fragment(frame, &packet, now);
        }
        let class = class_of(&packet.tuple).ok_or(Stop::Unsupported)?;
        let port = packet.tuple.destination_port;
        let place = self.mappings.at(pool, port, class).ok_or(Stop::NoMapping)?;
        let Some(mapping) = self.mappings.get(place) else { return Err(Stop::NoMapping) };
        let end = End { address: mapping.inside, port: Some(mapping.inside_port) };
        let outer = packet.clone();
        put_destination(&mut packet.tuple, class, end);
        // Nobody outside asks a host inside for an echo.
        let may_begin = self.settings.filtering == Filtering::Endpoint && class != Class::Icmp;
        let owner = self.track.owner([end.address.into(), BY_OTHERS]);
        let begin = |_: &mut Self| if may_begin { Ok(place) } else { Err(Stop::Filtered) };
        self.connection(&packet, owner, now, begin)?;
        self.note_fragment(&outer, Piece::Destination { address: end.address }, now);
        write_end(frame, Side::Destination, end);
        self.counters.inbound += 1;
        Ok(())
    }

    fn settle(&mut self, done: Result<(), Stop>, verdict: &mut Verdict) {
        if let Err(stop) = done {
            *stop.counter(&mut self.counters) += 1;
            *verdict = Verdict::Drop;
        }
    }
}

impl Function for Nat {
    fn name(&self) -> &'static str {
        "nat"
    }

    /// Translates destinations, and of packets between two hosts inside sources too.
    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        for (_, frame, verdict) in verdicts.undecided(batch) {
            // The router will forward what is behind it.
            strip_priority_tag(frame);
            let Some((source, destination)) = Self::ends(frame) else { continue };
            let Some(pool) = self.mappings.pool_of(destination) else { continue };
            let hairpins = self.is_inside(source) && !self.is_outside(frame.meta().port);
            let first = if hairpins { self.translate_source(frame, now) } else { Ok(()) };
            let done = first.and_then(|()| self.translate_destination(frame, pool, now));
            self.settle(done, verdict);
        }
        self.track.sweep(now);
        self.read_ended();
    }

    /// Translates sources.
    fn leave(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        for (frame, verdict, port) in verdicts.leaving(batch) {
            let Some((_, destination)) = Self::ends(frame) else { continue };
            let done = if self.is_outside(port) {
                self.translate_source(frame, now)
            } else if let Some(pool) = self.mappings.pool_of(destination) {
                // The router complains about a packet between two hosts inside.
                self.translate_destination(frame, pool, now)
            } else {
                continue;
            };
            self.settle(done, verdict);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
        let (mappings, subscribers) = self.mappings.len();
        let help = "Connections in use that gave way, where all were in use, to a subscriber with \
                    fewer.";
        each("connections_given", help, self.track.given());
        let help = "Blocks of ports in use that gave way likewise.";
        each("blocks_given", help, self.mappings.given);
        let help = "Connections that a subscriber may have begun at most, and as many that others \
                    began with it.";
        each("connections_each", help, self.settings.track.connections_each.into());
        each("connections", "Connections that there are now.", self.track.len() as u64);
        each("mappings", "Ends inside that have a port outside now.", mappings as u64);
        each("subscribers", "Addresses inside that have ports now.", subscribers as u64);
    }
}

/// Who began the connections of a subscriber: what strangers begin takes none of its own.
const BY_ITSELF: u64 = 0;
const BY_OTHERS: u64 = 1;

/// The IPv4 address that stands in a tuple.
fn address_of(number: u128) -> Option<u32> {
    std::net::Ipv6Addr::from_bits(number).to_ipv4_mapped().map(std::net::Ipv4Addr::to_bits)
}

fn mapped(address: u32) -> u128 {
    std::net::Ipv4Addr::from_bits(address).to_ipv6_mapped().to_bits()
}

fn class_of(tuple: &Tuple) -> Option<Class> {
    match tuple.protocol {
        ipv4::TCP => Some(Class::Tcp),
        ipv4::UDP => Some(Class::Udp),
        ipv4::ICMP if tuple.query != 0 => Some(Class::Icmp),
        _ => None,
    }
}

/// Of an ICMP query both ports are its identifier.
fn put_destination(tuple: &mut Tuple, class: Class, end: End) {
    tuple.destination = mapped(end.address);
    tuple.destination_port = end.port.unwrap_or(tuple.destination_port);
    if class == Class::Icmp {
        tuple.source_port = tuple.destination_port;
    }
}

fn put_source(tuple: &mut Tuple, class: Class, end: End) {
    tuple.source = mapped(end.address);
    tuple.source_port = end.port.unwrap_or(tuple.source_port);
    if class == Class::Icmp {
        tuple.destination_port = tuple.source_port;
    }
}

#[cfg(test)]
mod tests;
