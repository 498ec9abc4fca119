//! Detects cgroup BPF programs that acceleration would bypass: a program under any is left to the
//! kernel, until `sockets.ignore_firewall` says otherwise.
//!
//! The kernel tells of no change, so the groups of programs with sockets are looked at again and
//! again. What is not known is not allowed for whoever comes; who is served is put out only for
//! programs that are there.

use std::collections::BTreeMap;

use attach::FallbackReason;
use base::{AppId, Nanos};
use sys::SysError;
use sys::control_group::{self, ControlGroups as Hierarchy};

/// An answer about a group is as old at most.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);

/// Processes that are looked at in one look, at most: a file of /proc each. More take their turns.
const PROCESSES_MAX: usize = 256;

/// Groups that answers are kept of, at most.
const GROUPS_MAX: usize = 1024;

/// What is known of groups, and of whom they are.
pub(super) struct ControlGroups {
    is_ignored: bool,
    /// Nothing: there are no control groups, and so no programs. An error: nobody may look.
    hierarchy: Result<Option<Hierarchy>, SysError>,
    /// By group: whether there are any, and when that was looked at.
    known: BTreeMap<String, (Nanos, bool)>,
    look_at: Nanos,
    /// Where the next look begins among the processes.
    turn: usize,
}

impl ControlGroups {
    /// The hierarchy as this process sees it.
    pub(super) fn new(is_ignored: bool) -> Self {
        let hierarchy = Hierarchy::open();
        if let (Err(error), false) = (&hierarchy, is_ignored) {
            tracing::warn!(
                target: crate::log::SOCKETS,
                "{error}: nothing is served, for a BPF program of a control group would not be seen \
                 (`sockets.ignore_firewall`)"
            );
        }
        Self { is_ignored, hierarchy, known: BTreeMap::new(), look_at: Nanos::ZERO, turn: 0 }
    }

    /// Whether their programs are passed by from now on.
    pub(super) fn ignore(&mut self, is_ignored: bool) {
        self.is_ignored = is_ignored;
    }

    /// Why no socket of a process may pass by its control group's programs now, if so. Zero is a
    /// process that has no number here.
    pub(super) fn forbids(&mut self, pid: u32, now: Nanos) -> Option<FallbackReason> {
        if self.is_ignored {
            return None;
        }
        match self.has_filters(pid, now) {
            Ok(false) => None,
            Ok(true) => Some(FallbackReason::ControlGroupFilter),
            Err(_) => Some(FallbackReason::ControlGroupUnseen),
        }
    }

    fn has_filters(&mut self, pid: u32, now: Nanos) -> Result<bool, String> {
        let Some(hierarchy) = self.hierarchy.as_ref().map_err(SysError::to_string)? else {
            return Ok(false);
        };
        let path = control_group::of_process(pid).map_err(|error| error.to_string())?;
        if let Some((at, has_any)) = self.known.get(&path)
            && now < *at + LOOK_EVERY
        {
            return Ok(*has_any);
        }
        let has_any = hierarchy.has_filters(&path).map_err(|error| error.to_string())?;
        if self.known.len() >= GROUPS_MAX {
            self.known.retain(|_, (at, _)| now < *at + LOOK_EVERY);
        }
        if self.known.len() < GROUPS_MAX {
            self.known.insert(path, (now, has_any));
        }
        Ok(has_any)
    }

    /// Whether it is time to look again at processes that are served.
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        !self.is_ignored && now >= self.look_at
    }

    /// Which of `processes` have come under such programs: application and process.
    pub(super) fn newly_guarded(&mut self, processes: &[(AppId, u32)], now: Nanos) -> Vec<AppId> {
        self.look_at = now + LOOK_EVERY;
        if processes.is_empty() {
            return Vec::new();
        }
        let count = processes.len().min(PROCESSES_MAX);
        let first = self.turn % processes.len();
        self.turn = first + count;
        let meant = processes.iter().cycle().skip(first).take(count);
        let mut guarded: Vec<AppId> = meant
            .filter(|(_, pid)| self.has_filters(*pid, now) == Ok(true))
            .map(|(app, _)| *app)
            .collect();
        guarded.sort_unstable();
        guarded.dedup();
        guarded
    }

    /// When to look again.
    pub(super) fn next_deadline(&self, is_anybody_served: bool) -> Nanos {
        let is_idle = self.is_ignored || !is_anybody_served;
        if is_idle { Nanos::FAR_FUTURE } else { self.look_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_known_is_not_allowed_and_not_put_out() {
        let mut groups = ControlGroups::new(false);
        let own = std::process::id();
        assert_eq!(groups.forbids(own, Nanos::from_secs(1)), None);
        // It has no number here.
        let unseen = Some(FallbackReason::ControlGroupUnseen);
        assert_eq!(groups.forbids(0, Nanos::from_secs(1)), unseen);
        assert_eq!(
            groups.newly_guarded(&[(AppId(1), 0), (AppId(2), own)], Nanos::from_secs(1)),
            []
        );
        groups.is_ignored = true;
        assert_eq!(groups.forbids(0, Nanos::from_secs(2)), None);
    }

    #[test]
    fn more_processes_than_are_looked_at_in_one_look_take_their_turns() {
        let mut groups = ControlGroups::new(false);
        let own = std::process::id();
        let path = control_group::of_process(own).expect("we are here");
        // Nobody is there but the last.
        let mut processes = vec![(AppId(1), 0); 2 * PROCESSES_MAX];
        processes.push((AppId(2), own));
        let mut found = Vec::new();
        for look in 1..=3 {
            let now = Nanos::from_secs(10 * look);
            groups.known.insert(path.clone(), (now, true));
            found.push(groups.newly_guarded(&processes, now));
            assert!(!groups.is_due(now), "too early");
        }
        assert_eq!(found, [vec![], vec![], vec![AppId(2)]]);
    }
}
