//! The time between being asked to end and the end: the sockets of programs get it to close.

use base::Nanos;

/// How far the end is.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    until: Option<Nanos>,
    stops_asked: u32,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Go on: nobody has asked for the end, or sockets still have time.
    GoOn,
    /// The end was asked for just now: sockets are to be closed, and have so long for it.
    Begin,
    /// Nothing is left to wait for, or nobody wants to wait.
    End,
}

impl Drain {
    /// An operator asks for the end.
    pub(crate) fn ask(&mut self) {
        self.stops_asked = self.stops_asked.saturating_add(1);
    }

    /// Times that operators have.
    pub(crate) fn stops_asked(&self) -> u32 {
        self.stops_asked
    }

    /// `asked`: how often the end was asked for; the second time hurries. `length`: what sockets
    /// get.
    pub(crate) fn next(
        &mut self,
        asked: u32,
        now: Nanos,
        length: Nanos,
        are_closed: impl FnOnce() -> bool,
    ) -> Next {
        match (asked, self.until) {
            (0, _) => Next::GoOn,
            (1, None) => {
                self.until = Some(now + length);
                Next::Begin
            }
            (1, Some(until)) if now < until && !are_closed() => Next::GoOn,
            _ => Next::End,
        }
    }

    /// The time that sockets still have, in milliseconds; nothing while nobody has asked for the
    /// end.
    pub(crate) fn left_ms(&self, now: Nanos) -> Option<u64> {
        self.until.map(|until| until.since(now).0 / 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Nanos = Nanos::from_secs(2);

    fn begun() -> Drain {
        let mut drain = Drain::default();
        assert_eq!(drain.next(0, Nanos::ZERO, LENGTH, || true), Next::GoOn);
        assert_eq!(drain.left_ms(Nanos::ZERO), None);
        assert_eq!(drain.next(1, Nanos::ZERO, LENGTH, || false), Next::Begin);
        assert_eq!(drain.left_ms(Nanos::from_millis(500)), Some(1500));
        drain
    }

    #[test]
    fn sockets_have_their_time_to_close_and_no_more() {
        let at = Nanos::from_millis;
        assert_eq!(begun().next(1, at(1999), LENGTH, || false), Next::GoOn);
        assert_eq!(begun().next(1, at(2000), LENGTH, || false), Next::End);
        assert_eq!(begun().next(1, at(1), LENGTH, || true), Next::End);
    }

    #[test]
    fn a_second_request_hurries() {
        assert_eq!(begun().next(2, Nanos::ZERO, LENGTH, || false), Next::End);
        assert_eq!(Drain::default().next(2, Nanos::ZERO, LENGTH, || false), Next::End);
    }
}
