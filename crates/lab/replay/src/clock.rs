//! The time that the data path sees: that of the capture, counted from its first packet.
//!
//! A turn of the loop ends [`TURN`] after the oldest packet that it takes, as a live loop's would,
//! so packets closer than that share a batch and others do not.

use base::Nanos;

use crate::Pace;

/// How far the clock goes past the oldest waiting packet: a control tick.
pub(crate) const TURN: Nanos = Nanos::from_micros(50);
/// It moves in every turn, also in a file without times: a full batch of 64 packets in a
/// microsecond is beyond every link.
const STEP: Nanos = Nanos::from_micros(1);
/// When the data path starts. Not zero, which its tables take for "never".
const START: Nanos = Nanos::from_millis(500);
/// When the first packet is due: the first table is made before.
const ORIGIN: Nanos = Nanos::from_secs(1);

/// The clock of a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    now: Nanos,
    /// How many times as fast as it was recorded; `None`: as fast as it goes.
    speed: Option<f64>,
    /// The clock of the machine when the first packet was played.
    started: Option<Nanos>,
}

impl Clock {
    pub(crate) fn new(pace: Pace) -> Self {
        let speed = match pace {
            Pace::Fast => None,
            Pace::Recorded { speed } => Some(speed),
        };
        Self { now: START, speed, started: None }
    }

    /// The time now.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// Lets a control tick pass without packets. At a recorded pace the machine's clock passes it,
    /// and this waits.
    pub(crate) fn pass(&mut self, machine: impl FnOnce() -> Nanos) {
        if self.speed.is_none() || self.started.is_none() {
            self.now += TURN;
            return;
        }
        std::thread::sleep(TURN.into());
        self.turn(Nanos::ZERO, machine);
    }

    /// When a packet is due that was captured `since_first` after the first one.
    pub(crate) fn due(since_first: Nanos) -> Nanos {
        ORIGIN + since_first
    }

    /// Begins a turn. The oldest waiting packet is due at `due`; `machine` is the machine's clock,
    /// which only a recorded pace looks at.
    pub(crate) fn turn(&mut self, due: Nanos, machine: impl FnOnce() -> Nanos) {
        self.now = match self.speed {
            None => (due + TURN).max(self.now + STEP),
            Some(speed) => {
                let machine = machine();
                let elapsed = machine.since(*self.started.get_or_insert(machine));
                self.now.max(ORIGIN + Nanos((elapsed.0 as f64 * speed) as u64))
            }
        };
    }

    /// How long the machine has to wait until `due`; zero when nobody waits.
    pub(crate) fn until(&self, due: Nanos) -> Nanos {
        self.speed.map_or(Nanos::ZERO, |speed| Nanos((due.since(self.now).0 as f64 / speed) as u64))
    }

    /// Whether the machine waits for packets to be due.
    pub(crate) fn is_paced(&self) -> bool {
        self.speed.is_some()
    }

    /// Whether a live loop would have come to rest before the next thing is due.
    pub(crate) fn is_pause_before(&self, due: Nanos) -> bool {
        due.since(self.now) > TURN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_clock_jumps_to_the_packets_and_never_stands_still() {
        let mut clock = Clock::new(Pace::Fast);
        let machine = || panic!("a fast clock does not look at the machine's");
        clock.turn(Clock::due(Nanos::ZERO), machine);
        assert_eq!(clock.now(), ORIGIN + TURN);
        clock.turn(Clock::due(Nanos::ZERO), machine);
        assert_eq!(clock.now(), ORIGIN + TURN + STEP, "a file without times");
        let hour = Nanos::from_secs(3600);
        assert!(clock.is_pause_before(Clock::due(hour)));
        clock.turn(Clock::due(hour), machine);
        assert_eq!(clock.now(), ORIGIN + hour + TURN);
        assert_eq!(clock.until(Clock::due(hour + hour)), Nanos::ZERO, "nobody waits");
    }

    #[test]
    fn a_paced_clock_follows_the_machine_at_its_speed() {
        let mut clock = Clock::new(Pace::Recorded { speed: 2.0 });
        let second = Nanos::from_secs(1);
        clock.turn(Clock::due(Nanos::ZERO), || Nanos::from_secs(500));
        clock.turn(Clock::due(Nanos::ZERO), || Nanos::from_secs(503));
        assert_eq!(clock.now(), Clock::due(Nanos::from_secs(6)));
        assert_eq!(clock.until(Clock::due(Nanos::from_secs(8))), second);
        assert_eq!(clock.until(Clock::due(Nanos::from_secs(5))), Nanos::ZERO);
        for machine in [400, 503] {
            clock.turn(Clock::due(Nanos::ZERO), || Nanos::from_secs(machine));
            let six = Clock::due(Nanos::from_secs(6));
            assert_eq!(clock.now(), six, "neither back nor ahead of the machine");
        }
        clock.pass(|| Nanos::from_secs(504));
        assert_eq!(clock.now(), Clock::due(Nanos::from_secs(8)));
    }

    #[test]
    fn the_first_table_is_made_before_the_first_packet_is_due() {
        for pace in [Pace::Fast, Pace::Recorded { speed: 1.0 }] {
            let mut clock = Clock::new(pace);
            // Twice the steps of the largest table, and some.
            for _ in 0..600 {
                clock.pass(|| panic!("nothing is played yet"));
            }
            assert!(clock.now() < Clock::due(Nanos::ZERO));
        }
    }
}
