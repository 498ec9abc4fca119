//! How long a thread lets others run before it sleeps.

use base::Nanos;
use calisto_client::sockets::{Profile, Session, is_confined};

use crate::process::session;

/// Lets others run for as long as the profile says, before a sleep.
pub(crate) struct YieldPolicy {
    until: Option<Nanos>,
    yield_for: Nanos,
}

impl YieldPolicy {
    pub(crate) fn new() -> Self {
        let profile = session::current().map(Session::profile);
        let microseconds = profile.map_or(0, Profile::yield_us);
        Self { until: None, yield_for: Nanos::from_micros(microseconds.into()) }
    }

    /// Whether to give way to others once more.
    pub(crate) fn may_yield(&mut self) -> bool {
        if self.yield_for == Nanos::ZERO || is_confined() {
            return false;
        }
        let now = sys::clock::now();
        now < *self.until.get_or_insert(now + self.yield_for)
    }
}
