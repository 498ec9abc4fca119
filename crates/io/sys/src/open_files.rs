//! How many files this process may have open: RLIMIT_NOFILE.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as we may.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // Lower than before it cannot become, and more is not to be had.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
