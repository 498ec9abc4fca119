//! What a slice's hook has counted, added to what its functions have.
//!
//! A function that runs in both counts as one. Its hook's counters begin anew when its rules
//! change; what they had come to is kept here, by what each counter means.

use std::collections::BTreeMap;

use calisto_slice::SliceError;
use port::hook::{Hook, HookCounter, HookCounters, HookCounts, HookFunctions};

use super::Compiled;
use crate::figures::{CounterFigure, GroupFigures};

/// A counter of a function: its kind, which of that kind it is, and the counter's name, or of a
/// rule what it says.
type Key = (&'static str, usize, String);

/// A hook and what its rules say.
#[derive(Clone, Debug)]
struct Running {
    hook: Hook,
    rules: Vec<Vec<String>>,
}

/// The counters of one slice's hook.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookStats {
    running: Option<Running>,
    /// The one before: its program may still run, for as long as the slice's thread takes to put
    /// the next one there.
    before: Option<Running>,
    /// Of all before that.
    sums: BTreeMap<Key, u64>,
}

impl HookStats {
    /// The hook that is to run from now on, with counters of its own if it counts other things.
    ///
    /// # Errors
    /// The kernel gives no counters.
    pub(crate) fn next(&mut self, compiled: &Compiled) -> Result<Option<Hook>, SliceError> {
        let Some(functions) = &compiled.functions else { return Ok(None) };
        let counts_same = |running: &&Running| {
            let old = &running.hook.functions;
            old.acls == functions.acls && old.router.is_some() == functions.router.is_some()
        };
        let counters = match self.running.as_ref().filter(counts_same) {
            Some(running) => running.hook.counters.clone(),
            None => HookCounters::create(functions)?,
        };
        Ok(Some(Hook { functions: functions.clone().into(), counters }))
    }

    /// `hook` has been sent to the slice's thread.
    pub(crate) fn sent(&mut self, hook: Option<&Hook>, compiled: &Compiled) {
        let Some(hook) = hook else { return };
        let next = Running { hook: hook.clone(), rules: compiled.rules.clone() };
        let last = self.running.replace(next);
        let Some(last) = last.filter(|last| last.hook.counters != hook.counters) else { return };
        if let Some(before) = self.before.replace(last) {
            each(&before, |key, count| *self.sums.entry(key).or_default() += count);
        }
    }

    /// Adds everything to the figures of the slice's functions.
    pub(crate) fn add_to(&self, groups: &mut [GroupFigures]) {
        let mut sums = self.sums.clone();
        for running in self.running.iter().chain(&self.before) {
            each(running, |key, count| *sums.entry(key).or_default() += count);
        }
        for ((kind, number, name), count) in sums {
            let mut of_kind =
                groups.iter_mut().filter(|group| group.of == "function" && group.name == kind);
            // One that a reload took away has no figures any more.
            let Some(group) = of_kind.nth(number) else { continue };
            let is_it = |counter: &&mut CounterFigure| counter.name == name || counter.help == name;
            match group.counters.iter_mut().find(is_it) {
                Some(counter) => counter.value += count,
                None => group.counters.extend(own(&name, count)),
            }
        }
    }
}

/// A counter that only a hook has.
fn own(name: &str, value: u64) -> Option<CounterFigure> {
    let counter = HookCounter::ALL.into_iter().find(|counter| counter.name() == name)?;
    Some(CounterFigure { name: name.to_owned(), help: counter.help().to_owned(), value })
}

/// What each counter has come to; nothing when the kernel does not say.
fn each(running: &Running, mut each: impl FnMut(Key, u64)) {
    let Running { hook, rules } = running;
    let HookFunctions { acls, router } = &*hook.functions;
    let Ok(HookCounts { fixed, acls: counts }) = hook.counters.read(&hook.functions) else {
        return;
    };
    let whose = if router.is_some() { "router" } else { "acl" };
    for counter in HookCounter::ALL {
        each((whose, 0, counter.name().to_owned()), fixed[counter as usize]);
    }
    if router.is_some() {
        each((whose, 0, "forwarded".to_owned()), fixed[HookCounter::Forwarded as usize]);
    }
    for (number, ((acl, says), counts)) in acls.iter().zip(rules).zip(&counts).enumerate() {
        let mut sums = [("permitted", 0), ("denied", 0), ("denied_by_default", 0)];
        let (by_default, of_rules) = counts.split_first().unwrap_or((&0, &[]));
        sums[if acl.denies { 2 } else { 0 }].1 += by_default;
        for ((rule, says), count) in acl.rules.iter().zip(says).zip(of_rules) {
            sums[usize::from(rule.denies)].1 += count;
            each(("acl", number, says.clone()), *count);
        }
        for (name, sum) in sums {
            each(("acl", number, name.to_owned()), sum);
        }
    }
}
