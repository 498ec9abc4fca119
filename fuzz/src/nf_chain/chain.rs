//! The functions, in the order of a chain's worker, and what must hold of each packet.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{LazyLock, Mutex, MutexGuard};

use base::{ChecksumState, Nanos, PortId, TxChecksum};
use calisto_nf::acl::Action;
use calisto_nf::balancer::{BalancerSettings, Forwarding, Server, Service};
use calisto_nf::fib::Interface;
use calisto_nf::firewall::{FirewallRule, FirewallSettings};
use calisto_nf::nat::{Filtering, NatSettings};
use calisto_nf::router::RouterSettings;
use calisto_nf::track::TrackSettings;
use calisto_nf::{
    Balancer, Firewall, Function, Nat, Neighbour, NextHop, Rib, Router, Selector, Verdict, Verdicts,
};
use shm::{Batch, FramePool};
use wire::checksum::Sum;

use super::packet::{self, LINK};
use crate::packets::{self, OUR_MAC};

pub(super) const INSIDE: PortId = PortId(0);
pub(super) const OUTSIDE: PortId = PortId(1);
pub(super) const SERVERS: PortId = PortId(2);
/// The address that hosts inside share.
pub(super) const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
/// Ports of one subscriber.
const PORTS_EACH: u32 = 128;
/// Longer than anything is kept.
const LONG: Nanos = Nanos::from_secs(1_000_000);
/// Calls within which a table is looked at as a whole.
const SWEEPS_MAX: usize = 4096;

/// A service, and the first of its two servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub(super) protocol: u8,
    pub(super) at: SocketAddrV4,
    pub(super) server: SocketAddrV4,
    pub(super) forwarding: Forwarding,
}

const fn end(address: [u8; 4], port: u16) -> SocketAddrV4 {
    let [a, b, c, d] = address;
    SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port)
}

/// One for each way to the servers.
pub(super) const SHARED: [Shared; 3] = [
    Shared {
        protocol: 6,
        at: end([192, 0, 2, 80], 80),
        server: end([10, 9, 0, 1], 8080),
        forwarding: Forwarding::Nat,
    },
    Shared {
        protocol: 17,
        at: end([192, 0, 2, 81], 53),
        server: end([10, 9, 0, 3], 53),
        forwarding: Forwarding::Link,
    },
    Shared {
        protocol: 6,
        at: end([192, 0, 2, 82], 443),
        server: end([10, 9, 0, 5], 443),
        forwarding: Forwarding::Ipip { source: Ipv4Addr::new(10, 9, 0, 254) },
    },
];

/// Which functions there are, and how much room they have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) has_firewall: bool,
    pub(super) has_balancer: bool,
    pub(super) connections: usize,
    pub(super) filtering: Filtering,
    pub(super) picks_up: bool,
}

/// Tables that are large, and remember nothing.
static ROUTER: LazyLock<Mutex<(Router, FramePool)>> =
    LazyLock::new(|| Mutex::new((router(), packets::pool())));

/// A balancer between two inputs, and the time behind which it knows nothing any more: its rings
/// take longer to make than an input takes.
static SPARE: Mutex<Option<(Balancer, Nanos)>> = Mutex::new(None);
/// When time begins, and from when on it begins anew: the balancer counts seconds in 32 bits.
const BEGIN: Nanos = Nanos::from_secs(1000);
const BEGIN_ANEW: Nanos = Nanos::from_secs(1 << 31);
/// Longer than a balancer keeps a flow.
const KEPT: Nanos = Nanos::from_secs(8000);

pub(super) struct Chain {
    shape: Shape,
    nat: Nat,
    balancer: Option<Balancer>,
    firewall: Option<Firewall>,
    router: MutexGuard<'static, (Router, FramePool)>,
    was_reloaded: bool,
}

/// A packet that left.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) port: PortId,
    pub(super) frame: Vec<u8>,
}

impl Chain {
    /// A chain that knows nothing, and when its time begins.
    pub(super) fn new(shape: Shape) -> (Self, Nanos) {
        let spare = SPARE.lock().expect("one thread").take_if(|_| shape.has_balancer);
        let (balancer, begin) = match spare {
            Some((spare, begin)) => (Some(spare), begin),
            None => (shape.has_balancer.then(|| balancer(0)), BEGIN),
        };
        let chain = Self {
            nat: Nat::new(&nat_settings(&shape)),
            balancer,
            firewall: shape.has_firewall.then(|| firewall(&shape)),
            router: ROUTER.lock().unwrap_or_else(|held| held.into_inner()),
            was_reloaded: false,
            shape,
        };
        (chain, begin)
    }

    /// The file was written again: other functions go on where these have come to. `is_out` says
    /// of each of both servers of every service whether it gets no new flows.
    pub(super) fn reload(&mut self, filtering: Filtering, is_out: u8) {
        self.shape.filtering = filtering;
        self.was_reloaded = true;
        let mut nat = Nat::new(&nat_settings(&self.shape));
        nat.take_over(&mut self.nat);
        self.nat = nat;
        if let Some(before) = &mut self.balancer {
            let mut after = balancer(is_out);
            after.take_over(before);
            *before = after;
        }
        if let Some(before) = &mut self.firewall {
            let mut after = firewall(&self.shape);
            after.take_over(before);
            *before = after;
        }
    }

    /// What becomes of a packet that comes by this port; checks what holds of every packet.
    pub(super) fn pass(
        &mut self,
        packet: &[u8],
        port: PortId,
        is_open: bool,
        now: Nanos,
    ) -> Option<Left> {
        let (router, pool) = &mut *self.router;
        let mut frame = packets::frame(pool, packet, port);
        if is_open {
            frame.meta_mut().checksum = ChecksumState::Partial;
        }
        let mut batch: Batch = [frame].into_iter().collect();
        let mut verdicts = Verdicts::new();
        self.nat.process(&mut batch, &mut verdicts, now);
        if let Some(balancer) = &mut self.balancer {
            balancer.process(&mut batch, &mut verdicts, now);
        }
        if let Some(firewall) = &mut self.firewall {
            firewall.process(&mut batch, &mut verdicts, now);
        }
        router.process(&mut batch, &mut verdicts, now);
        if let Some(balancer) = &mut self.balancer {
            balancer.leave(&mut batch, &mut verdicts, now);
        }
        self.nat.leave(&mut batch, &mut verdicts, now);
        router.take_wanted().for_each(drop);
        let left = match verdicts[0] {
            Verdict::Drop => None,
            Verdict::Next => panic!("a router decides"),
            Verdict::Out(port) => {
                let meta = *batch[0].meta();
                let mut frame = batch[0].bytes().to_vec();
                if meta.tx_checksum == TxChecksum::Partial {
                    complete(&mut frame, meta.tx_checksum_start, meta.tx_checksum_offset);
                }
                Some(Left { port, frame })
            }
        };
        batch.into_iter().for_each(|frame| pool.give(frame));
        if let Some(left) = &left {
            check_sums(packet, &left.frame, is_open);
        }
        self.check_room();
        left
    }

    /// Nobody has more than there is room for.
    fn check_room(&self) {
        let [connections, mappings, subscribers] = self.held();
        assert!(connections <= self.shape.connections, "{connections} connections");
        assert!(mappings <= connections, "{mappings} mappings of {connections} connections");
        assert!(subscribers <= mappings, "{subscribers} subscribers of {mappings} mappings");
        if let Some(firewall) = &self.firewall {
            assert!(firewall.connections() <= self.shape.connections);
        }
    }

    /// Connections, mappings and subscribers of the NAT.
    fn held(&self) -> [usize; 3] {
        let names = ["connections", "mappings", "subscribers"];
        let mut held = [usize::MAX; 3];
        self.nat.counters(&mut |name, _, value| {
            if let Some(at) = names.iter().position(|one| *one == name) {
                held[at] = value as usize;
            }
        });
        held
    }

    /// Nothing comes any more: in the end nothing is kept.
    pub(super) fn end(mut self, now: Nanos) {
        if let Some(balancer) = self.balancer.take().filter(|_| !self.was_reloaded)
            && now < BEGIN_ANEW
        {
            *SPARE.lock().expect("one thread") = Some((balancer, now + KEPT));
        }
        let now = now + LONG;
        let (mut batch, mut verdicts) = (Batch::new(), Verdicts::new());
        for _ in 0..SWEEPS_MAX {
            self.nat.process(&mut batch, &mut verdicts, now);
            if let Some(firewall) = &mut self.firewall {
                firewall.process(&mut batch, &mut verdicts, now);
            }
            let of_firewall = self.firewall.as_ref().map_or(0, Firewall::connections);
            if self.held() == [0; 3] && of_firewall == 0 {
                return;
            }
        }
        panic!("{:?} and {:?} stay", self.held(), self.firewall.map(|one| one.connections()));
    }
}

/// As a network interface does it.
fn complete(frame: &mut [u8], start: u16, offset: u16) {
    let segment = &mut frame[usize::from(start)..];
    let sum = Sum::ZERO.bytes(segment).udp_checksum();
    segment[usize::from(offset)..][..2].copy_from_slice(&sum.to_be_bytes());
}

/// What was right is right still, and what we say ourselves is.
fn check_sums(before: &[u8], after: &[u8], was_open: bool) {
    let (Some(before), Some(after)) = (packet::ipv4_of(before), packet::ipv4_of(after)) else {
        return;
    };
    assert!(packet::is_header_right(after), "{after:02x?} of {before:02x?}");
    // To a server, inside another packet.
    let inner = (after[9] == 4 && before[9] != 4).then(|| &after[20..]);
    if let Some(inner) = inner {
        assert!(packet::is_header_right(inner), "{inner:02x?}");
    }
    let after = inner.unwrap_or(after);
    let is_own = after[9] == 1 && before[9] != 1;
    let was_open = was_open && packet::is_open(before);
    let was_right = was_open || is_own || packet::is_sum_right(before) == Some(true);
    if was_right {
        assert_ne!(packet::is_sum_right(after), Some(false), "{after:02x?} of {before:02x?}");
    }
    // An error that was whole quotes a packet whose header is as right as it was.
    if let (Some(old), Some(new)) = (packet::quoted(before), packet::quoted(after))
        && packet::is_header_right(old)
    {
        assert!(packet::is_header_right(new), "{new:02x?} of {old:02x?}");
    }
    assert!(after.len() + LINK <= 2048);
}

fn track(shape: &Shape, track: TrackSettings) -> TrackSettings {
    let picks_up = shape.picks_up;
    TrackSettings { connections: shape.connections, picks_up, seed: 7, ..track }
}

fn nat_settings(shape: &Shape) -> NatSettings {
    NatSettings {
        outside: vec![OUTSIDE],
        addresses: vec![OURS],
        inside: vec!["10.0.0.0/16".parse().expect("a prefix")],
        filtering: shape.filtering,
        ports_each: PORTS_EACH,
        track: track(shape, NatSettings::track()),
    }
}

fn firewall(shape: &Shape) -> Firewall {
    let rule = FirewallRule {
        action: Action::Permit,
        from: Some(0),
        selector: Selector::default(),
        sources: Vec::new(),
        destinations: Vec::new(),
    };
    let settings = FirewallSettings {
        rules: vec![rule],
        // Beside a balancer, whose answers it sees from another end, it only tracks.
        default: if shape.has_balancer { Action::Permit } else { Action::Deny },
        not_ip: Action::Permit,
        zones: vec![vec![INSIDE], vec![OUTSIDE]],
        track: track(shape, TrackSettings::default()),
    };
    Firewall::new(&settings).expect("a rule that packets can match")
}

fn balancer(is_out: u8) -> Balancer {
    let services = SHARED.iter().map(|shared| {
        let one = |number: u32| Server {
            address: SocketAddrV4::new(
                (shared.server.ip().to_bits() + number).into(),
                shared.server.port(),
            ),
            weight: 1,
        };
        let Shared { protocol, at: address, forwarding, .. } = *shared;
        Service { address, protocol, forwarding, servers: vec![one(0), one(1)] }
    });
    let settings = BalancerSettings { services: services.collect(), flows: 1024, seed: 7 };
    Balancer::new(&settings, |_, server| is_out >> server & 1 == 0)
}

fn router() -> Router {
    let mut rib = Rib::new();
    let mut steps = Vec::new();
    let next: Ipv4Addr = "203.0.113.1".parse().expect("an address");
    for (prefix, to) in [
        ("10.0.0.0/24", NextHop::OnLink { port: INSIDE }),
        ("10.9.0.0/24", NextHop::OnLink { port: SERVERS }),
        ("0.0.0.0/0", NextHop::Gateway { port: OUTSIDE, address: next.into() }),
        ("fd00::/16", NextHop::OnLink { port: INSIDE }),
    ] {
        rib.load(prefix.parse().expect("a prefix"), to).expect("room");
    }
    let at = Neighbour::At([2, 0, 0, 0, 1, 1]);
    rib.set_neighbour(OUTSIDE, next.into(), Some(at), &mut steps);
    for host in 1..=16 {
        rib.set_neighbour(INSIDE, Ipv4Addr::new(10, 0, 0, host).into(), Some(at), &mut steps);
        rib.set_neighbour(SERVERS, Ipv4Addr::new(10, 9, 0, host).into(), Some(at), &mut steps);
    }
    for (port, four) in [(INSIDE, [10, 0, 0, 254]), (OUTSIDE, [203, 0, 113, 2])] {
        let interface = Interface { mac: OUR_MAC, mtu: 1500, four: Some(four.into()), six: None };
        rib.set_interface(port, Some(interface), &mut steps);
    }
    let four = Some(Ipv4Addr::new(10, 9, 0, 254));
    let interface = Interface { mac: OUR_MAC, mtu: 1500, four, six: None };
    rib.set_interface(SERVERS, Some(interface), &mut steps);
    let settings = RouterSettings { icmp_per_second: u32::MAX, icmp_burst: u32::MAX };
    Router::new(rib.fib(1), &settings)
}
