//! How much memory may be locked: RLIMIT_MEMLOCK.
//!
//! Kernels before 5.11 charge BPF maps to it, and every kernel charges a UMEM to it unless the
//! process has CAP_IPC_LOCK.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as we may; the limit in bytes that then holds (`None`: none).
pub fn raise() -> Option<u64> {
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        // Without CAP_SYS_RESOURCE the hard limit is the ceiling, and reaching it is not an error
        // here: whether it suffices shows when the memory is asked for.
        let maximum = getrlimit(Resource::Memlock).maximum;
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
    limit()
}

/// The limit in bytes; `None`: no limit.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_never_lowers_the_limit() {
        let bytes = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        let before = bytes(limit());
        assert!(bytes(raise()) >= before);
        assert_eq!(raise(), limit());
    }
}
