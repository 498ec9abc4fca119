//! What stays with one worker: what the configuration says of it, and what operators have named.
//!
//! `pinning.rs` carries it out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

use base::{FlowGroup, WorkerId};
use config::Config;
use wire::FlowKey;

/// A flow or a group, and the worker that it stays with: `udp 10.0.0.1:5000 -> 10.0.0.2:7 = 2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) what: Pinned,
    pub(crate) worker: WorkerId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pinned {
    Group(FlowGroup),
    Flow(FlowKey),
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_pin = || {
            format!(
                "`{text}` is no pin: write it like `udp 10.0.0.1:5000 -> 10.0.0.2:7 = 2` or `group 7 = 1`"
            )
        };
        let (what, worker) = text.rsplit_once('=').ok_or_else(no_pin)?;
        let worker = worker.trim().parse().map_err(|_| no_pin())?;
        let what = match what.trim().strip_prefix("group ") {
            Some(group) => Pinned::Group(FlowGroup(group.trim().parse().map_err(|_| no_pin())?)),
            None => Pinned::Flow(what.parse::<FlowKey>().map_err(|wrong| wrong.to_string())?),
        };
        Ok(Self { what, worker: WorkerId(worker) })
    }
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "group {group}"),
            Self::Flow(flow) => flow.fmt(f),
        }
    }
}

/// What is pinned by `config`, and what is wrong about it, with the place in the array.
pub(crate) fn examine(config: &Config) -> (Vec<Pin>, Vec<(usize, String)>) {
    let (mut pins, mut wrong) = (Vec::<Pin>::new(), Vec::new());
    for (at, text) in config.steer.pins.iter().enumerate() {
        let judged = text.parse::<Pin>().and_then(|pin| fits(config, &pins, pin));
        match judged {
            Ok(pin) => pins.push(pin),
            Err(says) => wrong.push((at, says)),
        }
    }
    (pins, wrong)
}

/// The pins of `config`.
///
/// # Errors
/// What is wrong about the first that is.
pub(crate) fn of(config: &Config) -> Result<Vec<Pin>, String> {
    let (pins, wrong) = examine(config);
    match wrong.into_iter().next() {
        Some((at, says)) => Err(format!("`steer.pins`, item {}: {says}", at + 1)),
        None => Ok(pins),
    }
}

fn fits(config: &Config, earlier: &[Pin], pin: Pin) -> Result<Pin, String> {
    let Pin { what, worker } = pin;
    let count = config.workers.count;
    if worker.0 >= count {
        return Err(format!(
            "there is no worker {worker} at the start: `workers.count` is {count}, so write 0 to {}",
            count - 1
        ));
    }
    if earlier.iter().any(|earlier| earlier.what == what) {
        return Err(format!("{what} is pinned twice: remove one"));
    }
    let flows = earlier.iter().filter(|pin| matches!(pin.what, Pinned::Flow(_))).count();
    match what {
        Pinned::Group(group) if group.0 >= config.steer.groups => Err(format!(
            "there is no {what}: `steer.groups` is {}, so write 0 to {}",
            config.steer.groups,
            config.steer.groups - 1
        )),
        Pinned::Group(_) if config.steer.seed.is_none() => Err(format!(
            "{what} has other flows after each start while `steer.seed` is not set: set it, or pin flows"
        )),
        Pinned::Flow(_) if flows >= config.steer.overrides as usize => Err(format!(
            "more flows are pinned than `steer.overrides`, which is {}: raise it",
            config.steer.overrides
        )),
        _ => Ok(pin),
    }
}

/// Something to be pinned, or, without a worker, to be let go.
pub(crate) type PinStep = (Pinned, Option<WorkerId>);

/// What leads from one configuration's pins to another's: what it has no longer is let go, what it
/// has newly is pinned, and the rest stays as operators have left it.
pub(crate) fn steps(old: &[Pin], new: &[Pin]) -> Vec<PinStep> {
    let go = old.iter().filter(|pin| !new.iter().any(|other| other.what == pin.what));
    let come = new.iter().filter(|pin| !old.contains(pin));
    go.map(|pin| (pin.what, None)).chain(come.map(|pin| (pin.what, Some(pin.worker)))).collect()
}

/// Pins of the daemon's own workers.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// Flows that are pinned, by name: as many as `steer.overrides`.
    named: BTreeMap<FlowKey, WorkerId>,
    wanted: VecDeque<PinStep>,
}

impl Pins {
    /// That is still to be done, in the place of what was to be done with the same flows and
    /// groups.
    pub(crate) fn want(&mut self, steps: Vec<PinStep>) {
        let meant: BTreeSet<Pinned> = steps.iter().map(|(what, _)| *what).collect();
        self.wanted.retain(|(what, _)| !meant.contains(what));
        self.wanted.extend(steps);
    }

    /// Steps that are still to be done.
    pub(crate) fn pending(&self) -> usize {
        self.wanted.len()
    }

    /// The next step has to wait: others come first.
    pub(crate) fn step_waits(&mut self) {
        self.wanted.rotate_left(1);
    }

    /// The next step that is still to be done.
    pub(crate) fn next_step(&self) -> Option<PinStep> {
        self.wanted.front().copied()
    }

    /// That one is done, or cannot be.
    pub(crate) fn step_is_over(&mut self) {
        self.wanted.pop_front();
    }

    /// Flows and their workers, at most as many as a configuration can hold.
    pub(crate) fn named(&self) -> Vec<(String, u16)> {
        let named = self.named.iter().take(config::PINS_MAX);
        named.map(|(flow, worker)| (flow.to_string(), worker.0)).collect()
    }

    /// A flow was pinned or let go.
    pub(crate) fn note(&mut self, flow: FlowKey, worker: Option<WorkerId>) {
        match worker {
            Some(worker) => self.named.insert(flow, worker),
            None => self.named.remove(&flow),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(&format!("ports = ['xdp:eth1']\n{text}")).expect("all of it is allowed")
    }

    fn says(steer: &str) -> String {
        of(&config(&format!("[workers]\ncount = 2\n[steer]\n{steer}"))).expect_err(steer)
    }

    #[test]
    fn a_pin_is_a_flow_or_a_group_and_a_worker() {
        let text = "udp 10.0.0.1:5000 -> 10.0.0.2:7 = 1";
        let pin: Pin = text.parse().expect("a flow and a worker");
        assert_eq!(format!("{} = {}", pin.what, pin.worker), text);
        let pin: Pin = "group 7 = 0".parse().expect("a group and a worker");
        assert_eq!(pin.what, Pinned::Group(FlowGroup(7)));
        for wrong in ["", "group 7", "group x = 1", "group 7 = w", "udp nowhere = 1", "= 1"] {
            wrong.parse::<Pin>().expect_err(wrong);
        }
    }

    #[test]
    fn what_cannot_be_pinned_is_named_with_its_mend() {
        let flow = "udp 10.0.0.1:5000 -> 10.0.0.2:7";
        assert!(says(&format!("pins = ['{flow} = 2']")).contains("write 0 to 1"));
        assert!(says("pins = ['group 7 = 1']").contains("`steer.seed`"));
        assert!(says("seed = 1\ngroups = 128\npins = ['group 128 = 1']").contains("0 to 127"));
        assert!(says(&format!("pins = ['{flow} = 0', '{flow} = 1']")).contains("item 2: "));
        assert!(says(&format!("overrides = 0\npins = ['{flow} = 0']")).contains("raise it"));
        let both = format!("[steer]\nseed = 1\npins = ['group 7 = 0', '{flow} = 0']");
        assert_eq!(of(&config(&both)).map(|pins| pins.len()), Ok(2));
    }

    #[test]
    fn what_a_file_no_longer_says_is_let_go_and_what_it_says_newly_is_pinned() {
        let pin = |text: &str| text.parse::<Pin>().expect("a pin");
        let [stays, goes, moves, moved, comes] =
            ["group 1 = 0", "group 2 = 0", "group 3 = 0", "group 3 = 1", "group 4 = 1"].map(pin);
        let one = Some(WorkerId(1));
        assert_eq!(
            steps(&[stays, goes, moves], &[stays, moved, comes]),
            [(goes.what, None), (moved.what, one), (comes.what, one)]
        );
    }

    #[test]
    fn a_step_that_waits_holds_back_no_other_and_a_later_word_on_the_same_replaces_it() {
        let [first, second] = [FlowGroup(1), FlowGroup(2)].map(Pinned::Group);
        let (one, mut pins) = (Some(WorkerId(1)), Pins::default());
        pins.want(vec![(first, one)]);
        pins.want(vec![(second, None)]);
        pins.step_waits();
        assert_eq!(pins.next_step(), Some((second, None)));
        pins.step_is_over();
        assert_eq!((pins.next_step(), pins.pending()), (Some((first, one)), 1));
        pins.want(vec![(first, None)]);
        assert_eq!((pins.next_step(), pins.pending()), (Some((first, None)), 1));
    }
}
