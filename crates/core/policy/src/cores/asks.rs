//! Per tick, the applications that want a core or can give one up, each once; and which workers get
//! flows, where the policy decides that.

use base::{AppId, WorkerId};

/// The wishes of one tick, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Asks {
    /// Counts ticks, so that nothing has to be cleared.
    pub(super) tick: u64,
    pub(super) more: Vec<AppId>,
    pub(super) fewer: Vec<AppId>,
    /// Workers whose flows the others can do.
    pub(super) rests: Vec<WorkerId>,
    /// Resting workers that are to have a core and their flows.
    pub(super) rouses: Vec<(AppId, WorkerId)>,
    /// By application: the ticks in which it asked last, for more and for fewer.
    asked: Vec<[u64; 2]>,
}

impl Asks {
    /// The application is congested, or has work and no worker that does it.
    #[inline]
    pub fn more(&mut self, app: AppId) {
        if self.is_first(app, 0) {
            self.more.push(app);
        }
    }

    /// The application has a core more than it uses.
    #[inline]
    pub fn fewer(&mut self, app: AppId) {
        if self.is_first(app, 1) {
            self.fewer.push(app);
        }
    }

    /// The flows of the worker are to go to the others of its application, and its core back.
    #[inline]
    pub fn rest(&mut self, worker: WorkerId) {
        self.rests.push(worker);
    }

    /// The application is to have a core more, for this worker of it, which rests.
    #[inline]
    pub fn rouse(&mut self, app: AppId, worker: WorkerId) {
        self.rouses.push((app, worker));
    }

    /// Whether it asked for more in this tick.
    #[inline]
    pub(super) fn asked_more(&self, app: AppId) -> bool {
        self.asked.get(app.index()).is_some_and(|asked| asked[0] == self.tick)
    }

    /// Ticks so far.
    pub(super) fn after(tick: u64) -> Self {
        Self { tick, ..Self::default() }
    }

    pub(super) fn begin(&mut self) {
        self.tick = self.tick.wrapping_add(1);
        self.more.clear();
        self.fewer.clear();
        self.rests.clear();
        self.rouses.clear();
    }

    /// Memory for workers and applications with ids below these.
    pub(super) fn make_room(&mut self, workers: usize, apps: usize) {
        self.rests.reserve(workers);
        self.rouses.reserve(apps);
        self.asked.resize(self.asked.len().max(apps), [0; 2]);
        self.more.reserve(apps);
        self.fewer.reserve(apps);
    }

    fn is_first(&mut self, app: AppId, which: usize) -> bool {
        // An id that nobody has comes from outside: it asks for nothing.
        let Some(asked) = self.asked.get_mut(app.index()) else { return false };
        std::mem::replace(&mut asked[which], self.tick) != self.tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_asks_once_a_tick_and_one_that_is_not_there_never() {
        let mut asks = Asks::default();
        asks.make_room(0, 2);
        for _ in 0..3 {
            asks.begin();
            for app in [1, 1, 0, 1, 2, 4000].map(AppId) {
                asks.more(app);
                asks.fewer(app);
            }
            assert_eq!(asks.more, [AppId(1), AppId(0)]);
            assert_eq!(asks.fewer, [AppId(1), AppId(0)]);
            assert!(asks.asked_more(AppId(0)) && !asks.asked_more(AppId(2)));
        }
    }
}
