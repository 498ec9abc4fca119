//! The time between being asked to end and the end: the sockets of programs get it to close.

use base::Nanos;

/// How far the end is.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    begun: Option<Begun>,
    stops_asked: u32,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    until: Nanos,
    /// Requests by then: two that came at once are one, and nobody wants to hurry yet.
    asked: u32,
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

    /// `asked`: how often the end was asked for; another time once it has begun hurries. `length`:
    /// what sockets get.
    pub(crate) fn next(
        &mut self,
        asked: u32,
        now: Nanos,
        length: Nanos,
        are_closed: impl FnOnce() -> bool,
    ) -> Next {
        match self.begun {
            None if asked == 0 => Next::GoOn,
            None => {
                self.begun = Some(Begun { until: now + length, asked });
                Next::Begin
            }
            Some(begun) if asked == begun.asked && now < begun.until && !are_closed() => Next::GoOn,
            Some(_) => Next::End,
        }
    }

    /// The time that sockets still have, in milliseconds; nothing while nobody has asked for the
    /// end. `asked` and `length` as for [`Self::next`], which may not have heard of it yet.
    pub(crate) fn left_ms(&self, asked: u32, now: Nanos, length: Nanos) -> Option<u64> {
        let left = match self.begun {
            Some(begun) => Some(begun.until.since(now)),
            None => Some(length).filter(|_| asked > 0),
        };
        left.map(|left| left.0 / 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Nanos = Nanos::from_secs(2);

    fn begun() -> Drain {
        let mut drain = Drain::default();
        assert_eq!(drain.next(0, Nanos::ZERO, LENGTH, || true), Next::GoOn);
        assert_eq!(drain.left_ms(0, Nanos::ZERO, LENGTH), None);
        assert_eq!(drain.left_ms(1, Nanos::ZERO, LENGTH), Some(2000), "the next turn begins it");
        assert_eq!(drain.next(1, Nanos::ZERO, LENGTH, || false), Next::Begin);
        assert_eq!(drain.left_ms(1, Nanos::from_millis(500), LENGTH), Some(1500));
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
    }

    #[test]
    fn two_requests_at_once_are_one() {
        let mut drain = Drain::default();
        assert_eq!(drain.next(2, Nanos::ZERO, LENGTH, || false), Next::Begin);
        assert_eq!(drain.next(2, Nanos::ZERO, LENGTH, || false), Next::GoOn);
        assert_eq!(drain.next(3, Nanos::ZERO, LENGTH, || false), Next::End);
    }
}
