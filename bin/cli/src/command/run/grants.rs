//! Where the cores of a job come from.

use std::os::fd::BorrowedFd;

use sys::cpu_set::CpuSet;

/// What the job may use now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// These cores; possibly none.
    Cores(CpuSet),
    /// Nobody gives out cores any more, for this reason.
    Over(String),
}

/// Cores that come and go.
pub(crate) trait Grants {
    /// What there is now; the descriptors are quiet until that changes.
    fn look(&mut self) -> Holding;

    /// One of these is readable once something may have changed.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
}
