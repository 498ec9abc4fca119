//! What things cost on another machine than the one that the defaults were measured on.

use std::collections::{BTreeMap, BTreeSet};

use base::Nanos;

use crate::experiment::{self, Experiment, machine};
use crate::setting::{Preset, Rule, Value};

/// Costs by their names, to go before the measured ones and after what a scenario says itself.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    pub(crate) values: BTreeMap<String, toml::Value>,
}

impl Costs {
    /// From a TOML text with a line for each, such as `wake = "21us"`: those of `calisto sim
    /// --settings` that have no default of their own but a measured one.
    ///
    /// # Errors
    /// It is no TOML, or names what is no cost, with what was meant.
    pub fn parse(text: &str) -> Result<Self, String> {
        let values: BTreeMap<String, toml::Value> =
            toml::from_str(text).map_err(|error| error.message().trim().replace('\n', ", "))?;
        let names = names();
        for key in values.keys() {
            if !names.contains(key.as_str()) {
                let meant = config::nearest(key, names.iter().copied());
                let meant = meant.map_or(String::new(), |name| format!("; did you mean {name}?"));
                let all = names.iter().copied().collect::<Vec<_>>().join(", ");
                let key = crate::error::shorten(key);
                return Err(format!("{key} is no cost{meant} There are {all}"));
            }
        }
        Ok(Self { values })
    }

    /// Those of the machine, as times.
    ///
    /// # Errors
    /// One is no time that it could be.
    pub(crate) fn times(&self) -> Result<Vec<(&'static str, Nanos)>, String> {
        let rules = machine::EXPERIMENT.rules.iter();
        let given = rules.filter_map(|rule| Some((rule, self.values.get(rule.key)?)));
        let time = |(rule, value): (&'static Rule, &toml::Value)| match rule.read(value)? {
            Value::Number(micros) => Ok((rule.key, Nanos((micros * 1e3).round() as u64))),
            _ => Err(format!("{} is no time", rule.key)),
        };
        given.map(time).collect()
    }
}

/// The keys of all models that are costs: each has a help, and a value of its own only where
/// a scenario or a file of costs gives it one.
fn names() -> BTreeSet<&'static str> {
    experiment::EXPERIMENTS.iter().flat_map(|experiment| of(experiment)).collect()
}

/// Those of one model.
pub(crate) fn of(model: &'static Experiment) -> impl Iterator<Item = &'static str> {
    // What else has no default is a choice, and no cost.
    const CHOICES: [&str; 4] = ["load", "loadshift", "quantum", "full_from"];
    let open = model.rules.iter().filter(|rule| matches!(rule.default, Preset::Nothing));
    open.map(|rule| rule.key).filter(|key| !CHOICES.contains(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    const TEXT: &str = r#"
name = "own"
title = "t"
source = "s"
text = "x"
experiment = "plant"
x = { label = "load", key = "rate", values = [1000] }
y = { label = "p99", unit = "us", value = "p99_us" }
[[series]]
name = "measured"
label = "Measured"
[[series]]
name = "told"
label = "Told"
set = { wake = "5us" }
"#;

    #[test]
    fn what_a_machine_costs_replaces_what_was_measured_here_and_not_what_a_scenario_says() {
        let costs = Costs::parse("wake = \"21us\"\nscan_item = \"2.5ns\"\n").expect("two costs");
        let scenario = Scenario::parse_with(TEXT, &costs).expect("it is sound");
        let wake = |series: usize| scenario.series[series].settings[0].maybe("wake");
        assert_eq!((wake(0), wake(1)), (Some(21.0), Some(5.0)));
        let bare = Scenario::parse(TEXT).expect("it is sound");
        assert_eq!(bare.series[0].settings[0].maybe("wake"), None);
    }

    #[test]
    fn what_is_no_cost_is_refused_with_the_one_that_was_meant() {
        let refused = Costs::parse("weak = 3").expect_err("no such cost");
        assert!(refused.contains("weak is no cost") && refused.contains("wake"), "{refused}");
        for choice in ["flows = 3", "quantum = 5", "wake ="] {
            assert!(Costs::parse(choice).is_err(), "{choice}");
        }
        let costs = Costs::parse("wake = \"soon\"").expect("its name is right");
        let says = Scenario::parse_with(TEXT, &costs).expect_err("no time").to_string();
        assert!(says.contains("of the costs given") && says.contains("wake"), "{says}");
    }

    #[test]
    fn every_model_with_costs_has_some_that_can_be_given() {
        let names = names();
        for name in ["dispatch", "packet", "scan_look", "scan_wake", "request_warm"] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
    }
}
