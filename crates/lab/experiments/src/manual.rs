//! What a scenario may say: the models and their settings, as a page for people.

use std::fmt::Write;

use serde::Serialize;

use crate::experiment::{EXPERIMENTS, Experiment};
use crate::setting::{Preset, Rule};

/// Every model with its settings, what each may hold, and what comes out.
pub fn text() -> String {
    let mut text = String::new();
    for experiment in EXPERIMENTS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "experiment = \"{}\"\n  {}\n", experiment.name, experiment.help);
        for rule in experiment.rules {
            let default = match rule.default {
                Preset::Nothing => String::new(),
                Preset::Number(number) => format!(" [{number}]"),
                Preset::Word(word) => format!(" [\"{word}\"]"),
                Preset::Flag(flag) => format!(" [{flag}]"),
            };
            let _ = writeln!(
                text,
                "  {:14}{}{default}\n  {:14}  {}",
                rule.key, rule.help, "", rule.kind
            );
        }
        let _ = writeln!(text, "\n  values: {}\n", experiment.values.join(", "));
    }
    text
}

/// A model, for programs.
#[derive(Debug, Serialize)]
pub struct Model {
    experiment: &'static str,
    help: &'static str,
    settings: Vec<Setting>,
    /// What comes out.
    values: Vec<&'static str>,
}

/// A setting of a model.
#[derive(Debug, Serialize)]
struct Setting {
    key: &'static str,
    help: &'static str,
    /// What it may hold, in words.
    holds: String,
    /// What it holds by itself; `null`: nothing, and its help says what that means.
    default: Option<Held>,
}

/// A number, a word or a flag, as JSON has them.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Held {
    Number(f64),
    Word(&'static str),
    Flag(bool),
}

/// The same as [`text`], for programs.
pub fn models() -> Vec<Model> {
    let setting = |rule: &Rule| Setting {
        key: rule.key,
        help: rule.help,
        holds: rule.kind.to_string(),
        default: match rule.default {
            Preset::Nothing => None,
            Preset::Number(number) => Some(Held::Number(number)),
            Preset::Word(word) => Some(Held::Word(word)),
            Preset::Flag(flag) => Some(Held::Flag(flag)),
        },
    };
    let model = |experiment: &&Experiment| Model {
        experiment: experiment.name,
        help: experiment.help,
        settings: experiment.rules.iter().map(setting).collect(),
        values: experiment.values.to_vec(),
    };
    EXPERIMENTS.iter().map(model).collect()
}
