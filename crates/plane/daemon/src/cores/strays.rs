//! Workers whose thread is not their process's, or has ended: why their application goes.
//!
//! Threads of a process that is killed end one by one, and the process after them: for a moment it
//! looks like one that names threads of others. So whoever may be dying is given time to die.

use base::Nanos;
use datapath::DetachReason;

/// A killed process has ended within this time, on a busy machine too; what strays longer lives.
const DYING_MAX: Nanos = Nanos::from_millis(500);

/// Between two looks whether it has: they read from /proc.
const LOOK_EVERY: Nanos = Nanos::from_millis(5);

/// Applications that have strayed, each with when it is put out for that.
#[derive(Debug)]
pub(super) struct Strays<A> {
    all: Vec<(A, Nanos)>,
    look_at: Nanos,
}

impl<A: Copy + PartialEq> Strays<A> {
    pub(super) const fn new() -> Self {
        Self { all: Vec::new(), look_at: Nanos::ZERO }
    }

    /// A worker of it has strayed.
    pub(super) fn note(&mut self, app: A, now: Nanos) {
        if !self.all.iter().any(|(of, _)| *of == app) {
            self.all.push((app, now + DYING_MAX));
        }
    }

    /// It has gone.
    pub(super) fn forget(&mut self, app: A) {
        self.all.retain(|(of, _)| *of != app);
    }

    /// One that has to go now, and why.
    pub(super) fn judge(
        &mut self,
        now: Nanos,
        is_ending: impl Fn(A) -> bool,
    ) -> Option<(A, DetachReason)> {
        if self.all.is_empty() || now < self.look_at {
            return None;
        }
        for at in 0..self.all.len() {
            let (app, until) = self.all[at];
            let reason = match (is_ending(app), now >= until) {
                (true, _) => DetachReason::Died,
                (false, true) => DetachReason::StrayThread,
                (false, false) => continue,
            };
            self.all.swap_remove(at);
            return Some((app, reason));
        }
        self.look_at = now + LOOK_EVERY;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_dying_has_died_and_one_that_lives_on_has_strayed() {
        let [dying, living] = [1, 2];
        let at = |millis| Nanos::from_secs(1) + Nanos::from_millis(millis);
        let mut strays = Strays::new();
        strays.note(dying, at(0));
        strays.note(living, at(1));
        strays.note(living, at(400));
        assert_eq!(strays.judge(at(1), |_| false), None, "its process may end yet");
        let died = Some((dying, DetachReason::Died));
        assert_eq!(strays.judge(at(2), |_| true), None, "just looked at");
        assert_eq!(strays.judge(at(20), |app| app == dying), died);
        assert_eq!(strays.judge(at(500), |_| false), None);
        let strayed = Some((living, DetachReason::StrayThread));
        assert_eq!(strays.judge(at(506), |_| false), strayed);
        strays.note(living, at(600));
        strays.forget(living);
        assert_eq!(strays.judge(at(2000), |_| false), None);
    }
}
