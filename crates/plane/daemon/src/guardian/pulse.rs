//! Detects a hung daemon: no heartbeat from its event loop for too long.
//!
//! Only time that passes while somebody looks counts. A machine that was suspended, a virtual one
//! that was paused, and a control group that was frozen stop the guardian as they stop the daemon:
//! all of that is one look, however late it comes.

use base::Nanos;

/// Looks in the time that a daemon has.
const LOOKS: u64 = 8;

/// What is known of the daemon's loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    /// So much silence is a hang; none: nobody asks.
    hang: Option<Nanos>,
    /// That has been seen since it was heard last, if it has been heard.
    silence: Option<Nanos>,
    looked: Nanos,
    /// It ends in order: nobody asks any more.
    is_ending: bool,
}

impl Pulse {
    /// Of a daemon that hangs after `hang`; zero: whatever it does.
    pub(super) fn new(hang: Nanos) -> Self {
        let hang = Some(hang).filter(|hang| *hang > Nanos::ZERO);
        Self { hang, silence: None, looked: Nanos::ZERO, is_ending: false }
    }

    /// How long it may be waited for something before the next look.
    pub(super) fn look_every(&self) -> Nanos {
        match (self.hang, self.silence) {
            (Some(hang), Some(_)) => Nanos((hang.0 / LOOKS).max(1)),
            _ => Nanos::FAR_FUTURE,
        }
    }

    /// The loop goes round.
    pub(super) fn beat(&mut self, now: Nanos) {
        if self.is_ending {
            // Of another thread, which does not know: nobody answers it again.
            return;
        }
        (self.silence, self.looked) = (Some(Nanos::ZERO), now);
    }

    /// It is not asked any more, until the next beat.
    pub(super) fn rest(&mut self) {
        self.silence = None;
    }

    /// It ends in order, which may take its time.
    pub(super) fn end(&mut self) {
        self.is_ending = true;
        self.rest();
    }

    /// Looks: whether it hangs.
    pub(super) fn is_over(&mut self, now: Nanos) -> bool {
        let most = self.look_every();
        let (Some(hang), Some(silence)) = (self.hang, &mut self.silence) else { return false };
        *silence += now.since(self.looked).min(most);
        self.looked = now;
        *silence >= hang
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANG: Nanos = Nanos::from_millis(800);

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn silence_that_was_looked_at_is_a_hang_and_a_word_ends_it() {
        let mut pulse = Pulse::new(HANG);
        assert!(!pulse.is_over(at(100_000)), "it has not begun");
        pulse.beat(at(100_000));
        assert!((1..8).all(|look| !pulse.is_over(at(100_000 + look * 100))));
        pulse.beat(at(100_750));
        assert!((1..8).all(|look| !pulse.is_over(at(100_750 + look * 100))));
        assert!(pulse.is_over(at(101_550)));
        pulse.rest();
        assert!(!pulse.is_over(at(102_000)) && pulse.look_every() == Nanos::FAR_FUTURE);
    }

    #[test]
    fn a_beat_behind_the_word_of_the_end_asks_nobody_again() {
        let mut pulse = Pulse::new(HANG);
        pulse.beat(at(0));
        pulse.end();
        pulse.beat(at(1));
        assert_eq!(pulse.look_every(), Nanos::FAR_FUTURE);
        assert!((1..20).all(|look| !pulse.is_over(at(look * 100))));
    }

    #[test]
    fn looks_for_other_reasons_make_it_neither_sooner_nor_later() {
        let mut pulse = Pulse::new(HANG);
        pulse.beat(at(0));
        assert!((1..800).all(|millis| !pulse.is_over(at(millis))));
        assert!(pulse.is_over(at(800)));
    }

    #[test]
    fn a_machine_that_was_paused_is_no_daemon_that_hangs() {
        let mut pulse = Pulse::new(HANG);
        pulse.beat(at(0));
        assert!(!pulse.is_over(at(100)));
        assert!(!pulse.is_over(at(3_600_000)), "an hour is one look");
        assert!((1..6).all(|look| !pulse.is_over(at(3_600_000 + look * 100))));
        assert!(pulse.is_over(at(3_600_600)));
    }

    #[test]
    fn nobody_asks_where_no_time_is_told() {
        let mut pulse = Pulse::new(Nanos::ZERO);
        pulse.beat(at(0));
        assert!(!pulse.is_over(at(3_600_000)) && pulse.look_every() == Nanos::FAR_FUTURE);
    }
}
