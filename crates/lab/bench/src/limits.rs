//! Descriptors: thousands of connections want as many, and a process has a limit.

use rustix::process::{Resource, Rlimit};

use crate::error::{Error, OrNeeds};

/// More than this no case needs.
const DESCRIPTORS: u64 = 1 << 17;

/// What a program needs of them besides its connections: ours keeps some for itself, too.
const OTHERS: u64 = 512;

/// Lets this process, and what it starts, have as many of them as it may, and says for how many
/// connections that is enough.
pub(crate) fn connections_max() -> Result<usize, Error> {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    let maximum = limits.maximum.unwrap_or(DESCRIPTORS);
    // Only who has the right to raise the maximum gets more.
    let tries = [maximum.max(DESCRIPTORS), maximum]
        .map(|maximum| Rlimit { current: Some(maximum.min(DESCRIPTORS)), maximum: Some(maximum) });
    let set = |limits: Rlimit| {
        rustix::process::setrlimit(Resource::Nofile, limits).map(|()| limits.current)
    };
    let [more, same] = tries;
    let current = set(more).or_else(|_| set(same)).or_needs("limit of open descriptors")?;
    Ok(current.unwrap_or(DESCRIPTORS).saturating_sub(OTHERS) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_may_be_are_allowed_and_some_are_left_over() {
        let connections = connections_max().expect("less than before is always allowed") as u64;
        let current = rustix::process::getrlimit(Resource::Nofile).current;
        assert!(current.is_none_or(|current| current >= connections + OTHERS), "{current:?}");
    }
}
