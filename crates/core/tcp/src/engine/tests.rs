//! The fast path is a shortcut and nothing else: an engine that never takes it comes to the same
//! result, segment by segment.

mod far;

use std::fmt::Debug;
use std::num::NonZeroU8;

use base::Nanos;
use proptest::prelude::*;
use wire::FlowKey;
use wire::tcp::{ACK, ECE, FIN, PSH, SYN};

use super::Engine;
use crate::cold::Purpose;
use crate::flow::Flags;
use piece::{Piece, ReadPiece};

use crate::io::{Buffers, CE, Event, FlowId, Incoming, Output, Segment};
use crate::{Algorithm, Config, Counters, FlowOptions, KeepAlive, Seq, emit, expire};

/// Both rings' size, as a power of two.
const RING_LOG2: u8 = 12;
const PEER_START: u32 = u32::MAX - 2000;

/// What comes, is asked for, or passes.
#[derive(Clone, Debug)]
enum Step {
    Segment(Arrival),
    /// Time passes, and everything that may leave leaves.
    Turn {
        micros: u32,
    },
    Read {
        bytes: u32,
    },
    Write {
        bytes: u32,
    },
    NoDelay {
        on: bool,
    },
    Shutdown,
}

/// A segment, in relation to what the flow is waiting for.
#[derive(Clone, Debug)]
struct Arrival {
    flags: u8,
    /// From the next expected number.
    offset: i32,
    bytes: u16,
    acked: Acked,
    window: u16,
    /// From the newest clock seen.
    clock: i32,
    /// Milliseconds since the clock of ours that it echoes.
    echo_age: u32,
    is_marked: bool,
}

#[derive(Clone, Copy, Debug)]
enum Acked {
    Nothing,
    Oldest,
    All,
    /// This many bytes, perhaps before what is acknowledged or beyond what was sent.
    Bytes(i32),
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let flags = prop_oneof![8 => Just(ACK), 8 => Just(ACK | PSH), 1 => Just(ACK | FIN), 1 => Just(ACK | ECE)];
    let offset = prop_oneof![12 => Just(0), 2 => -300_i32..600, 1 => -3_i32..4];
    let bytes = prop_oneof![3 => Just(0_u16), 4 => 1_u16..400, 1 => 400_u16..1400];
    let acked = prop_oneof![
        3 => Just(Acked::Nothing),
        3 => Just(Acked::Oldest),
        3 => Just(Acked::All),
        1 => (-200_i32..1500).prop_map(Acked::Bytes),
    ];
    let window = prop_oneof![4 => Just(u16::MAX), 2 => 0_u16..4000, 1 => Just(0_u16)];
    let clock = prop_oneof![6 => 0_i32..3, 1 => -2_i32..0];
    let is_marked = prop::bool::weighted(0.05);
    (flags, offset, bytes, acked, window, clock, 0_u32..20, is_marked).prop_map(
        |(flags, offset, bytes, acked, window, clock, echo_age, is_marked)| Arrival {
            flags,
            offset,
            bytes,
            acked,
            window,
            clock,
            echo_age,
            is_marked,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    // The longest let a silent peer be asked.
    let micros = prop_oneof![
        6 => Just(0_u32),
        8 => 1_u32..2000,
        4 => 2000_u32..400_000,
        1 => 900_000_u32..3_000_000,
    ];
    prop_oneof![
        12 => arrival().prop_map(Step::Segment),
        6 => micros.prop_map(|micros| Step::Turn { micros }),
        3 => (1_u32..4000).prop_map(|bytes| Step::Read { bytes }),
        4 => (1_u32..4000).prop_map(|bytes| Step::Write { bytes }),
        1 => any::<bool>().prop_map(|on| Step::NoDelay { on }),
        1 => Just(Step::Shutdown),
    ]
}

/// What the engine said, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Segment { bytes: Vec<u8>, ecn: u8, route: u32 },
    Event(Event),
}

struct Rings([Vec<u8>; 2]);

impl Buffers for Rings {
    fn receive_ring(&mut self, _: FlowId) -> Piece<'_> {
        (&mut self.0[0]).into()
    }

    fn send_ring(&self, _: FlowId) -> ReadPiece<'_> {
        (&self.0[1]).into()
    }
}

impl Output for Vec<Said> {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let mut bytes = vec![0; segment.len()];
        segment.write(&mut bytes).expect("it is as long as it says");
        self.push(Said::Segment { bytes, ecn: segment.ecn, route: segment.route });
        true
    }

    fn event(&mut self, event: Event) {
        self.push(Said::Event(event));
    }
}

/// An engine with one flow, which stands.
struct Side {
    engine: Engine,
    rings: Rings,
    said: Vec<Said>,
    key: FlowKey,
    may_be_fast: bool,
}

impl Side {
    fn new(agreed: &Agreed, now: Nanos, may_be_fast: bool) -> Self {
        let config = Config {
            flows_max: 1,
            sent_max: 16,
            ranges_max: 4,
            timestamps: agreed.timestamps,
            sack: agreed.sack,
            ..Config::default()
        };
        let key: FlowKey = "tcp 10.0.0.1:5000 -> 10.0.0.2:7".parse().expect("it is a flow");
        let ring = vec![0; 1 << RING_LOG2];
        let rings = Rings([ring.clone(), (0..1 << RING_LOG2).map(|at| at as u8).collect()]);
        let engine = Engine::new(config, [7; 16], now);
        let mut side = Self { engine, rings, said: Vec::new(), key, may_be_fast };
        side.engine.listen(key.destination(), 1, agreed.options()).expect("nobody else listens");
        let ece = if agreed.ecn { 0xc0 } else { 0 };
        let offer = [2, 4, 1, 244, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0];
        side.receive(now, &header(SYN | ece, PEER_START, 0, 1000, &offer), 0);
        side.turn(now);
        let later = now + Nanos::from_millis(1);
        let ack = Arrival { window: 1000, ..Arrival::of(ACK) }.bytes(&side, later);
        side.receive(later, &ack, 0);
        side.turn(later);
        side
    }

    fn receive(&mut self, now: Nanos, segment: &[u8], ecn: u8) {
        if !self.may_be_fast
            && let Some(flow) = self.engine.flows.first_mut()
        {
            flow.flags.set(Flags::SLOW);
        }
        let (key, hash) = (self.key, self.engine.hash_of(&self.key));
        // Mostly one route: by another one a segment is slow.
        let route = u32::from(ecn == CE);
        let incoming = Incoming { key, hash, segment, ecn, is_verified: true, route };
        self.engine.receive(now, &[incoming], &mut self.rings, &mut self.said);
    }

    fn turn(&mut self, now: Nanos) {
        self.engine.expire(now, &mut self.said);
        self.engine.transmit(now, &mut self.rings, &mut self.said);
    }

    fn flow(&self) -> FlowId {
        FlowId { index: 0, generation: self.engine.flows[0].generation }
    }

    /// Takes a step; segments are given as bytes.
    fn take(&mut self, step: &Step, segment: &[u8], now: Nanos) {
        let flow = self.flow();
        // Errors: there is no room, or the flow is over; the same on both sides.
        match step {
            Step::Segment(arrival) => {
                self.receive(now, segment, if arrival.is_marked { CE } else { 0 });
            }
            Step::Turn { .. } => self.turn(now),
            Step::Read { bytes } => {
                let count = self.engine.readable(flow).bytes.min(*bytes);
                let _ = self.engine.consume(flow, count);
            }
            Step::Write { bytes } => {
                let room = self.engine.room(flow).bytes.min(*bytes);
                let _ = self.engine.send(flow, room);
            }
            Step::NoDelay { on } => {
                let _ = self.engine.set_no_delay(flow, *on);
            }
            Step::Shutdown => {
                let _ = self.engine.shutdown(flow);
            }
        }
    }

    /// Everything that can be seen of the flow, and what it keeps to itself: its state once the
    /// timer that only the fast path leaves open is worked out.
    fn state(&self) -> String {
        let (flow, mut cold) = (self.engine.flows[0], self.engine.cold[0]);
        expire::catch_up(&flow, &mut cold, &self.engine.shared);
        if cold.timers.retransmit == Nanos::FAR_FUTURE {
            // It does not run, so it has no purpose.
            cold.purpose = Purpose::Retransmit;
        }
        let sent: Vec<_> = self.engine.shared.sent.iter(&flow.sent).collect();
        let info = self.engine.info(self.flow());
        let readable = self.engine.readable(self.flow());
        let counters = self.counters();
        [&flow as &dyn Debug, &cold, &sent, &info, &readable, &counters]
            .map(|part| format!("{part:?}").replace(", ", "\n"))
            .join("\n")
    }

    /// All but those that say which path was taken.
    fn counters(&self) -> Counters {
        Counters {
            fast: 0,
            punt_state: 0,
            punt_flags: 0,
            punt_options: 0,
            punt_order: 0,
            punt_ack: 0,
            punt_window: 0,
            punt_route: 0,
            ..*self.engine.counters()
        }
    }
}

impl Arrival {
    /// The expected one, empty.
    fn of(flags: u8) -> Self {
        Self {
            flags,
            offset: 0,
            bytes: 0,
            acked: Acked::All,
            window: u16::MAX,
            clock: 1,
            echo_age: 1,
            is_marked: false,
        }
    }

    fn bytes(&self, side: &Side, now: Nanos) -> Vec<u8> {
        let flow = &side.engine.flows[0];
        let sequence = flow.rcv_nxt.0.wrapping_add_signed(self.offset);
        let oldest = side.engine.shared.sent.iter(&flow.sent).next();
        let ack = match self.acked {
            Acked::Nothing => flow.snd_una,
            Acked::Oldest => oldest.map_or(flow.snd_una, |oldest| oldest.end),
            Acked::All => flow.snd_nxt,
            Acked::Bytes(bytes) => Seq(flow.snd_una.0.wrapping_add_signed(bytes)),
        };
        let mut options = Vec::new();
        if flow.flags.has(Flags::TIMESTAMPS) {
            let value = flow.ts_recent.wrapping_add_signed(self.clock);
            let echo = emit::stamp(flow, now).wrapping_sub(self.echo_age);
            options.extend([1, 1, 8, 10]);
            options.extend([value.to_be_bytes(), echo.to_be_bytes()].concat());
        }
        let mut bytes = header(self.flags, sequence, ack.0, self.window, &options);
        bytes.extend((0..u32::from(self.bytes)).map(|at| sequence.wrapping_add(at) as u8));
        bytes
    }
}

fn header(flags: u8, sequence: u32, ack: u32, window: u16, options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88, 0, 7];
    bytes.extend([sequence.to_be_bytes(), ack.to_be_bytes()].concat());
    bytes.extend([(((20 + options.len()) / 4) << 4) as u8, flags]);
    bytes.extend(window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
    bytes
}

/// The lines in which two texts of as many lines differ.
fn differences([one, other]: &[String; 2]) -> String {
    let pairs = one.lines().zip(other.lines()).filter(|(one, other)| one != other);
    pairs.map(|(one, other)| format!("{one} / {other}\n")).collect()
}

/// What both sides have agreed on.
#[derive(Clone, Debug)]
struct Agreed {
    timestamps: bool,
    sack: bool,
    ecn: bool,
    pacing: bool,
    congestion: Algorithm,
}

impl Agreed {
    fn options(&self) -> FlowOptions {
        FlowOptions {
            receive_ring_log2: RING_LOG2,
            receive_limit_log2: RING_LOG2,
            send_ring_log2: RING_LOG2,
            ecn: self.ecn,
            pacing: self.pacing,
            congestion: self.congestion,
            keep_alive: Some(KeepAlive {
                idle_s: 1,
                interval_s: 1,
                probes: NonZeroU8::MIN.saturating_add(2),
            }),
            ..FlowOptions::default()
        }
    }
}

prop_compose! {
    fn agreed()(
        (timestamps, sack, ecn, pacing) in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        congestion in prop::sample::select(vec![
            Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Timely,
        ]),
    ) -> Agreed {
        Agreed { timestamps, sack, ecn, pacing, congestion }
    }
}

proptest! {
    #[test]
    fn what_takes_the_fast_path_ends_as_on_the_slow_one(
        agreed in agreed(),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut now = Nanos::from_secs(1000);
        let mut sides = [true, false].map(|may_be_fast| Side::new(&agreed, now, may_be_fast));
        now += Nanos::from_millis(1);
        // At least this one is fast.
        let first = Step::Segment(Arrival { bytes: 10, ..Arrival::of(ACK | PSH) });
        for (number, step) in std::iter::once(&first).chain(&steps).enumerate() {
            let segment = match step {
                Step::Segment(arrival) => arrival.bytes(&sides[0], now),
                _ => Vec::new(),
            };
            if let Step::Turn { micros } = step {
                now += Nanos::from_micros(u64::from(*micros));
            }
            for side in &mut sides {
                side.take(step, &segment, now);
            }
            let [fast, slow] = &sides;
            prop_assert_eq!(&fast.said, &slow.said, "after step {}: {:?}", number, step);
            let in_use = sides.each_ref().map(|side| side.engine.flows_in_use());
            prop_assert_eq!(in_use[0], in_use[1]);
            if in_use[0] == 0 {
                break;
            }
            let states = [fast.state(), slow.state()];
            prop_assert_eq!(differences(&states), "", "after step {}: {:?}", number, step);
            prop_assert_eq!(&fast.rings.0[0], &slow.rings.0[0]);
        }
        let taken = sides.each_ref().map(|side| side.engine.counters().fast > 0);
        prop_assert_eq!(taken, [true, false]);
    }
}
