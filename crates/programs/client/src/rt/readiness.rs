//! Whether a task is to be polled: one word that wakers of any thread and its worker share.

use std::sync::atomic::{AtomicU8, Ordering};

/// A task waits, is queued, is being polled, or has ended; and whether it was woken meanwhile.
#[derive(Debug)]
pub(crate) struct Readiness(AtomicU8);

/// It waits for somebody to wake it.
const WAITING: u8 = 0;
/// It is in one run queue, once.
const QUEUED: u8 = 1;
/// A worker polls it.
const POLLED: u8 = 2;
/// A worker polls it, and it was woken since that began: it is to be polled again.
const WOKEN: u8 = 3;
/// It is never polled again.
const ENDED: u8 = 4;

impl Readiness {
    /// Of a task that is about to be queued for the first time.
    pub(crate) fn queued() -> Self {
        Self(AtomicU8::new(QUEUED))
    }

    /// Something has happened to it. True: the caller queues it.
    #[inline]
    #[must_use]
    pub(crate) fn wake(&self) -> bool {
        // Release: what the waker did before is seen by the poll that follows, see `begin`.
        let before =
            self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| match state {
                WAITING => Some(QUEUED),
                POLLED => Some(WOKEN),
                // Written again as it is: the poll to come must see this waker's doings as well.
                QUEUED | WOKEN => Some(state),
                _ => None,
            });
        before == Ok(WAITING)
    }

    /// It was taken out of its queue and is being polled.
    #[inline]
    pub(crate) fn begin(&self) {
        let before = self.0.swap(POLLED, Ordering::AcqRel);
        debug_assert_eq!(before, QUEUED, "only a queued task is polled");
    }

    /// The poll has ended and the task has not. True: it was woken meanwhile, the caller queues it.
    #[inline]
    #[must_use]
    pub(crate) fn end(&self) -> bool {
        let left =
            self.0.compare_exchange(POLLED, WAITING, Ordering::AcqRel, Ordering::Acquire).is_err();
        if left {
            // Nobody but the poller leaves this state.
            self.0.store(QUEUED, Ordering::Release);
        }
        left
    }

    /// The task has ended.
    pub(crate) fn finish(&self) {
        self.0.store(ENDED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every schedule of a number of steps: wakers (bit 0) and the worker (bit 1), each of whose
    /// steps is one atomic operation.
    #[test]
    fn in_every_schedule_a_wake_is_followed_by_a_poll_and_it_is_queued_once() {
        for schedule in 0..1_u32 << 14 {
            let readiness = Readiness::queued();
            let (mut queued, mut is_polled, mut is_owed) = (1, false, true);
            let work = |is_polled: &mut bool, queued: &mut u32, is_owed: &mut bool| {
                if *is_polled {
                    *is_polled = false;
                    *queued += u32::from(readiness.end());
                } else if *queued == 1 {
                    (*queued, *is_polled, *is_owed) = (0, true, false);
                    readiness.begin();
                }
            };
            for step in 0..14 {
                if schedule >> step & 1 == 0 {
                    is_owed = true;
                    queued += u32::from(readiness.wake());
                } else {
                    work(&mut is_polled, &mut queued, &mut is_owed);
                }
                assert!(queued <= 1, "schedule {schedule:b}: queued twice");
                assert!(!(is_polled && queued > 0), "schedule {schedule:b}: two could poll it");
            }
            for _ in 0..4 {
                work(&mut is_polled, &mut queued, &mut is_owed);
            }
            assert!(!is_owed, "schedule {schedule:b}: a wake was lost");
        }
    }

    #[test]
    fn a_task_that_has_ended_is_not_woken() {
        let readiness = Readiness::queued();
        readiness.begin();
        assert!(!readiness.wake());
        readiness.finish();
        assert!(!readiness.wake());
        assert!(!readiness.wake());
    }
}
