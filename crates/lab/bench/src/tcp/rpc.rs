//! Instructions for a request of 64 bytes and its response: the engine's, and smoltcp's.
//!
//! The client is our engine in every conversation, so that all servers get the same segments.

use base::{BURST, Nanos};
use clap::ValueEnum;
use smoltcp::socket::tcp::CongestionControl;
use tcp::{Config, Counters, Event};
use wire::Toeplitz;

use super::callgrind::instructions;
use super::end::{End, EndConfig, Packet, REQUEST_BYTES, key_of};
use super::flows::{self, BATCH_COUNTED};
use super::lean::COUNTED;
use super::smoltcp_server::SmoltcpServer;
use crate::cases::Plan;
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::{SERVER, hash_key};
use crate::helper::word;
use crate::report::Report;

const UNIT: &str = "instructions";

const RING_LOG2: u8 = 12;

/// From a segment to the next of the other side.
const STEP: Nanos = Nanos::from_micros(20);

/// Rounds in which the connection comes to stand.
const HANDSHAKE: u64 = 4;

/// To whom the requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RpcKind {
    /// The engine.
    Rpc,
    /// The engine, in batches.
    RpcBatch,
    /// The engine, in packets with IPv4 headers.
    RpcIpv4,
    /// smoltcp, with the same congestion control.
    RpcSmoltcp,
    /// smoltcp without congestion control.
    RpcSmoltcpPlain,
}

/// What the server's engine had counted after the handshake and at the end; nothing of smoltcp's.
pub(crate) type Counted = Option<(Counters, Counters)>;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let requests = plan.pick(100_000, 5_000);
    report.begin(
        "rpc",
        &format!(
            "memory port, one established flow with timestamps, requests and responses of \
             {REQUEST_BYTES} bytes, one at a time, {STEP} of virtual time between segments; the \
             client is this engine in every row. Instructions by callgrind. Own work: receive, deliver, take the reply, build the segment, of {BATCH_COUNTED} requests of as many of {BURST} flows at a time. The others: the server's whole \
             turn: look for what is due, segment in (its checksum checked), event, the \
             application copies the bytes, segment out (its checksum made). With IPv4: header \
             parsed, checked and written too, and the flow hash computed, against smoltcp 0.14 \
             (medium IP, one socket, both with CUBIC), whose turn is one ingress poll, \
             recv_slice, send_slice and one egress poll."
        ),
    )?;
    report.progress(format_args!("{requests} requests without a loss"));
    let counted = RpcKind::Rpc.converse(requests)?;
    if let Some((before, after)) = counted {
        let received = after.received - before.received;
        let fast = (after.fast - before.fast) as f64 / received.max(1) as f64;
        let share = Figure::new("segments on the fast path", "%", &[100.0 * fast]);
        report.figure(share.target(Target::AtLeast(99.0)))?;
        let sent = (after.transmitted - before.transmitted) as f64 / received.max(1) as f64;
        let out = Figure::new("segments out per request in", "", &[sent]);
        report.figure(out.target(Target::AtMost(1.0)))?;
    }
    let counted = |report: &Report<'_>, kind: RpcKind, function: &str| {
        crate::error::unless_interrupted()?;
        report.progress(format_args!("{} under callgrind", word(kind)));
        per_round(plan, kind, function)
    };
    let batched = counted(report, RpcKind::RpcBatch, COUNTED)?;
    let name = format!("engine's own work, batches of {BATCH_COUNTED}");
    report.figure(Figure::new(name, UNIT, &[batched]).target(Target::AtMost(1200.0)))?;
    let engine = counted(report, RpcKind::Rpc, "engine_alone_serves")?;
    report.figure(Figure::new("engine and application, one at a time", UNIT, &[engine]))?;
    let ours = counted(report, RpcKind::RpcIpv4, "engine_with_ipv4_serves")?;
    let theirs = counted(report, RpcKind::RpcSmoltcp, "smoltcp_serves")?;
    let plain = counted(report, RpcKind::RpcSmoltcpPlain, "smoltcp_serves")?;
    // Three times fewer is a third.
    let figure = Figure::new("… with IPv4 and flow hash", UNIT, &[ours])
        .against("smoltcp", &[ours], &[theirs])
        .target(Target::RatioAtMost(0.333));
    report.figure(figure)?;
    report.figure(Figure::new("smoltcp and application, one at a time", UNIT, &[theirs]))?;
    report.figure(Figure::new("smoltcp without congestion control", UNIT, &[plain]))
}

/// Instructions for one round more: start and handshake are in both runs.
fn per_round(plan: &Plan, kind: RpcKind, function: &str) -> Result<f64, Error> {
    // Whole chunks of batches.
    let (few, many) = plan.pick((1_024, 11_264), (512, 1_024));
    let fewer = instructions(kind, few, function)?;
    let more = instructions(kind, many, function)?;
    Ok(more.saturating_sub(fewer) as f64 / (many - few) as f64)
}

impl RpcKind {
    /// A conversation with that server in which every request is answered.
    pub(crate) fn converse(self, requests: u64) -> Result<Counted, Error> {
        match self {
            Self::RpcBatch => flows::converse(requests).map(|()| None),
            Self::Rpc => converse(&mut Alone::new(false)?, requests),
            Self::RpcIpv4 => converse(&mut WithIpv4::new()?, requests),
            Self::RpcSmoltcp => converse(&mut smoltcp(CongestionControl::Cubic)?, requests),
            Self::RpcSmoltcpPlain => converse(&mut smoltcp(CongestionControl::None)?, requests),
        }
    }
}

/// Someone who echoes. Only [`Self::serve`] is what a server pays.
trait Server {
    /// Puts a packet, hashed, where the server finds it.
    fn offer(&mut self, packet: &Packet);
    /// Takes it, does the application's part, sends.
    fn serve(&mut self, now: Nanos);
    /// Moves what was sent to `packets`.
    fn collect(&mut self, packets: &mut Vec<Packet>);
    /// What its engine has counted.
    fn counters(&self) -> Option<Counters>;
}

fn end(secret: u8, has_ipv4: bool) -> End {
    let engine = Config { flows_max: 16, ..Config::default() };
    let config = EndConfig { engine, ring_log2: RING_LOG2, packets: 4, has_ipv4 };
    End::new(&config, secret, Nanos::ZERO)
}

fn smoltcp(congestion: CongestionControl) -> Result<SmoltcpServer, Error> {
    SmoltcpServer::new(1 << RING_LOG2, congestion)
}

/// Asks one request after another.
fn converse<S: Server>(server: &mut S, requests: u64) -> Result<Counted, Error> {
    let hasher = Toeplitz::new(hash_key());
    let mut client = end(1, true);
    let mut now = Nanos::from_secs(1);
    let flow = client.connect(now, ([10, 77, 0, 1], 40_000).into(), SERVER.into());
    let flow = flow.or_needs("connection in memory")?;
    let (mut is_connected, mut responses) = (false, 0);
    let mut answers = Vec::new();
    let mut before = None;
    for round in 0..requests + HANDSHAKE {
        now += STEP;
        for answer in &mut answers {
            let Packet { key, hash, .. } = answer;
            *hash = hasher.hash(key);
        }
        client.receive(now, &answers);
        answers.clear();
        client.engine.expire(now, &mut client.out);
        for event in client.out.events.drain(..) {
            is_connected |= matches!(event, Event::Connected { .. });
        }
        if is_connected {
            let unread = client.engine.readable(flow).bytes;
            responses += u64::from(unread / REQUEST_BYTES as u32);
            client.engine.consume(flow, unread).or_needs("response")?;
            client.engine.send(flow, REQUEST_BYTES as u32).or_needs("room for a request")?;
        }
        client.transmit(now);
        client.out.hash(&hasher);
        now += STEP;
        for packet in client.out.packets() {
            server.offer(packet);
            server.serve(now);
        }
        client.out.clear();
        server.collect(&mut answers);
        if round + 1 == HANDSHAKE {
            before = server.counters();
        }
    }
    if responses < requests {
        return Err(format!("{responses} responses came")).or_needs("whole conversation");
    }
    Ok(before.zip(server.counters()))
}

/// The engine, given segments whose flow and hash are known.
struct Alone {
    end: End,
    inbox: Vec<Packet>,
}

impl Alone {
    fn new(has_ipv4: bool) -> Result<Self, Error> {
        let mut end = end(2, has_ipv4);
        let options = end.options();
        end.engine.listen(SERVER.into(), 8, options).or_needs("listener in memory")?;
        Ok(Self { end, inbox: Vec::with_capacity(1) })
    }
}

#[inline(never)]
fn engine_alone_serves(server: &mut Alone, now: Nanos) {
    let Alone { end, inbox } = server;
    end.engine.expire(now, &mut end.out);
    end.receive(now, inbox);
    end.echo_all();
    end.transmit(now);
}

impl Server for Alone {
    fn offer(&mut self, packet: &Packet) {
        self.inbox.clear();
        self.inbox.push(*packet);
    }

    fn serve(&mut self, now: Nanos) {
        engine_alone_serves(self, now);
    }

    fn collect(&mut self, packets: &mut Vec<Packet>) {
        packets.extend_from_slice(self.end.out.packets());
        self.end.out.clear();
    }

    fn counters(&self) -> Option<Counters> {
        Some(*self.end.engine.counters())
    }
}

/// The engine, given packets: the dispatcher's part counts too.
struct WithIpv4 {
    alone: Alone,
    hasher: Toeplitz,
}

impl WithIpv4 {
    fn new() -> Result<Self, Error> {
        Ok(Self { alone: Alone::new(true)?, hasher: Toeplitz::new(hash_key()) })
    }
}

#[inline(never)]
fn engine_with_ipv4_serves(server: &mut WithIpv4, now: Nanos) {
    let WithIpv4 { alone: Alone { end, inbox }, hasher } = server;
    end.engine.expire(now, &mut end.out);
    for packet in inbox.iter_mut() {
        let Some(key) = key_of(packet.bytes()) else { continue };
        (packet.key, packet.hash) = (key, hasher.hash(&key));
    }
    end.receive(now, inbox);
    end.echo_all();
    end.transmit(now);
}

impl Server for WithIpv4 {
    fn offer(&mut self, packet: &Packet) {
        self.alone.offer(packet);
    }

    fn serve(&mut self, now: Nanos) {
        engine_with_ipv4_serves(self, now);
    }

    fn collect(&mut self, packets: &mut Vec<Packet>) {
        self.alone.collect(packets);
    }

    fn counters(&self) -> Option<Counters> {
        self.alone.counters()
    }
}

#[inline(never)]
fn smoltcp_serves(server: &mut SmoltcpServer, now: Nanos) {
    server.serve(now);
}

impl Server for SmoltcpServer {
    fn offer(&mut self, packet: &Packet) {
        Self::offer(self, packet);
    }

    fn serve(&mut self, now: Nanos) {
        smoltcp_serves(self, now);
    }

    fn collect(&mut self, packets: &mut Vec<Packet>) {
        packets.extend(self.answers());
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}
