//! The loop: packets that are due go onto the wire, the dispatcher and the workers take their
//! turns.

use std::io::Read;

use base::Nanos;
use port::pcap::Damage;

use crate::feeder::{Feeder, Next};
use crate::link::PLAYABLE;
use crate::report::{Found, Report};
use crate::rig::{REST_TURNS, Rig};
use crate::{Error, Options};

/// Turns between two looks at whether to go on.
const LOOK_TURNS: u32 = 32;
/// The longest sleep at a recorded pace: Ctrl-C is noticed after it.
const SLEEP_MAX: Nanos = Nanos::from_millis(50);
/// A timer is late by about so much: the rest is waited for awake.
const TIMER_SLACK: Nanos = Nanos::from_micros(100);

/// How far a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Bytes of the file read.
    pub position: u64,
    /// Packets played.
    pub packets: u64,
}

/// Plays the capture that `input` holds, and says what became of its packets. `input` should be
/// buffered; `bytes` is how long it is, which more than one number of workers needs. `go_on` is
/// asked now and then, and ends the replay by false; the report is then of what was played.
///
/// Memory is bounded by the options, whatever the file holds.
///
/// # Errors
/// A setting that makes no sense, or no capture that can be played. Damage further on is part of
/// the report.
pub fn play<R: Read>(
    input: R,
    bytes: Option<u64>,
    options: &Options,
    mut go_on: impl FnMut(Seen) -> bool,
) -> Result<Report, Error> {
    options.check()?;
    if options.workers.len() > 1 && bytes.is_none() {
        return Err(Error::Setting(
            "--workers: several numbers need a file whose length is known; save the capture first"
                .to_owned(),
        ));
    }
    let mut feeder = Feeder::new(input).map_err(|damage| {
        let mut reason = damage.to_string();
        if let Damage::LinkType(kind) = damage {
            reason = format!(
                "its packets are of link type {kind}: what can be played is {PLAYABLE}; capture on \
                 another interface, or without monitor mode"
            );
        }
        Error::Failed(reason)
    })?;
    let start = sys::clock::now();
    let mut player = Player { rig: Rig::new(options)?, latest: Nanos::ZERO };
    let is_interrupted = !player.play(&mut feeder, bytes, options, &mut go_on)?;
    player.rig.rest();
    let elapsed = sys::clock::now().since(start);
    Ok(Report::new(options, player.found(&feeder), elapsed, is_interrupted))
}

/// The data path, and how late packets were.
struct Player {
    rig: Rig,
    /// The longest time by which a packet was played after it was due.
    latest: Nanos,
}

impl Player {
    /// Plays to the end; false when `go_on` has ended it before.
    fn play<R: Read>(
        &mut self,
        feeder: &mut Feeder<R>,
        bytes: Option<u64>,
        options: &Options,
        go_on: &mut impl FnMut(Seen) -> bool,
    ) -> Result<bool, Error> {
        let parts = options.workers.len() as u64;
        let mut part = 0;
        let mut part_end = 0;
        let mut turns = 0_u32;
        let mut turns_without_frame = 0;
        loop {
            let due = match feeder.next() {
                Next::End => return Ok(true),
                next => next,
            };
            turns = turns.wrapping_add(1);
            let seen = Seen { position: feeder.position(), packets: feeder.played() };
            if turns.is_multiple_of(LOOK_TURNS) && !go_on(seen) {
                return Ok(false);
            }
            let Next::Due(due) = due else {
                continue;
            };
            while part < parts && feeder.position() >= part_end {
                self.rig.change_workers(options.workers[part as usize])?;
                part += 1;
                // Of the last part there is no end.
                part_end = bytes.filter(|_| part < parts).map_or(u64::MAX, |bytes| {
                    (u128::from(bytes) * u128::from(part) / u128::from(parts)) as u64
                });
            }
            if !self.rig.clock.is_paced() && self.rig.clock.is_pause_before(due) {
                self.rig.rest();
            }
            self.rig.clock.turn(due, sys::clock::now);
            let until_due = self.rig.clock.until(due);
            if until_due > Nanos::ZERO && self.rig.is_at_rest() {
                if !go_on(seen) {
                    return Ok(false);
                }
                wait(until_due);
                continue;
            }
            if self.offer(feeder, part_end) > 0 || until_due > Nanos::ZERO {
                turns_without_frame = 0;
            } else {
                turns_without_frame += 1;
                if turns_without_frame > REST_TURNS {
                    return Err(Error::Failed(
                        "the data path gives no frame back: report this".to_owned(),
                    ));
                }
            }
            self.rig.turn(false);
        }
    }

    /// Puts a batch of what is due onto the wire, up to where the file's next part starts; how
    /// many.
    fn offer<R: Read>(&mut self, feeder: &mut Feeder<R>, part_end: u64) -> usize {
        let Self { rig, latest } = self;
        let now = rig.clock.now();
        rig.offer(|frame, tracker| {
            let Next::Due(due) = feeder.next() else {
                return false;
            };
            if due > now || feeder.position() >= part_end {
                return false;
            }
            let Some(played) = feeder.put_into(frame) else {
                return false;
            };
            tracker.sent(frame.desc().offset, played);
            *latest = (*latest).max(now.since(due));
            true
        })
    }

    fn found<R: Read>(&self, feeder: &Feeder<R>) -> Found<'_> {
        Found {
            tracker: self.rig.tracker.borrow(),
            counters: self.rig.dispatcher.counters(),
            played: feeder.played(),
            records: feeder.records(),
            checksums: feeder.checksums,
            times: feeder.times,
            damage: feeder.damage.as_ref().map(ToString::to_string),
            latest: self.rig.clock.is_paced().then_some(self.latest),
        }
    }
}

/// Waits about so long: asleep if it is worth it, and never past `length`.
fn wait(length: Nanos) {
    if length > TIMER_SLACK + TIMER_SLACK {
        std::thread::sleep((length - TIMER_SLACK).min(SLEEP_MAX).into());
    } else {
        std::hint::spin_loop();
    }
}
