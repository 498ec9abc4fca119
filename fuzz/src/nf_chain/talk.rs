//! An honest conversation: who says what next, and what of it must come out at the other side.

use std::net::SocketAddrV4;

use base::{Nanos, PortId};
use calisto_nf::balancer::Forwarding;
use wire::ipv4;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};

use super::chain::{INSIDE, Left, OURS, Shared};
use super::packet::{self, Name, build, ipv4_of, said};

/// No function forgets a conversation within that time, whatever its state is.
const SURE_FOR: Nanos = Nanos::from_secs(25);
/// Nor one of TCP that stands.
const STANDS_FOR: Nanos = Nanos::from_secs(3000);

#[derive(Clone, Debug)]
pub(super) struct Talk {
    pub(super) protocol: u8,
    /// The ends as the client names them, and where it is.
    pub(super) client: SocketAddrV4,
    pub(super) server: SocketAddrV4,
    pub(super) client_at: PortId,
    pub(super) server_at: PortId,
    pub(super) shared: Option<Shared>,
    /// As the server names the client, and itself, once it has heard something.
    pub(super) outer: Option<SocketAddrV4>,
    pub(super) real: Option<SocketAddrV4>,
    /// What each of both says next, client first.
    next: [u32; 2],
    has_spoken: [bool; 2],
    has_finished: [bool; 2],
    stands: bool,
    is_reset: bool,
    /// What each has said last, as it left it and as it arrived.
    pub(super) last: [Option<[Vec<u8>; 2]>; 2],
    heard: Nanos,
}

/// What is said next.
pub(super) struct Next {
    pub(super) frame: Vec<u8>,
    flags: u8,
    taken: u32,
}

impl Talk {
    pub(super) fn new(
        protocol: u8,
        [client, server]: [SocketAddrV4; 2],
        [client_at, server_at]: [PortId; 2],
        shared: Option<Shared>,
        first: u32,
        now: Nanos,
    ) -> Self {
        Self {
            protocol,
            client,
            server,
            client_at,
            server_at,
            shared,
            outer: None,
            real: None,
            next: [first, first.rotate_left(9) ^ 0x5a5a],
            has_spoken: [false; 2],
            has_finished: [false; 2],
            stands: false,
            is_reset: false,
            last: [None, None],
            heard: now,
        }
    }

    /// Whether every function has to know it still.
    pub(super) fn is_sure(&self, now: Nanos) -> bool {
        let stands = self.stands && self.has_finished == [false; 2];
        let kept = if stands && self.protocol == ipv4::TCP { STANDS_FOR } else { SURE_FOR };
        !self.is_reset && now < self.heard + kept
    }

    /// Whether functions that are made anew need not choose again for it.
    pub(super) const fn is_settled(&self) -> bool {
        self.stands || self.shared.is_none()
    }

    /// The port by which the packets of one side come.
    pub(super) const fn side(&self, by_client: bool) -> PortId {
        if by_client { self.client_at } else { self.server_at }
    }

    /// From whom to whom, as one side says it.
    fn name(&self, by_client: bool) -> Option<Name> {
        if by_client {
            return Some((self.protocol, self.client, self.server));
        }
        let is_behind = |one: Shared| one.forwarding == Forwarding::Nat;
        let own = if self.shared.is_none_or(is_behind) { self.real? } else { self.server };
        Some((self.protocol, own, self.outer?))
    }

    /// What one side may say now.
    pub(super) fn next(&self, by_client: bool, how: u8) -> Option<Next> {
        let name = self.name(by_client)?;
        let payload = &[how; 48][..usize::from(how >> 3)];
        let (header, flags, payload) = match self.protocol {
            ipv4::TCP => {
                let (flags, payload) = self.segment(by_client, how, payload)?;
                let [own, other] = self.places(by_client);
                let acknowledged = if flags & ACK == 0 { 0 } else { self.next[other] };
                let mut header = [0; 16];
                header[..4].copy_from_slice(&self.next[own].to_be_bytes());
                header[4..8].copy_from_slice(&acknowledged.to_be_bytes());
                (header[8], header[9]) = (5 << 4, flags);
                header[10..12].copy_from_slice(&8000_u16.to_be_bytes());
                (header.to_vec(), flags, payload)
            }
            // A client asks, a server answers.
            ipv4::ICMP => (vec![if by_client { 8 } else { 0 }, 0], 0, payload),
            _ => (Vec::new(), 0, payload),
        };
        let ends = flags & (SYN | FIN) != 0;
        let taken = payload.len() as u32 + u32::from(ends);
        Some(Next { frame: build(name, &header, payload), flags, taken })
    }

    const fn places(&self, by_client: bool) -> [usize; 2] {
        if by_client { [0, 1] } else { [1, 0] }
    }

    fn segment<'a>(&self, by_client: bool, how: u8, payload: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let [own, other] = self.places(by_client);
        Some(match (self.has_spoken[own], self.has_spoken[other]) {
            (false, false) if by_client => (SYN, &[]),
            (false, true) if !by_client => (SYN | ACK, &[]),
            (true, true) if !self.stands && by_client => (ACK, &[]),
            (true, true) if self.stands => match how & 7 {
                0 => (RST | ACK, &[]),
                _ if self.has_finished[own] => (ACK, &[]),
                1 => (FIN | ACK, payload),
                _ => (ACK | PSH, payload),
            },
            _ => return None,
        })
    }

    /// One side has said this, and it has arrived so.
    pub(super) fn advance(&mut self, by_client: bool, next: &Next, left: Left, now: Nanos) {
        let [own, other] = self.places(by_client);
        if self.protocol == ipv4::TCP {
            self.next[own] = self.next[own].wrapping_add(next.taken);
            self.stands |= by_client && self.has_spoken == [true; 2];
            self.has_finished[own] |= next.flags & FIN != 0;
            self.is_reset |= next.flags & RST != 0;
        } else {
            self.stands |= by_client && self.has_spoken[own];
        }
        let _ = other;
        self.has_spoken[own] = true;
        self.heard = now;
        self.last[own] = Some([next.frame.clone(), left.frame]);
    }

    /// What was said has left as it should, to the other side.
    pub(super) fn check(&mut self, by_client: bool, sent: &[u8], left: &Left) {
        assert_eq!(left.port, self.side(!by_client), "{self:?}");
        let sent = ipv4_of(sent).expect("it was built");
        let mut arrived = ipv4_of(&left.frame).expect("what leaves is a packet");
        assert_eq!(arrived[8], 63, "one router more");
        let mut server = None;
        let is_inside =
            self.shared.is_some_and(|one| matches!(one.forwarding, Forwarding::Ipip { .. }));
        if by_client && is_inside {
            assert_eq!((arrived[9], &arrived[12..16]), (4, &[10, 9, 0, 254][..]));
            server = Some([arrived[16], arrived[17], arrived[18], arrived[19]].into());
            arrived = &arrived[20..];
        }
        let (was, is) = (said(sent).expect("it was built"), said(arrived).expect("it is whole"));
        assert_eq!(
            (was.protocol, sums_apart(was.protocol, was.rest)),
            (is.protocol, sums_apart(is.protocol, is.rest))
        );
        if !by_client {
            assert_eq!(
                (is.from.ip(), is.to),
                (self.server.ip(), self.client),
                "it comes back translated"
            );
            assert!(is.protocol == ipv4::ICMP || is.from == self.server);
            return;
        }
        assert_eq!(*self.outer.get_or_insert(is.from), is.from, "one end outside, always the same");
        if self.client_at == INSIDE && self.shared.is_none() {
            assert!(*is.from.ip() == OURS && (is.from.port() >= 1024), "{is:?}");
        } else {
            assert_eq!(is.from, self.client);
        }
        let real = server.map_or(is.to, |ip| SocketAddrV4::new(ip, is.to.port()));
        assert_eq!(*self.real.get_or_insert(real), real, "one server, always the same");
        match self.shared {
            Some(Shared { forwarding: Forwarding::Link, at, .. }) => assert_eq!(real, at),
            Some(Shared { server, .. }) => {
                let number = real.ip().to_bits().wrapping_sub(server.ip().to_bits());
                assert!(number < 2 && real.port() == server.port(), "{real}");
            }
            None if is.protocol == ipv4::ICMP => assert_eq!(is.to.ip(), self.server.ip()),
            None => assert_eq!(is.to, self.server),
        }
    }

    /// Whether a stranger's packet could be taken for one of it.
    pub(super) fn is_touched(&self, (protocol, from, to): Name) -> bool {
        let own = [Some(self.client), self.outer];
        protocol == self.protocol && (own.contains(&Some(from)) || own.contains(&Some(to)))
    }

    /// What the client has said, as a complaint about it quotes it when it gets there.
    pub(super) fn check_complaint(&self, left: &Left) {
        assert_eq!(left.port, self.client_at);
        let arrived = ipv4_of(&left.frame).expect("what leaves is a packet");
        assert_eq!(arrived[16..20], self.client.ip().octets());
        let quoted = packet::quoted(arrived).expect("a complaint");
        let name = packet::name_of_quoted(quoted);
        let server =
            if self.protocol == ipv4::ICMP { self.client.port() } else { self.server.port() };
        let server = SocketAddrV4::new(*self.server.ip(), server);
        assert_eq!(name, Some((self.protocol, self.client, server)));
        let sent = self.last[0].as_ref().and_then(|[sent, _]| ipv4_of(sent)).expect("it was sent");
        // Of a packet that is quoted as a whole, its own checksum is right too.
        if quoted.len() == sent.len() {
            assert_ne!(packet::is_sum_right(quoted), Some(false), "{quoted:02x?}");
        }
    }
}

/// What stands behind the ports, without the checksum.
fn sums_apart(protocol: u8, rest: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (before, after) = match protocol {
        // Sequence number to window, then urgent pointer and payload.
        ipv4::TCP => (&rest[..12], &rest[14..]),
        _ => (&rest[..0], rest),
    };
    (before.to_vec(), after.to_vec())
}
