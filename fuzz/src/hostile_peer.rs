//! TCP connections in every state, peers that know their numbers and send whatever they like, and
//! one honest peer in between.
//!
//! An input is a program: settings, the states in which the hostile peers' connections begin, then
//! steps. After each the engine does what its loop would do, and what can be seen from outside is
//! checked: `wire_side.rs` for every segment, `application.rs` for every byte and event,
//! `hand_over.rs` for what another TCP would be told, `harness.rs` for what the engine holds. Read
//! that one next.

mod application;
mod call;
mod ending;
mod hand_over;
mod harness;
mod host;
mod migration;
mod program;
mod segment;
mod settings;
mod sink;
mod wire_side;

use std::num::NonZeroU8;

use base::Nanos;
use harness::Harness;
pub(crate) use program::Program;
use segment::Draft;
use settings::Settings;
use tcp::KeepAlive;
use wire::tcp::{ACK, FIN, PSH, SYN};
use wire_side::{HONEST, HONEST_PEER, HOSTILE, ORIGIN, side_of};

/// Steps of a program that count.
const STEPS_MAX: usize = 48;

/// Runs a program.
pub fn run(input: &[u8]) {
    let mut program = Program::new(input);
    let settings = Settings::read(&mut program);
    let mut game = Game { harness: Harness::new(settings) };
    let states = [program.byte(), program.byte()];
    for side in 0..HOSTILE {
        game.bring(side, states[side / 2] >> (side % 2 * 4) & 0xf);
    }
    for _ in 0..STEPS_MAX {
        if program.is_over() {
            break;
        }
        game.step(&mut program);
    }
    game.harness.end();
}

struct Game {
    harness: Harness,
}

impl Game {
    /// What an honest peer would send now, with these flags and that many bytes.
    fn behave(&mut self, side: usize, flags: u8, payload_bytes: u32) {
        let at = self.harness.sink.sides[side];
        let sequence = if flags & SYN != 0 { ORIGIN } else { at.heard_to.unwrap_or(ORIGIN + 1) };
        let mut room = [0; 40];
        let count = segment::options(&self.harness, side, flags, &mut room);
        let options = &room[..count];
        let (ack, window) = (at.nxt, 8000);
        let draft = Draft { flags, sequence, ack, window, urgent: 0, options, payload_bytes };
        let bytes = draft.bytes(side);
        self.harness.deliver(side, bytes, 0, false);
        self.harness.turn();
    }

    /// Brings a fresh connection into one of sixteen states.
    fn bring(&mut self, side: usize, state: u8) {
        let (is_active, is_half) = (matches!(state, 13 | 14), matches!(state, 1 | 13));
        match state {
            0 => return,
            _ if is_active => {
                self.harness.connect(side);
                self.harness.turn();
            }
            _ => self.behave(side, SYN, 0),
        }
        if is_half {
            return;
        }
        self.behave(side, if is_active { SYN | ACK } else { ACK }, 0);
        if matches!(state, 3 | 5) {
            self.behave(side, ACK | PSH, 100);
        }
        if matches!(state, 4 | 5 | 15) {
            self.harness.with(side, |call| call.write(300));
        }
        if matches!(state, 6 | 10) {
            self.behave(side, FIN | ACK, 10);
        }
        if matches!(state, 7..=11) {
            self.harness.with(side, |call| call.shutdown());
        }
        if state == 12 {
            self.harness.with(side, |call| call.close());
        }
        self.harness.turn();
        if state == 9 {
            // Both close at once: its FIN has not seen ours.
            let before = Draft {
                flags: FIN | ACK,
                sequence: ORIGIN + 1,
                ack: self.harness.sink.sides[side].nxt - 1,
                window: 8000,
                urgent: 0,
                options: &[],
                payload_bytes: 0,
            };
            let bytes = before.bytes(side);
            self.harness.deliver(side, bytes, 0, false);
        }
        if matches!(state, 8 | 11) {
            self.behave(side, ACK, 0);
        }
        if state == 11 {
            self.behave(side, FIN | ACK, 0);
        }
        if state == 15 {
            // A hole.
            let at = self.harness.sink.sides[side].heard_to.unwrap_or(ORIGIN + 1);
            let ahead = Draft {
                flags: ACK,
                sequence: at + 50,
                ack: self.harness.sink.sides[side].nxt,
                window: 8000,
                urgent: 0,
                options: &[],
                payload_bytes: 60,
            };
            let bytes = ahead.bytes(side);
            self.harness.deliver(side, bytes, 0, false);
        }
        self.harness.turn();
    }

    fn step(&mut self, program: &mut Program<'_>) {
        let what = program.byte();
        let side = usize::from(what >> 4) % HOSTILE;
        let is_last = what & 0x40 == 0;
        match what & 0xf {
            0..=5 => {
                let bytes = segment::near(&self.harness, side, program);
                let ecn = if what & 0xc0 == 0xc0 { tcp::CE } else { 0 };
                self.harness.deliver(side, bytes, ecn, what & 0x80 != 0);
            }
            6 => self.raw(side, what & 0x80 != 0, program),
            7 => self.corrupt(side, program),
            8 => {
                let length = program.byte();
                let unit = [1, 10, 100, 1000][usize::from(length & 3)];
                self.harness.wait(Nanos::from_millis(u64::from(length >> 2) * unit));
            }
            9 => {
                let count = u32::from(program.byte()) * 8;
                self.harness.with(side, |call| call.write(count));
            }
            10 => {
                let count = u32::from(program.byte()) * 8;
                self.harness.with(side, |call| call.read(count));
            }
            11 => self.ask(side, program),
            12 | 13 => self.link(what >> 4, program),
            14 => {
                let (back, mtu) = (program.byte(), program.half());
                let sequence = self.harness.sink.sides[side].nxt - u32::from(back) * 4;
                self.harness.too_big(side, sequence, u32::from(mtu >> 3));
            }
            _ => match side {
                0 => self.harness.sink.refusals = u32::from(program.half()),
                1 => self.harness.toggle_listener(),
                _ => self.harness.move_group(side % 2),
            },
        }
        if is_last {
            self.harness.turn();
        }
    }

    /// Bytes that need not be a segment.
    fn raw(&mut self, side: usize, is_verified: bool, program: &mut Program<'_>) {
        let count = usize::from(program.byte());
        let bytes = program.bytes(count).to_vec();
        self.harness.sink.sides[side].is_misled |= is_verified;
        self.harness.deliver(side, bytes, 0, is_verified);
    }

    /// A segment with a bit turned on its way: it changes nothing but a counter.
    fn corrupt(&mut self, side: usize, program: &mut Program<'_>) {
        let mut bytes = segment::near(&self.harness, side, program);
        let bit = usize::from(program.half()) % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        self.harness.turn();
        let before = self.harness.counters(side);
        self.harness.deliver(side, bytes, 0, false);
        self.harness.flush();
        let mut after = self.harness.counters(side);
        let dropped = |counters: &tcp::Counters| counters.bad_checksum + counters.malformed;
        assert_eq!(dropped(&after), dropped(&before) + 1, "a wrong checksum is seen");
        after.received = before.received;
        (after.bad_checksum, after.malformed) = (before.bad_checksum, before.malformed);
        assert_eq!(after, before, "what was dropped changes nothing");
    }

    /// What an application asks for.
    fn ask(&mut self, side: usize, program: &mut Program<'_>) {
        let (what, value) = (program.byte(), program.byte());
        match what & 0xf {
            12 => return self.harness.connect(side),
            13 => return self.harness.hand_over(side),
            _ => {}
        }
        let log2 = self.harness.settings.options.receive_ring_log2 + 1;
        self.harness.with(side, |call| {
            let (now, id) = (call.now, call.record.id);
            let on = value & 1 != 0;
            // Errors: the flow is over, or its application has closed it.
            let _ = match what & 0xf {
                0 => call.engine.abort(id),
                1 | 2 => {
                    call.close();
                    Ok(())
                }
                3 => {
                    call.shutdown();
                    Ok(())
                }
                4 => call.engine.set_no_delay(id, on),
                5 => call.engine.set_cork(id, on),
                6 => call.engine.set_more(id, on),
                7 => call.engine.set_user_timeout(id, on.then_some(u32::from(value) * 16)),
                8 => {
                    let idle_s = u32::from(value >> 4);
                    let probes = NonZeroU8::MIN.saturating_add(value & 3);
                    let keep_alive = KeepAlive { idle_s, interval_s: 1, probes };
                    call.engine.set_keep_alive(now, id, on.then_some(keep_alive))
                }
                9 => {
                    call.grow(log2);
                    Ok(())
                }
                10 => call.engine.mark_urgent(id),
                11 => {
                    let ahead = call.engine.urgent(id);
                    assert!(ahead.is_none_or(|bytes| bytes < 1 << 17), "{ahead:?}");
                    Ok(())
                }
                _ => {
                    let name = call.engine.key(id).map(|key| key.reversed());
                    assert_eq!(name.as_ref().and_then(side_of), Some(side));
                    Ok(())
                }
            };
        });
    }

    /// What happens between the engine and its honest peer.
    fn link(&mut self, what: u8, program: &mut Program<'_>) {
        if !self.harness.settings.has_honest {
            return;
        }
        let (direction, side) = (usize::from(what & 1), [HONEST, HONEST_PEER]);
        let count = program.byte();
        let link = &mut self.harness.sink.link[direction];
        match what >> 1 {
            0 => {
                self.harness.carry(0);
                self.harness.carry(1);
            }
            1 => drop(link.pop_front()),
            2 => {
                // What comes second arrives first.
                if link.len() > 1 {
                    link.swap(0, 1);
                }
            }
            3 => {
                if let Some(segment) = link.front().cloned() {
                    link.push_back(segment);
                }
            }
            4 => {
                if let Some(mut segment) = link.pop_front() {
                    let bit = usize::from(count) * 8 % (segment.len() * 8) + usize::from(what & 7);
                    segment[bit / 8] ^= 1 << (bit % 8);
                    self.harness.deliver(side[direction], segment, 0, false);
                }
            }
            5 => self.harness.carry(direction),
            6 => self.harness.with(side[direction], |call| call.read(u32::from(count) * 8)),
            _ => self.harness.with(side[direction], |call| call.write(u32::from(count) * 8)),
        }
    }
}
