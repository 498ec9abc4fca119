//! Our engine with one connection, behind an IP layer that is just enough for smoltcp.

use base::Nanos;
use tcp::{
    Buffers, CloseReason, Config, Counters, Engine, Event, FlowId, FlowOptions, Incoming, Output,
    Piece, ReadPiece, Segment, Seq,
};
use wire::tcp::{ACK, Header, Options, SYN, TcpOption};
use wire::{FlowKey, Protocol, checksum, ipv4, ipv6};

use crate::Application;
use crate::plan::Plan;

/// Rings of the only flow.
struct Rings {
    receive: Vec<u8>,
    send: Vec<u8>,
}

impl Buffers for Rings {
    fn receive_ring(&mut self, _flow: FlowId) -> Piece<'_> {
        (&mut self.receive).into()
    }

    fn send_ring(&self, _flow: FlowId) -> ReadPiece<'_> {
        (&self.send).into()
    }
}

#[derive(Default)]
struct Sink {
    /// Shift of our windows.
    shift: u8,
    /// Where the farthest window ends that the peer was told of.
    edge: Option<Seq>,
    /// It was told of a window of zero.
    has_closed: bool,
    packets: Vec<Vec<u8>>,
    events: Vec<Event>,
}

impl Output for Sink {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let options = Options::new(segment.options.as_slice());
        for option in options.filter(|_| segment.flags & SYN != 0) {
            if let TcpOption::WindowScale(shift) = option {
                self.shift = shift;
            }
        }
        if segment.flags & ACK != 0 {
            let shift = if segment.flags & SYN != 0 { 0 } else { self.shift };
            let edge = segment.acknowledgement + (u32::from(segment.window) << shift);
            self.has_closed |= segment.window == 0;
            self.edge = Some(self.edge.map_or(edge, |old| old.later(edge)));
        }
        self.packets.push(packet(segment));
        true
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Our side.
pub(crate) struct Ours {
    engine: Engine,
    rings: Rings,
    sink: Sink,
    key: FlowKey,
    flow: Option<FlowId>,
    pub(crate) application: Application,
    ended: Option<CloseReason>,
    is_overrun: bool,
}

impl Ours {
    pub(crate) fn new(plan: &Plan, now: Nanos) -> Self {
        let options = FlowOptions {
            receive_ring_log2: plan.receive_ring_log2,
            receive_limit_log2: plan.receive_ring_log2,
            send_ring_log2: plan.send_ring_log2,
            congestion: plan.congestion,
            no_delay: plan.no_delay,
            pacing: plan.pacing,
            ..FlowOptions::default()
        };
        let config = Config {
            flows_max: 2,
            sent_max: 4096,
            ranges_max: 64,
            mtu: plan.mtus[0],
            timestamps: plan.has_timestamps,
            sack: plan.has_sack,
            window_scaling: plan.has_scaling,
            ..Config::default()
        };
        let mut engine = Engine::new(config, [1; 16], now);
        let [local, remote] = plan.ends();
        let key = FlowKey::new(Protocol::Tcp, remote, local).expect("both are of one version");
        let flow = if plan.is_client {
            let flow = engine.connect(now, local, remote, options, 0);
            Some(flow.expect("the name is free"))
        } else {
            let backlog = if plan.has_cookies { 0 } else { 4 };
            engine.listen(local, backlog, options).expect("nobody else listens");
            None
        };
        Self {
            engine,
            rings: Rings {
                receive: vec![0; 1 << options.receive_ring_log2],
                send: vec![0; 1 << options.send_ring_log2],
            },
            sink: Sink::default(),
            key,
            flow,
            application: Application::new(plan, 0),
            ended: None,
            is_overrun: false,
        }
    }

    /// What is in a packet of smoltcp.
    fn segment<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        if self.key.is_ipv6() {
            let header = ipv6::Header::parse(packet).expect("smoltcp sends packets");
            assert_eq!(header.next_header, ipv4::TCP);
            &packet[usize::from(ipv6::HEADER_BYTES)..]
        } else {
            let header = ipv4::Header::parse(packet).expect("smoltcp sends packets");
            assert_eq!((header.protocol, header.is_fragment), (ipv4::TCP, false));
            &packet[usize::from(header.header_bytes)..]
        }
    }

    pub(crate) fn receive(&mut self, now: Nanos, packet: &[u8]) {
        let segment = self.segment(packet);
        let incoming = Incoming {
            key: self.key,
            hash: self.engine.hash_of(&self.key),
            segment,
            ecn: 0,
            is_verified: false,
            route: 0,
        };
        self.engine.receive(now, &[incoming], &mut self.rings, &mut self.sink);
    }

    /// Timers, the application, and everything that may leave.
    pub(crate) fn turn(&mut self, now: Nanos, may_read: bool) {
        self.engine.expire(now, &mut self.sink);
        self.hear();
        self.act(may_read);
        for _ in 0..1000 {
            self.engine.transmit(now, &mut self.rings, &mut self.sink);
            if self.engine.next_deadline() != Some(Nanos::ZERO) {
                break;
            }
        }
        self.hear();
    }

    fn hear(&mut self) {
        for event in self.sink.events.drain(..) {
            match event {
                Event::Connected { flow, .. } => self.flow = Some(flow),
                Event::Closed { reason, .. } => {
                    assert_eq!(self.ended, None, "a flow ends once");
                    self.ended = Some(reason);
                }
                _ => {}
            }
        }
    }

    fn act(&mut self, may_read: bool) {
        let Some(flow) = self.flow.filter(|_| self.ended.is_none()) else { return };
        let application = &mut self.application;
        let span = self.engine.room(flow);
        let count = application.next().len().min(span.bytes as usize);
        let ring_bytes = self.rings.send.len();
        for (offset, byte) in application.next()[..count].iter().enumerate() {
            self.rings.send[(span.at + offset) % ring_bytes] = *byte;
        }
        if count > 0 {
            self.engine.send(flow, count as u32).expect("there is room");
            application.sent += count;
        }
        if application.may_shut() {
            application.has_shut = true;
            self.engine.shutdown(flow).expect("it is open");
        }
        if may_read {
            let span = self.engine.readable(flow);
            let count = application.chunk.min(span.bytes as usize);
            let ring = &self.rings.receive;
            let bytes = (0..count).map(|offset| ring[(span.at + offset) % ring.len()]);
            application.received.extend(bytes);
            self.engine.consume(flow, count as u32).expect("they are readable");
        }
        if application.has_shut && self.engine.is_at_end(flow) && !application.is_at_end {
            application.is_at_end = true;
            self.engine.close(flow, &mut self.sink).expect("it was not closed");
            self.hear();
        }
    }

    /// Whether the application could go on at once, if it may read.
    pub(crate) fn can_act(&mut self) -> bool {
        let Some(flow) = self.flow.filter(|_| self.ended.is_none()) else { return false };
        let has_room = self.engine.room(flow).bytes > 0;
        self.engine.readable(flow).bytes > 0
            || (has_room && !self.application.has_sent_all())
            || self.application.may_shut()
    }

    pub(crate) fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sink.packets)
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.engine.next_deadline()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_some() && self.engine.flows_in_use() == 0
    }

    /// What must hold of an engine after a connection that came to its end.
    pub(crate) fn check_end(&self) {
        assert_eq!(self.ended, Some(CloseReason::Finished));
        assert_eq!(self.engine.records_in_use(), (0, 0), "all records came back");
        assert_eq!(self.engine.next_deadline(), None);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.ended == Some(CloseReason::Finished)
    }

    /// Looks at a packet of smoltcp before anything happens to it.
    pub(crate) fn watch(&mut self, packet: &[u8]) {
        let segment = self.segment(packet);
        let header = Header::parse(segment).expect("smoltcp sends segments");
        let bytes = (segment.len() - usize::from(header.header_bytes)) as u32;
        let end = Seq(header.sequence) + bytes;
        self.is_overrun |= bytes > 0 && self.sink.edge.is_none_or(|edge| end.is_after(edge));
    }

    /// Whether something has happened that smoltcp does not always get over: see [`crate::End`].
    pub(crate) fn has_excuse(&self) -> bool {
        self.is_overrun || (self.sink.has_closed && !self.owes_anything())
    }

    /// Whether the peer has still to hear something of us: then a timer of ours must run.
    fn owes_anything(&self) -> bool {
        let Some(flow) = self.flow.filter(|_| self.ended.is_none()) else { return false };
        let info = self.engine.info(flow);
        info.is_some_and(|info| info.queued_bytes > 0 || info.on_their_way > 0)
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.engine.counters()
    }
}

impl std::fmt::Debug for Ours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counters = self.engine.counters().iter().filter(|(_, count)| *count > 0);
        f.debug_struct("Ours")
            .field("state", &self.flow.and_then(|flow| self.engine.state(flow)))
            .field("info", &self.flow.and_then(|flow| self.engine.info(flow)))
            .field("ended", &self.ended)
            .field("counters", &counters.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// The segment behind an IP header.
fn packet(segment: &Segment<'_>) -> Vec<u8> {
    use std::net::IpAddr::{V4, V6};
    let bytes = segment.len();
    let mut packet = match (segment.key.source().ip(), segment.key.destination().ip()) {
        (V4(from), V4(to)) => {
            let total = u16::try_from(20 + bytes).expect("a segment fits").to_be_bytes();
            let mut header = [0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, ipv4::TCP].to_vec();
            header.extend([0, 0]);
            header.extend(from.octets().into_iter().chain(to.octets()));
            let sum = checksum::of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        }
        (V6(from), V6(to)) => {
            let payload = u16::try_from(bytes).expect("a segment fits").to_be_bytes();
            let mut header = [0x60, 0, 0, 0, payload[0], payload[1], ipv4::TCP, 64].to_vec();
            header.extend(from.octets().into_iter().chain(to.octets()));
            header
        }
        _ => unreachable!("a flow has one version"),
    };
    let start = packet.len();
    packet.resize(start + bytes, 0);
    assert_eq!(segment.write(&mut packet[start..]), Some(bytes));
    packet
}
