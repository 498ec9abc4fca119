//! Whatever comes in, in whatever state: no panic, no loop, no leak, and no byte delivered that the
//! honest peer did not send as long as nobody has guessed its numbers.

use std::num::NonZeroU8;

use crate::support::Packet;
use crate::support::script::{PEER_START, Script, content};
use proptest::prelude::*;
use tcp::Algorithm::{self, Cubic, Dctcp, NewReno, Timely};
use tcp::{Config, Event, FlowId, FlowOptions, KeepAlive, Seq};

/// What the attacker, the peer and the application do.
#[derive(Clone, Debug)]
enum Step {
    /// A well-made segment with numbers near those of the connection.
    Near {
        flags: u8,
        sequence: i16,
        ack: i16,
        window: u16,
        len: u8,
        options: Vec<u8>,
    },
    /// Anything.
    Bytes {
        bytes: Vec<u8>,
        is_verified: bool,
    },
    Wait {
        millis: u16,
    },
    Write {
        count: u16,
    },
    Read {
        count: u16,
    },
    /// A router, or a host that would like to be taken for one.
    Icmp {
        sequence: i16,
        mtu: u16,
    },
    /// What was written last is urgent, or goes on.
    Mark {
        more: bool,
    },
    /// The receive ring grows.
    Grow,
    Shutdown,
    Close,
    Abort,
}

fn step() -> impl Strategy<Value = Step> {
    let options = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(any::<u8>(), 0..41),
        1 => (any::<u8>(), any::<u32>(), any::<u32>()).prop_map(|(kind, one, other)| {
            let (kind, len) = [(5, 10), (8, 10), (2, 4), (3, 3), (4, 2)][usize::from(kind % 5)];
            let words = [one.to_be_bytes(), other.to_be_bytes()].concat();
            [&[kind, len], &words[..]].concat()
        }),
    ];
    let flags = prop_oneof![
        4 => Just(0x10_u8), 2 => Just(0x18), 1 => Just(0x02), 1 => Just(0x12), 1 => Just(0x11),
        1 => Just(0x04), 2 => any::<u8>(),
    ];
    let near = prop_oneof![2 => Just(0_i16), 2 => -3_i16..3, 1 => any::<i16>()];
    prop_oneof![
        12 => (flags, near.clone(), near, any::<u16>(), 0_u8..200, options).prop_map(
            |(flags, sequence, ack, window, len, options)| Step::Near {
                flags, sequence, ack, window, len, options
            }
        ),
        2 => (prop::collection::vec(any::<u8>(), 0..80), any::<bool>())
            .prop_map(|(bytes, is_verified)| Step::Bytes { bytes, is_verified }),
        3 => (0_u16..3000).prop_map(|millis| Step::Wait { millis }),
        3 => (0_u16..2000).prop_map(|count| Step::Write { count }),
        2 => (0_u16..2000).prop_map(|count| Step::Read { count }),
        1 => (-3_i16..300, any::<u16>()).prop_map(|(sequence, mtu)| Step::Icmp { sequence, mtu }),
        1 => any::<bool>().prop_map(|more| Step::Mark { more }),
        1 => Just(Step::Grow),
        1 => Just(Step::Shutdown),
        1 => Just(Step::Close),
        1 => Just(Step::Abort),
    ]
}

fn options() -> FlowOptions {
    let three = NonZeroU8::new(3).expect("it is three");
    let keep_alive = Some(KeepAlive { idle_s: 1, interval_s: 1, probes: three });
    FlowOptions {
        receive_ring_log2: 10,
        send_ring_log2: 10,
        receive_limit_log2: 11,
        pacing: true,
        keep_alive,
        ..FlowOptions::default()
    }
}

fn config() -> Config {
    Config {
        flows_max: 4,
        sent_max: 2,
        mtu_probing: true,
        mtu_floor: 576,
        path_mtu: 600,
        ranges_max: 2,
        ..Config::default()
    }
}

/// A segment whose payload at each number is what the honest peer would send there.
fn near(script: &Script, step: &Step, next: (u32, u32)) -> Option<Packet> {
    let Step::Near { flags, sequence, ack, window, len, options } = step else { return None };
    let mut options = options[..options.len().min(40)].to_vec();
    while options.len() % 4 != 0 {
        options.push(1);
    }
    let sequence = next.0.wrapping_add_signed(i32::from(*sequence));
    let ack = next.1.wrapping_add_signed(i32::from(*ack));
    let first = sequence.wrapping_sub(PEER_START).wrapping_add(u32::from(flags & 2 != 0));
    let mut bytes = vec![0; 20];
    bytes[4..8].copy_from_slice(&sequence.to_be_bytes());
    bytes[8..12].copy_from_slice(&ack.to_be_bytes());
    bytes[12] = (((20 + options.len()) / 4) << 4) as u8;
    bytes[13] = *flags;
    bytes[14..16].copy_from_slice(&window.to_be_bytes());
    bytes[18..20].copy_from_slice(&window.to_le_bytes());
    bytes.extend(options);
    bytes.extend((0..u32::from(*len)).map(|at| content(first.wrapping_add(at))));
    Some(Packet { key: script.key, bytes, ecn: *window as u8 & 3, route: 0 })
}

/// The last numbers that the engine has named: the next it expects, and the next it will send.
fn numbers(packets: &[Packet], known: (u32, u32)) -> (u32, u32) {
    packets.iter().fold(known, |known, packet| {
        let word = |at: usize| u32::from_be_bytes(packet.bytes[at..at + 4].try_into().unwrap());
        let flags = packet.bytes[13];
        let header = usize::from(packet.bytes[12] >> 4) * 4;
        let numbers = (packet.bytes.len() - header) as u32 + u32::from(flags & 3 != 0);
        let expected = if flags & 0x10 != 0 { word(8) } else { known.0 };
        (expected, word(4).wrapping_add(numbers))
    })
}

/// Connections that the application hears of.
fn connected(script: &mut Script) -> impl Iterator<Item = FlowId> {
    script.events().into_iter().filter_map(|event| match event {
        Event::Connected { flow, .. } => Some(flow),
        _ => None,
    })
}

fn run(is_client: bool, is_accepted: bool, congestion: Algorithm, steps: &[Step]) {
    let mut script = Script::new(config(), FlowOptions { congestion, ..options() });
    if is_client {
        script.connect();
    } else {
        script.listen(1);
    }
    if is_accepted && !is_client {
        script.inject("S 0:0 win 65535 <mss 100,sackOK,TS 1 0,nop,wscale 3>");
        let packets = script.take_packets();
        script.print(&packets[0]);
        script.inject(". 1:1 ack 1 win 1000 <TS 2 100>");
    }
    let mut known = numbers(&script.take_packets(), (PEER_START.wrapping_add(1), 0));
    // All that the application was told of, or has opened: it has to end each.
    let mut told = Vec::from_iter(script.flow);
    for step in steps {
        let flow = script.flow;
        match step {
            Step::Near { .. } => {
                let packet = near(&script, step, known).expect("it is near");
                let incoming = tcp::Incoming {
                    key: packet.key,
                    hash: script.host.engine.hash_of(&packet.key),
                    segment: &packet.bytes,
                    ecn: packet.ecn,
                    is_verified: true,
                    route: 1,
                };
                let host = &mut script.host;
                host.engine.receive(script.now, &[incoming], &mut host.rings, &mut host.sink);
            }
            Step::Bytes { bytes, is_verified } => {
                let (key, is_verified) = (script.key, *is_verified);
                let hash = script.host.engine.hash_of(&key);
                let incoming =
                    tcp::Incoming { key, hash, segment: bytes, ecn: 0, is_verified, route: 2 };
                let host = &mut script.host;
                host.engine.receive(script.now, &[incoming], &mut host.rings, &mut host.sink);
            }
            Step::Wait { millis } => script.wait_ms(u64::from(*millis)),
            Step::Write { count } => {
                if let Some(flow) = flow {
                    let room = script.host.engine.room(flow).bytes;
                    let data = vec![7; usize::from(*count).min(room as usize)];
                    let is_open = script.host.engine.send(flow, 0).is_ok();
                    if is_open {
                        script.host.write(flow, &data);
                    }
                }
            }
            Step::Read { count } => {
                if let Some(flow) = flow {
                    script.host.read(flow, usize::from(*count));
                }
            }
            Step::Icmp { sequence, mtu } => {
                // Around what may be on its way.
                let first = known.1.wrapping_sub(300).wrapping_add_signed(i32::from(*sequence));
                script.host.engine.too_big(&script.key, Seq(first), u32::from(*mtu));
            }
            Step::Mark { more } => {
                if let Some(flow) = flow {
                    // Errors: the flow is over.
                    let _ = script.host.engine.mark_urgent(flow);
                    let _ = script.host.engine.set_more(flow, *more);
                }
            }
            Step::Grow => {
                if let Some(flow) = flow
                    && let Some(ring) = script.host.rings.receive.get(&flow)
                    && let Some(regrow) = script.host.engine.grow_receive_ring(flow, 11)
                {
                    let mut larger = vec![0; 1 << 11];
                    assert!(regrow.copy(ring.into(), (&mut larger).into()));
                    script.host.rings.receive.insert(flow, larger);
                }
            }
            Step::Shutdown => drop(flow.map(|flow| script.host.engine.shutdown(flow))),
            Step::Close => drop(flow.map(|flow| {
                let host = &mut script.host;
                host.engine.close(flow, &mut host.sink)
            })),
            Step::Abort => drop(flow.map(|flow| script.host.engine.abort(flow))),
        }
        told.extend(connected(&mut script));
        known = numbers(&script.take_packets(), known);
        told.extend(connected(&mut script));
        let (sent, ranges) = script.host.engine.records_in_use();
        assert!(sent <= 16 + 2 && ranges <= 4 + 2, "{sent} {ranges}");
    }
    // Whatever happened: once everything is aborted, or has given up, nothing is left.
    for wait_ms in [3_000_000, 100_000] {
        for flow in told.drain(..) {
            // An error: it is over.
            let _ = script.host.engine.abort(flow);
        }
        script.wait_ms(wait_ms);
        told.extend(connected(&mut script));
    }
    assert_eq!(script.host.engine.flows_in_use(), 0);
    assert_eq!(script.host.engine.records_in_use(), (0, 0));
}

proptest! {
    #[test]
    fn no_segment_in_no_state_panics_loops_or_leaks(
        is_client: bool,
        is_accepted in prop::bool::weighted(0.8),
        congestion in prop::sample::select(vec![Dctcp, Timely, Cubic, NewReno]),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        run(is_client, is_accepted, congestion, &steps);
    }

    #[test]
    fn contradictory_repetitions_never_change_what_was_received(
        segments in prop::collection::vec((0_u32..700, 1_u32..200, any::<bool>()), 1..80),
    ) {
        // Honest segments hold what their numbers say; false ones, which come later for the same
        // numbers, hold something else. Once a number's byte is in, it stays.
        let mut script = Script::accepted(
            Config { timestamps: false, window_scaling: false, ..Config::default() },
            FlowOptions { receive_ring_log2: 16, ..FlowOptions::default() },
        );
        let mut received = vec![None; 1000];
        for (start, len, is_false) in segments {
            let start = start + 1;
            let text = format!(". {start}:{} ack 1 win 65535", start + len);
            for number in start..start + len {
                let byte = content(number) ^ if is_false { 0xff } else { 0 };
                received[number as usize].get_or_insert(byte);
            }
            if is_false {
                script.inject_changed(&text, |byte| byte ^ 0xff);
            } else {
                script.inject(&text);
            }
            script.take_packets();
        }
        let flow = script.flow();
        let data = script.host.read(flow, 1000);
        let expected: Vec<u8> = received[1..].iter().map_while(|byte| *byte).collect();
        prop_assert_eq!(data, expected);
    }
}
