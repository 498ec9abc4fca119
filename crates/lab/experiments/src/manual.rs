//! What a scenario may say: the models and their settings, as a page for people.

use std::fmt::Write;

use crate::experiment::EXPERIMENTS;
use crate::setting::Preset;

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
