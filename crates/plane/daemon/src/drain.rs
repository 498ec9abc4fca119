//! The time between being asked to end and the end: the kernel takes over the connections of
//! programs, and what it cannot go on with gets a while to close.

use base::Nanos;

/// The hand-over to the kernel is not waited for any longer: the attach server ends it before.
pub(crate) const HAND_OVER_WITHIN: Nanos = Nanos::from_secs(10);

/// How far the end is.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    begun: Option<Begun>,
    stops_asked: u32,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Nanos,
    /// Since when the kernel has what it can go on with.
    handed_over: Option<Nanos>,
    /// Requests by then: two that came at once are one, and nobody wants to hurry yet.
    asked: u32,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Go on: nobody has asked for the end, or sockets still have time.
    GoOn,
    /// The end was asked for just now: connections are to be handed over, and sockets closed.
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
    /// what sockets get that are left when the kernel has been handed the others, which is so when
    /// `is_handed_over` says it.
    pub(crate) fn next(
        &mut self,
        asked: u32,
        now: Nanos,
        length: Nanos,
        is_handed_over: bool,
        are_closed: impl FnOnce() -> bool,
    ) -> Next {
        let Some(begun) = &mut self.begun else {
            if asked == 0 {
                return Next::GoOn;
            }
            self.begun = Some(Begun { at: now, handed_over: None, asked });
            return Next::Begin;
        };
        if is_handed_over {
            begun.handed_over.get_or_insert(now);
        }
        if asked == begun.asked && now < begun.until(length) && !are_closed() {
            Next::GoOn
        } else {
            Next::End
        }
    }

    /// The time that sockets still have, in milliseconds; nothing while nobody has asked for the
    /// end. `asked` and `length` as for [`Self::next`], which may not have heard of it yet.
    pub(crate) fn left_ms(&self, asked: u32, now: Nanos, length: Nanos) -> Option<u64> {
        let left = match self.begun {
            Some(begun) => Some(begun.until(length).since(now)),
            None => Some(HAND_OVER_WITHIN + length).filter(|_| asked > 0),
        };
        left.map(|left| left.0 / 1_000_000)
    }
}

impl Begun {
    /// When the end comes at the latest.
    fn until(&self, length: Nanos) -> Nanos {
        self.handed_over.unwrap_or(self.at + HAND_OVER_WITHIN) + length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Nanos = Nanos::from_secs(2);

    fn begun() -> Drain {
        let mut drain = Drain::default();
        assert_eq!(drain.next(0, Nanos::ZERO, LENGTH, false, || true), Next::GoOn);
        assert_eq!(drain.left_ms(0, Nanos::ZERO, LENGTH), None);
        assert_eq!(drain.left_ms(1, Nanos::ZERO, LENGTH), Some(12_000), "the next turn begins it");
        assert_eq!(drain.next(1, Nanos::ZERO, LENGTH, false, || false), Next::Begin);
        drain
    }

    #[test]
    fn sockets_have_their_time_to_close_and_no_more() {
        let at = Nanos::from_millis;
        let mut drain = begun();
        assert_eq!(drain.next(1, at(5), LENGTH, true, || false), Next::GoOn);
        assert_eq!(drain.left_ms(1, at(505), LENGTH), Some(1500));
        assert_eq!(drain.next(1, at(2004), LENGTH, true, || false), Next::GoOn);
        assert_eq!(drain.next(1, at(2005), LENGTH, true, || false), Next::End);
        assert_eq!(begun().next(1, at(1), LENGTH, true, || true), Next::End);
    }

    #[test]
    fn a_hand_over_that_takes_longer_than_sockets_get_to_close_is_not_cut_short() {
        let at = Nanos::from_millis;
        let mut drain = begun();
        assert_eq!(drain.next(1, at(7000), LENGTH, false, || false), Next::GoOn);
        assert_eq!(drain.next(1, at(8000), LENGTH, true, || false), Next::GoOn);
        assert_eq!(drain.next(1, at(9999), LENGTH, true, || false), Next::GoOn);
        assert_eq!(drain.next(1, at(10_000), LENGTH, true, || false), Next::End);
    }

    #[test]
    fn a_hand_over_that_never_ends_does_not_keep_the_daemon() {
        let last = HAND_OVER_WITHIN + LENGTH;
        let mut drain = begun();
        assert_eq!(drain.next(1, last - Nanos(1), LENGTH, false, || false), Next::GoOn);
        assert_eq!(drain.next(1, last, LENGTH, false, || false), Next::End);
    }

    #[test]
    fn a_second_request_hurries() {
        assert_eq!(begun().next(2, Nanos::ZERO, LENGTH, false, || false), Next::End);
    }

    #[test]
    fn two_requests_at_once_are_one() {
        let mut drain = Drain::default();
        assert_eq!(drain.next(2, Nanos::ZERO, LENGTH, false, || false), Next::Begin);
        assert_eq!(drain.next(2, Nanos::ZERO, LENGTH, false, || false), Next::GoOn);
        assert_eq!(drain.next(3, Nanos::ZERO, LENGTH, false, || false), Next::End);
    }
}
