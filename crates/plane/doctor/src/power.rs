//! What CPUs do to save power: frequency and idle states.

use std::collections::BTreeMap;

use crate::Finding;
use crate::text::{cpu_list, read, read_number, read_word};

/// How the CPUs save power.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PowerFacts {
    /// CPUs by their frequency governor; empty: the kernel does not choose frequencies here.
    /// `None`: not known.
    pub governors: Option<BTreeMap<String, usize>>,
    /// What puts idle CPUs to sleep; `None`: not known.
    pub idle_driver: Option<String>,
    /// The idle states of the first CPU, shallowest first.
    pub idle_states: Vec<IdleState>,
}

/// A sleep that a CPU may fall into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdleState {
    /// Its number in /sys.
    pub number: u16,
    /// Its name.
    pub name: String,
    /// How long the way out takes.
    pub exit_micros: u64,
    /// Whether it was switched off.
    pub disabled: bool,
}

/// A way out of sleep that takes longer than what a loop polls before it sleeps (`wait.spin_us`).
const EXIT_MICROS_LONG: u64 = 50;

const CPUS: &str = "/sys/devices/system/cpu";

pub(crate) fn gather() -> PowerFacts {
    let listed = read(format!("{CPUS}/online"));
    let online = listed.as_deref().map(cpu_list).unwrap_or_default();
    let mut governors = BTreeMap::new();
    for cpu in &online {
        if let Some(name) = read_word(format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor")) {
            *governors.entry(name).or_default() += 1;
        }
    }
    let first = online.first().copied().unwrap_or_default();
    PowerFacts {
        governors: listed.is_some().then_some(governors),
        idle_driver: read_word(format!("{CPUS}/cpuidle/current_driver")),
        // CPUIDLE_STATE_MAX of linux/cpuidle.h is 10.
        idle_states: (0..10).filter_map(|number| idle_state(first, number)).collect(),
    }
}

fn idle_state(cpu: u16, number: u16) -> Option<IdleState> {
    let file = |name: &str| format!("{CPUS}/cpu{cpu}/cpuidle/state{number}/{name}");
    Some(IdleState {
        number,
        name: read_word(file("name"))?,
        exit_micros: read_number(file("latency"))?,
        disabled: read_number(file("disable")).unwrap_or(0) != 0,
    })
}

/// What that means.
pub(crate) fn judge(facts: &PowerFacts) -> Vec<Finding> {
    vec![frequency(facts), idle(facts)]
}

fn frequency(facts: &PowerFacts) -> Finding {
    let subject = "cpu frequency";
    let Some(governors) = &facts.governors else {
        return Finding::note(subject, "cannot be read here");
    };
    if governors.is_empty() {
        return Finding::fine(subject, "is not chosen by this kernel (hypervisor or firmware)");
    }
    let other: Vec<String> = governors
        .iter()
        .filter(|&(name, _)| name != "performance")
        .map(|(name, count)| format!("{name} on {count} CPUs"))
        .collect();
    if other.is_empty() {
        Finding::fine(subject, "governor is performance on all CPUs")
    } else {
        Finding::worse(subject, format!("governor is {}", other.join(", ")))
            .cost("the first packets after a pause meet a slow CPU")
            .mend(format!("echo performance | tee {CPUS}/cpu*/cpufreq/scaling_governor"))
    }
}

fn idle(facts: &PowerFacts) -> Finding {
    let subject = "cpu idle";
    let slow: Vec<&IdleState> = facts
        .idle_states
        .iter()
        .filter(|state| !state.disabled && state.exit_micros > EXIT_MICROS_LONG)
        .collect();
    match (slow.iter().max_by_key(|state| state.exit_micros), facts.idle_driver.as_deref()) {
        (Some(deepest), _) => {
            let files: Vec<String> = slow.iter().map(|state| state.number.to_string()).collect();
            let numbers = files.join(",");
            let braces = if slow.len() > 1 { format!("{{{numbers}}}") } else { numbers };
            let IdleState { name, exit_micros, .. } = deepest;
            Finding::note(subject, format!("state {name} takes {exit_micros} us to leave"))
                .cost("a packet after a pause waits for that, unless wait.spin_us = -1")
                .mend(format!("echo 1 | tee {CPUS}/cpu*/cpuidle/state{braces}/disable"))
        }
        (None, None) => Finding::note(subject, "states cannot be read here"),
        (None, Some("none")) => Finding::fine(
            subject,
            "has no states to choose from: a CPU halts, and the wake line tells what that costs",
        ),
        (None, Some(driver)) => Finding::fine(
            subject,
            format!("({driver}) has no state that takes over {EXIT_MICROS_LONG} us to leave"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn state(number: u16, exit_micros: u64) -> IdleState {
        IdleState { number, name: format!("C{number}"), exit_micros, disabled: false }
    }

    #[test]
    fn a_governor_that_saves_power_is_told_with_how_many_cpus_have_it() {
        let governors =
            BTreeMap::from([("performance".to_owned(), 2), ("schedutil".to_owned(), 6)]);
        let facts = PowerFacts { governors: Some(governors), ..PowerFacts::default() };
        let finding = &judge(&facts)[0];
        assert_eq!(finding.level, Level::Worse);
        assert_eq!(finding.what, "governor is schedutil on 6 CPUs");
        let governors = Some(BTreeMap::from([("performance".to_owned(), 8)]));
        assert_eq!(judge(&PowerFacts { governors, ..facts })[0].level, Level::Fine);
    }

    #[test]
    fn deep_sleep_is_told_with_the_states_to_switch_off() {
        let facts = PowerFacts {
            idle_driver: Some("intel_idle".to_owned()),
            idle_states: vec![state(0, 0), state(1, 2), state(2, 85), state(3, 133)],
            ..PowerFacts::default()
        };
        let finding = &judge(&facts)[1];
        assert_eq!(finding.level, Level::Note);
        assert_eq!(finding.what, "state C3 takes 133 us to leave");
        assert!(finding.mend.as_deref().is_some_and(|m| m.ends_with("/state{2,3}/disable")));
        let disabled = |s: &IdleState| IdleState { disabled: s.number > 1, ..s.clone() };
        let idle_states = facts.idle_states.iter().map(disabled).collect();
        assert_eq!(judge(&PowerFacts { idle_states, ..facts })[1].level, Level::Fine);
    }

    #[test]
    fn a_virtual_machine_that_only_halts_and_a_machine_that_hides_it_differ() {
        let halts = PowerFacts {
            governors: Some(BTreeMap::new()),
            idle_driver: Some("none".to_owned()),
            ..PowerFacts::default()
        };
        let levels = |facts: &PowerFacts| judge(facts).iter().map(|f| f.level).collect::<Vec<_>>();
        assert_eq!(levels(&halts), [Level::Fine, Level::Fine]);
        assert_eq!(levels(&PowerFacts::default()), [Level::Note, Level::Note]);
    }
}
