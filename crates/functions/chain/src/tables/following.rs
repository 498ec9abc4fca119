//! The kernel's routes, and when they are dumped anew.

use base::Nanos;

use crate::error::ChainError;
use crate::ports::Ports;
use crate::routes::kernel::KernelRoutes;

/// After news that leave the tables in doubt: time for more of them, so that one dump settles all.
const SETTLE: Nanos = Nanos::from_millis(20);
/// Between two dumps, however much there is in doubt.
const DUMP_EVERY: Nanos = Nanos::from_secs(1);

/// The kernel's routes, where they are followed.
pub(super) struct Following {
    pub(super) routes: Option<KernelRoutes>,
    dump_at: Nanos,
    dumped_at: Nanos,
}

impl Following {
    /// Follows nothing yet.
    pub(super) const fn nothing() -> Self {
        Self { routes: None, dump_at: Nanos::FAR_FUTURE, dumped_at: Nanos::ZERO }
    }

    /// When a dump is due.
    pub(super) const fn dump_at(&self) -> Nanos {
        self.dump_at
    }

    /// Something is in doubt: a dump is due after a while.
    pub(super) fn dump_soon(&mut self, now: Nanos) {
        if self.routes.is_some() && self.dump_at == Nanos::FAR_FUTURE {
            self.dump_at = (now + SETTLE).max(self.dumped_at + DUMP_EVERY);
        }
    }

    /// Whether a dump is due, which the caller then makes.
    pub(super) fn take_due(&mut self, now: Nanos) -> bool {
        if self.routes.as_ref().is_some_and(KernelRoutes::is_in_doubt) {
            self.dump_soon(now);
        }
        let is_due = now >= self.dump_at;
        if is_due {
            (self.dump_at, self.dumped_at) = (Nanos::FAR_FUTURE, now);
        }
        is_due
    }
}

/// All entries that the kernel has.
pub(super) fn dump(ports: &Ports) -> Result<KernelRoutes, ChainError> {
    let mut routes = KernelRoutes::new(ports.clone());
    let mut entries_changed = false;
    // A table that changes during the dump may have been told in pieces that do not fit; the news
    // of the change come after it and put that right, unless entries moved. Once more is enough.
    for _ in 0..2 {
        routes = KernelRoutes::new(ports.clone());
        entries_changed = sys::route::dump(|entry| routes.add(&entry))?;
        if !entries_changed {
            break;
        }
    }
    routes.set_in_doubt(entries_changed);
    Ok(routes)
}
