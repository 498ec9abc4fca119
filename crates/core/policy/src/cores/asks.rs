//! Who wants one core more, and who could do with one less, in one tick: each application once.

use super::AppId;

/// The wishes of one tick, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Asks {
    /// Counts ticks, so that nothing has to be cleared.
    pub(super) tick: u64,
    pub(super) more: Vec<AppId>,
    pub(super) fewer: Vec<AppId>,
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
    }

    /// Memory for applications with ids below `apps`.
    pub(super) fn make_room(&mut self, apps: usize) {
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
        asks.make_room(2);
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
