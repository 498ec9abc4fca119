//! An attacker: thousands of TCP connections from addresses that nobody has, which keep to no rule.
//!
//! It speaks from the client's end over a packet socket, in the names of 198.18.0.0/15 (RFC 2544
//! appendix C.2.2): the kernel there knows nothing of it, so that nothing is answered but what the
//! attacker answers. Read `peer.rs` for what one connection does.

mod peer;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use base::{Nanos, PortId, QueueId};
use port::af_packet::{AfPacketOptions, AfPacketPort};
use port::filter::Instruction;
use port::{Filter, Port};
use shm::{Batch, FramePool, PoolConfig};
use wire::tcp::{ACK, Header, RST, SYN};
use wire::{Outcome, Protocol};

pub use peer::{Abuse, Conduct, TINY_MSS, USUAL_MSS};
use peer::{Outgoing, Peer, State};

use crate::ip::ip_in;
use crate::{Forged, Testbed, TestbedError};

/// The first of the attacker's addresses, and bits of the network part.
const SOURCES: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const SOURCES_PREFIX: u8 = 15;

/// Connections from one address, from port [`FIRST_PORT`] on.
const PORTS: u64 = 60_000;
const FIRST_PORT: u16 = 1024;

/// Connections begun in one turn, at most: who looks late makes no flood of it.
const BURST_OF_CONNECTIONS: u64 = 32;

/// Until a reset is said once more.
const CLOSING: Nanos = Nanos::from_millis(300);

/// Frames that wait on their way out, at most; what is more is lost, as on a wire.
const OUTGOING_MAX: usize = 4096;

/// Instructions of a packet filter, bpf(4): IPv4 packets to [`SOURCES`], whole.
const FILTER: [Instruction; 7] = [
    instruction(0x28, 0, 0, 12),
    instruction(0x15, 0, 4, 0x0800),
    instruction(0x20, 0, 0, 30),
    instruction(0x54, 0, 0, 0xfffe_0000),
    instruction(0x15, 0, 1, 0xc612_0000),
    instruction(0x06, 0, 0, 0xffff),
    instruction(0x06, 0, 0, 0),
];

const fn instruction(code: u16, if_true: u8, if_false: u8, value: u32) -> Instruction {
    Instruction { code, if_true, if_false, value }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct AttackPlan {
    /// Whom it is done to.
    pub server: SocketAddrV4,
    /// What connections do, one after the other in turn.
    pub conducts: Vec<Conduct>,
    /// Connections in all.
    pub connections: u64,
    /// Connections begun in a second.
    pub per_second: u64,
    /// A connection that is still open after so long is reset.
    pub holds: Nanos,
    /// The number of the first connection: no name is used twice by attacks that count on.
    pub first: u64,
}

/// What has been done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttackCounts {
    /// Connections begun.
    pub opened: u64,
    /// Those that the server has accepted.
    pub accepted: u64,
    /// Those that ended as they were meant to.
    pub ended: u64,
    /// Those that the server has reset.
    pub reset: u64,
    /// Those that were open to the end of their time, and were reset then.
    pub expired: u64,
    /// Those to which the server has not said anything.
    pub unanswered: u64,
    /// Frames to the server.
    pub sent: u64,
    /// Frames that were lost because the wire was full.
    pub lost: u64,
    /// Frames from the server.
    pub heard: u64,
}

/// An attack that goes on for as long as [`Attack::turn`] is called.
pub struct Attack {
    plan: AttackPlan,
    port: AfPacketPort,
    pool: FramePool,
    incoming: Batch,
    outgoing: Batch,
    out: Outgoing,
    peers: HashMap<SocketAddrV4, Peer>,
    /// By the time when they end.
    order: VecDeque<(Nanos, SocketAddrV4)>,
    timers: BinaryHeap<Reverse<(Nanos, SocketAddrV4)>>,
    /// Connections whose reset is said once more, and when: the first may have been lost, and a
    /// server that has nothing to say would never know.
    closings: VecDeque<(Nanos, Peer)>,
    began: Option<Nanos>,
    counts: AttackCounts,
}

impl Attack {
    /// An attacker at the client's end of `bed`, to whose addresses the server's end gets a route.
    ///
    /// # Errors
    /// The kernel gives no packet socket or no route: this needs root.
    pub fn new(bed: &Testbed, plan: AttackPlan) -> Result<Self, TestbedError> {
        let (client, server) = (bed.client(), bed.server());
        let route =
            format!("route replace {SOURCES}/{SOURCES_PREFIX} via {} dev veth0", client.ipv4());
        ip_in(server.namespace(), &route)?;
        let failed = |error: &dyn std::fmt::Display| TestbedError::Config(format!("{error}"));
        let pool = PoolConfig { frames: 4096, chunk_bytes: 2048, numa_node: None };
        let pool = FramePool::new(pool).map_err(|error| failed(&error))?;
        let filter = Filter::from_program("to the attacker", &FILTER);
        let filter = filter.map_err(|error| failed(&error))?;
        let open = || {
            let options = AfPacketOptions::default();
            let (name, id, queue) = (client.interface(), PortId(0), QueueId(0));
            let mut port = AfPacketPort::open(name, id, queue, &pool, &options)?;
            port.set_filter(Some(&filter))?;
            Ok::<_, port::OpenError>(port)
        };
        let port = client.enter(open)?.map_err(|error| failed(&error))?;
        let out = Outgoing {
            source_mac: client.mac(),
            destination_mac: server.mac(),
            frames: Vec::new(),
        };
        Ok(Self {
            plan,
            port,
            pool,
            incoming: Batch::new(),
            outgoing: Batch::new(),
            out,
            peers: HashMap::new(),
            order: VecDeque::new(),
            timers: BinaryHeap::new(),
            closings: VecDeque::new(),
            began: None,
            counts: AttackCounts::default(),
        })
    }

    /// Whether every connection was begun and has ended.
    pub fn is_over(&self) -> bool {
        self.counts.opened == self.plan.connections && self.order.is_empty()
    }

    /// What has been done so far.
    pub fn counts(&self) -> AttackCounts {
        self.counts
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.peers.len()
    }

    /// Hears what has come, and says what is to be said at `now`; whether there was anything. Goes
    /// on after the end: what the server still sends is answered by resets.
    pub fn turn(&mut self, now: Nanos) -> bool {
        let before = self.counts;
        self.listen(now);
        while let Some(&Reverse((due, name))) = self.timers.peek().filter(|timer| timer.0.0 <= now)
        {
            self.timers.pop();
            self.with(name, |peer, conduct, out| {
                if peer.due == Some(due) {
                    peer.tick(conduct, out);
                }
            });
        }
        while let Some((_, name)) = self.order.pop_front_if(|(end, _)| *end <= now) {
            self.expire(name, now);
        }
        while let Some((_, peer)) = self.closings.pop_front_if(|(due, _)| *due <= now) {
            peer.say_closing(&mut self.out);
        }
        self.begin(now);
        self.send(now);
        self.counts != before
    }

    /// Resets every connection that is open.
    pub fn end(&mut self, now: Nanos) {
        while let Some((_, name)) = self.order.pop_front() {
            self.expire(name, now);
            self.send(now);
        }
        self.plan.connections = self.counts.opened;
    }

    fn listen(&mut self, now: Nanos) {
        while self.port.rx(&mut self.pool, &mut self.incoming, now) > 0 {
            let mut incoming = std::mem::take(&mut self.incoming);
            for frame in incoming.drain(..) {
                self.counts.heard += 1;
                self.hear(frame.bytes(), now);
                self.pool.give(frame);
            }
            self.incoming = incoming;
        }
    }

    fn hear(&mut self, frame: &[u8], now: Nanos) {
        let Outcome::Flow(flow) = wire::classify(frame) else { return };
        let segment = frame.get(usize::from(flow.l4_offset)..).unwrap_or_default();
        let (SocketAddr::V4(name), Protocol::Tcp, Ok(header)) =
            (flow.key.destination(), flow.key.protocol(), Header::parse(segment))
        else {
            return;
        };
        if flow.key.source() != SocketAddr::V4(self.plan.server) {
            return;
        }
        let Some(was) = self.peers.get(&name).map(|peer| peer.state) else {
            return self.deny(name, &header);
        };
        let bytes = u32::from(flow.payload_len);
        self.with(name, |peer, conduct, out| peer.hear(conduct, &header, bytes, now, out));
        if was == State::Opening
            && self.peers.get(&name).is_none_or(|peer| peer.state != State::Opening)
        {
            self.counts.accepted += 1;
        }
    }

    /// Answers what fits no connection as every host does, so that an end that was lost is noticed.
    /// A name that was only forged for a SYN stays silent.
    fn deny(&mut self, name: SocketAddrV4, header: &Header) {
        if header.flags & (ACK | RST | SYN) != ACK {
            return;
        }
        let sequence = header.acknowledgement;
        let reset = Forged { flags: RST, sequence, ..Forged::between(name, self.plan.server) };
        self.out.frames.push(reset.frame(self.out.source_mac, self.out.destination_mac));
    }

    /// Does something with a connection, if it is there; forgets it if it is over then.
    fn with(&mut self, name: SocketAddrV4, act: impl FnOnce(&mut Peer, &Conduct, &mut Outgoing)) {
        let Some(peer) = self.peers.get_mut(&name) else { return };
        let (conduct, due) = (&self.plan.conducts[peer.conduct], peer.due);
        act(peer, conduct, &mut self.out);
        if let Some(next) = peer.due.filter(|next| due != Some(*next)) {
            self.timers.push(Reverse((next, name)));
        }
        match peer.state {
            State::Opening | State::Open => return,
            State::Ended => self.counts.ended += 1,
            State::Reset => self.counts.reset += 1,
        }
        self.peers.remove(&name);
    }

    fn expire(&mut self, name: SocketAddrV4, now: Nanos) {
        let Some(mut peer) = self.peers.remove(&name) else { return };
        match peer.state {
            State::Opening => self.counts.unanswered += 1,
            _ => {
                self.counts.expired += 1;
                peer.reset(&mut self.out);
                self.closings.push_back((now + CLOSING, peer));
            }
        }
    }

    fn begin(&mut self, now: Nanos) {
        let began = *self.began.get_or_insert(now);
        let due = now.since(began).0.saturating_mul(self.plan.per_second) / 1_000_000_000 + 1;
        let due = due.min(self.plan.connections).saturating_sub(self.counts.opened);
        for _ in 0..due.min(BURST_OF_CONNECTIONS) {
            let number = self.plan.first + self.counts.opened;
            let local = name(number);
            let conduct = (self.counts.opened % self.plan.conducts.len() as u64) as usize;
            let mut peer = Peer::new(local, self.plan.server, conduct, now);
            peer.open(&self.plan.conducts[conduct], &mut self.out);
            self.peers.insert(local, peer);
            self.order.push_back((now + self.plan.holds, local));
            self.counts.opened += 1;
        }
    }

    fn send(&mut self, now: Nanos) {
        let frames = std::mem::take(&mut self.out.frames);
        let surplus = frames.len().saturating_sub(OUTGOING_MAX);
        self.counts.lost += surplus as u64;
        for frame in frames.into_iter().skip(surplus) {
            if self.outgoing.is_full() {
                self.push(now);
            }
            let Some(mut room) = self.pool.take() else {
                self.counts.lost += 1;
                continue;
            };
            let fits = room.fill(&frame);
            debug_assert!(fits, "no peer says as much");
            self.outgoing.push(room);
        }
        self.push(now);
    }

    fn push(&mut self, now: Nanos) {
        self.counts.sent += self.port.tx(&mut self.pool, &mut self.outgoing, now) as u64;
        for frame in self.outgoing.drain(..) {
            self.counts.lost += 1;
            self.pool.give(frame);
        }
    }
}

impl std::fmt::Debug for Attack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attack").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The name of a connection; after 7.8 thousand million they come again.
fn name(number: u64) -> SocketAddrV4 {
    // Neither the network's own address nor the last one.
    let host = 1 + (number / PORTS) % ((1 << (32 - SOURCES_PREFIX)) - 2);
    let address = Ipv4Addr::from(u32::from(SOURCES) + host as u32);
    SocketAddrV4::new(address, FIRST_PORT + (number % PORTS) as u16)
}

#[cfg(test)]
mod tests;
