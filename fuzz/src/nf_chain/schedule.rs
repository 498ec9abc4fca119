//! Who says what when, as an input says.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use base::{Nanos, PortId};
use calisto_nf::nat::Filtering;
use wire::ipv4;

use super::chain::{Chain, INSIDE, OURS, OUTSIDE, SERVERS, SHARED, Shape};
use super::packet::{self, LINK, Name, complain, ipv4_of, name_of_quoted, open_sum, quoted, said};
use super::talk::Talk;
use crate::hostile_peer::Program;
use crate::packets;

/// Steps of a schedule that count.
const STEPS_MAX: usize = 96;
/// Conversations at once: each is looked at in every step.
const TALKS_MAX: usize = 8;
/// Room in which honest conversations are never refused any.
const ROOMY: usize = 1024;

static TEMPLATES: std::sync::LazyLock<Vec<Vec<u8>>> = std::sync::LazyLock::new(packets::templates);

pub(super) struct Schedule<'a> {
    input: Program<'a>,
    shape: Shape,
    chain: Chain,
    now: Nanos,
    talks: Vec<Talk>,
    begun: u16,
    may_reload: bool,
    /// From hosts inside to whom they have said something.
    spoken: BTreeSet<Name>,
    /// Strangers get in by the configuration.
    is_open: bool,
}

impl<'a> Schedule<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        let mut input = Program::new(input);
        let bits = input.byte();
        let shape = Shape {
            has_firewall: bits & 1 != 0,
            has_balancer: bits & 2 != 0,
            connections: Program::pick(bits, 2, [ROOMY, 3, 40, ROOMY]),
            filtering: Program::pick(bits, 4, [Filtering::AddressAndPort, Filtering::Endpoint]),
            picks_up: bits & 0x20 != 0,
        };
        let (chain, now) = Chain::new(shape);
        Self {
            input,
            chain,
            now,
            talks: Vec::new(),
            begun: 0,
            // With a balancer it takes longer than all else together.
            may_reload: !shape.has_balancer || bits >> 6 == 3,
            spoken: BTreeSet::new(),
            is_open: shape.filtering == Filtering::Endpoint,
            shape,
        }
    }

    pub(super) fn run(mut self) {
        for _ in 0..STEPS_MAX {
            if self.input.is_over() {
                break;
            }
            self.step();
        }
        self.chain.end(self.now);
    }

    fn step(&mut self) {
        let what = self.input.byte();
        let which = usize::from(what >> 4);
        match what & 0xf {
            0 | 1 => self.begin(which),
            2..=6 => self.speak(which, what & 1 == 0),
            7 => self.say_again(which),
            8 => self.complain(which),
            9 => self.forge(which),
            10 => self.distort(which),
            11 => {
                let steps = [1, 100, 1000, 5000, 20_000, 60_000, 300_000, 8_000_000];
                self.now += Nanos::from_millis(steps[which % steps.len()]);
            }
            12 if self.may_reload => self.reload(),
            13 => self.pieces(which),
            _ => self.knock(which),
        }
        let now = self.now;
        self.talks.retain(|talk| talk.is_sure(now));
    }

    /// A packet goes through, and nobody gets in who was not spoken to.
    fn pass(&mut self, frame: &[u8], at: PortId, is_open: bool) -> Option<super::chain::Left> {
        let packet = ipv4_of(frame);
        let name = packet.and_then(said).map(|said| (said.protocol, said.from, said.to));
        if let Some((protocol, from, to)) = name.filter(|_| at == INSIDE) {
            self.spoken.insert((protocol, from, without_port(protocol, to)));
        }
        let left = self.chain.pass(frame, at, is_open, self.now);
        let guards = self.shape.has_firewall && !self.shape.has_balancer;
        let Some(left) = left.as_ref().filter(|left| (at, left.port) == (OUTSIDE, INSIDE)) else {
            return left;
        };
        let is_ours = packet.is_some_and(|packet| packet[16..20] == OURS.octets());
        if guards || is_ours && !self.is_open {
            let arrived = ipv4_of(&left.frame).expect("what leaves is a packet");
            let asked = match (said(arrived), quoted(arrived).and_then(name_of_quoted)) {
                (Some(said), _) => {
                    Some((said.protocol, said.to, without_port(said.protocol, said.from)))
                }
                (_, Some((protocol, from, to))) => {
                    Some((protocol, from, without_port(protocol, to)))
                }
                // Fragments name no ports, and other protocols have none.
                _ => None,
            };
            let is_known = asked.is_none_or(|name| {
                // An error may be about an answer too, which the host's own packets asked for.
                self.spoken.contains(&name)
            });
            assert!(is_known, "{asked:?} was not spoken to: {arrived:02x?}");
        }
        Some(super::chain::Left { port: left.port, frame: left.frame.clone() })
    }

    const fn is_roomy(&self) -> bool {
        self.shape.connections >= ROOMY
    }

    /// A conversation begins: to the outside, or of whoever to a service.
    fn begin(&mut self, which: usize) {
        if self.talks.len() >= TALKS_MAX {
            return;
        }
        let (how, first) = (self.input.byte(), self.input.word());
        self.begun += 1;
        let port = 20_000 + self.begun;
        let host = Ipv4Addr::new(10, 0, 0, 1 + (how & 3));
        let there = Ipv4Addr::new(198, 51, 100, 1 + (how >> 2 & 3));
        let services = self.shape.has_balancer && !self.shape.has_firewall;
        let talk = if services && which & 1 != 0 {
            let shared = SHARED[which / 2 % SHARED.len()];
            let (client, at) = if how & 0x10 != 0 { (host, INSIDE) } else { (there, OUTSIDE) };
            let ends = [SocketAddrV4::new(client, port), shared.at];
            Talk::new(shared.protocol, ends, [at, SERVERS], Some(shared), first, self.now)
        } else {
            let protocol = [ipv4::TCP, ipv4::UDP, ipv4::ICMP][which / 2 % 3];
            let mut ends = [SocketAddrV4::new(host, port), SocketAddrV4::new(there, 80)];
            // Another one of the same end inside.
            let same = |talk: &&Talk| talk.protocol == protocol && talk.shared.is_none();
            if let Some(other) = self.talks.iter().find(same).filter(|_| how & 0x20 != 0) {
                ends = [other.client, SocketAddrV4::new(there, 1000 + self.begun)];
            }
            if protocol == ipv4::ICMP {
                ends[1].set_port(0);
                if self
                    .talks
                    .iter()
                    .any(|talk| (talk.client, *talk.server.ip()) == (ends[0], there))
                {
                    return;
                }
            }
            Talk::new(protocol, ends, [INSIDE, OUTSIDE], None, first, self.now)
        };
        self.talks.push(talk);
    }

    /// One side says something.
    fn speak(&mut self, which: usize, by_client: bool) {
        let how = self.input.byte();
        if self.talks.is_empty() {
            return;
        }
        let place = which % self.talks.len();
        let mut talk = self.talks[place].clone();
        let Some(next) = talk.next(by_client, how) else { return };
        let is_open = how & 0x80 != 0;
        let mut sent = next.frame.clone();
        if is_open {
            open_sum(&mut sent);
        }
        let Some(left) = self.pass(&sent, talk.side(by_client), is_open) else {
            assert!(!self.is_roomy(), "honest, and dropped: {how:#x} of {talk:?}");
            self.talks.remove(place);
            return;
        };
        talk.check(by_client, &next.frame, &left);
        talk.advance(by_client, &next, left, self.now);
        for other in self.talks.iter().filter(|other| other.is_sure(self.now)) {
            let is_same = (other.protocol, other.client) == (talk.protocol, talk.client);
            let outer = other.outer.or(talk.outer);
            // Where there is little room, somebody's end may have given way.
            assert!(!self.is_roomy() || !is_same || outer == talk.outer, "{other:?} {talk:?}");
        }
        self.talks[place] = talk;
    }

    /// What was said last is said once more.
    fn say_again(&mut self, which: usize) {
        let Some((talk, by_client)) = self.picked(which) else { return };
        let Some([sent, left]) = talk.last[usize::from(!by_client)].clone() else { return };
        let again = self.pass(&sent, talk.side(by_client), false);
        let Some(again) = again else {
            assert!(!self.is_roomy(), "said again, and dropped: {talk:?}");
            return;
        };
        // Inside another packet, that has another number.
        let is_wrapped = ipv4_of(&left).is_some_and(|packet| packet[9] == 4);
        assert!(again.frame == left || is_wrapped || !self.is_roomy());
    }

    /// Somebody on the way complains about what a client has said last.
    fn complain(&mut self, which: usize) {
        let kind = [[3, 1], [3, 4], [11, 0], [12, 0]][usize::from(self.input.byte() % 4)];
        let Some((talk, _)) = self.picked(which) else { return };
        let (Some([_, arrived]), Some(outer)) = (&talk.last[0], talk.outer) else { return };
        let about = ipv4_of(arrived).expect("what leaves is a packet");
        let by = if talk.server_at == SERVERS { [10, 9, 0, 9] } else { [203, 0, 113, 9] };
        let frame = complain(by.into(), *outer.ip(), kind, about);
        let left = self.pass(&frame, talk.server_at, false);
        // To whoever is inside another packet no error is translated.
        let is_expected = about[9] != 4 && self.is_roomy();
        match left {
            Some(left) if is_expected => talk.check_complaint(&left),
            None if is_expected => panic!("dropped: a complaint about {talk:?}"),
            _ => {}
        }
    }

    fn picked(&self, which: usize) -> Option<(Talk, bool)> {
        let place = (which >> 1).checked_rem(self.talks.len())?;
        Some((self.talks[place].clone(), which & 1 == 0))
    }

    /// Anything, by any port.
    fn forge(&mut self, which: usize) {
        let template = &TEMPLATES[usize::from(self.input.byte()) % TEMPLATES.len()];
        let mut frame = template.clone();
        self.change(&mut frame);
        self.stranger(&frame, which);
    }

    /// Something that was seen somewhere, and that somebody has changed.
    fn distort(&mut self, which: usize) {
        let Some((talk, by_client)) = self.picked(which) else { return };
        let Some([sent, left]) = talk.last[usize::from(!by_client)].clone() else { return };
        let is_sent = self.input.byte() & 1 == 0;
        let mut frame = if is_sent { sent } else { left };
        self.change(&mut frame);
        self.stranger(&frame, which);
    }

    fn change(&mut self, frame: &mut [u8]) {
        let how = self.input.byte();
        for _ in 0..how % 8 {
            let (at, bits) = (usize::from(self.input.byte()), self.input.byte());
            let at = at % frame.len();
            frame[at] ^= bits;
        }
        if how & 0x80 == 0 {
            packets::correct_checksum(frame);
        }
    }

    fn stranger(&mut self, frame: &[u8], which: usize) {
        // Behind VLAN tags too.
        for start in [LINK, LINK + 4, LINK + 8] {
            if let Some(name) = frame.get(start..).and_then(name_of_quoted) {
                self.talks.retain(|talk| talk.protocol != ipv4::TCP || !talk.is_touched(name));
            }
        }
        let port = [INSIDE, OUTSIDE, SERVERS][which % 3];
        self.pass(frame, port, which & 8 != 0);
    }

    /// A stranger says something to an end outside that is somebody's.
    fn knock(&mut self, which: usize) {
        let how = self.input.byte();
        let Some((talk, _)) = self.picked(which) else { return };
        let Some(outer) = talk.outer.filter(|_| talk.protocol == ipv4::UDP) else { return };
        let from = match how & 1 {
            0 => SocketAddrV4::new(*talk.server.ip(), talk.server.port() ^ u16::from(how | 1)),
            _ => SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 100 | how), talk.server.port()),
        };
        let frame = packet::build((talk.protocol, from, outer), &[], b"hello");
        self.pass(&frame, OUTSIDE, false);
    }

    /// A datagram in two pieces.
    fn pieces(&mut self, which: usize) {
        let id = self.input.byte();
        let Some((talk, by_client)) = self.picked(which) else { return };
        let is_it = talk.protocol == ipv4::UDP && talk.outer.is_some();
        let Some(next) = talk.next(by_client, 0xf8).filter(|_| is_it) else { return };
        let whole = next.frame;
        let (head, segment) = whole.split_at(LINK + 20);
        let ends = |frame: &[u8]| frame[LINK + 12..LINK + 20].to_vec();
        let mut seen = Vec::new();
        for (offset, bytes, more) in [(0, &segment[..24], 0x20), (3, &segment[24..], 0)] {
            let mut piece = [head, bytes].concat();
            piece[LINK + 2..LINK + 4].copy_from_slice(&(20 + bytes.len() as u16).to_be_bytes());
            (piece[LINK + 4], piece[LINK + 6], piece[LINK + 7]) = (id, more, offset);
            packets::correct_checksum(&mut piece);
            let Some(left) = self.pass(&piece, talk.side(by_client), false) else {
                assert!(!self.is_roomy(), "a piece is dropped: {talk:?}");
                return;
            };
            seen.push((left.port, ends(&left.frame)));
        }
        assert!(seen[0] == seen[1] || !self.is_roomy(), "two ways: {seen:?}");
    }

    fn reload(&mut self) {
        let how = self.input.byte();
        self.may_reload = false;
        let filtering = Program::pick(how, 0, [Filtering::AddressAndPort, Filtering::Endpoint]);
        self.is_open |= filtering == Filtering::Endpoint;
        // One server at least gets new flows.
        self.chain.reload(filtering, Program::pick(how, 1, [0, 1, 2]));
        self.talks.retain(Talk::is_settled);
    }
}

/// Of an echo the other end has no number.
fn without_port(protocol: u8, end: SocketAddrV4) -> SocketAddrV4 {
    let port = if protocol == ipv4::ICMP { 0 } else { end.port() };
    SocketAddrV4::new(*end.ip(), port)
}
