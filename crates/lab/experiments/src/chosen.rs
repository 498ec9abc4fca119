//! What was chosen for the runs of a figure, as rows of its page: nobody has to look for a value
//! elsewhere.

use report::Parameter;

use crate::experiment::Experiment;
use crate::scenario::Layer;
use crate::setting::{Preset, Rule, Settings, describe};
use crate::sweep::Scenario;

/// More rows than a page takes; the text of the scenario has them all.
const ROWS_MAX: usize = 200;
/// Settings that say the same in another way: where one of the others is there the first has no
/// meaning.
const INSTEAD: &[(&str, &[&str])] = &[("rate", &["load", "loadshift"])];

/// What holds for all series, in the order of the models' own tables, and what the models take for
/// given; then what a panel or a series has different.
pub(crate) fn parameters(scenario: &Scenario) -> Vec<Parameter> {
    let mut models: Vec<&'static Experiment> = vec![scenario.main];
    for series in &scenario.series {
        if !models.iter().any(|model| model.name == series.experiment.name) {
            models.push(series.experiment);
        }
    }
    let mut rows: Vec<Parameter> = Vec::new();
    for &model in &models {
        for rule in model.rules {
            if !rows.iter().any(|known| known.name == rule.key) {
                rows.extend(common(scenario, model, rule));
            }
        }
        rows.extend((model.parameters)(&base(scenario, model)));
    }
    for panel in &scenario.read.panel {
        let name = &panel.name;
        rows.extend(different(scenario, &models, &panel.set, &format!("panel {name}")));
    }
    for (written, series) in scenario.read.series.get_ref().iter().zip(&scenario.series) {
        let models = [series.experiment];
        rows.extend(different(scenario, &models, &written.set, &series.name));
    }
    if rows.len() > ROWS_MAX {
        let left = rows.split_off(ROWS_MAX - 1).len();
        rows.push(row("...".to_owned(), format!("{left} more"), "the scenario's text".to_owned()));
    }
    rows
}

/// What a model is told before a panel or a series changes anything.
fn base(scenario: &Scenario, model: &'static Experiment) -> Settings {
    let mut settings = Settings::defaults(model.rules);
    for (key, written) in &scenario.read.base {
        if let Some(rule) = model.rule(key)
            && let Ok(value) = rule.read(written.get_ref())
        {
            settings.set(rule, value);
        }
    }
    settings
}

/// The row of a setting that all series share: written for all, or what the model has by itself.
fn common(scenario: &Scenario, model: &'static Experiment, rule: &Rule) -> Option<Parameter> {
    let read = &scenario.read;
    if let Some(written) = read.base.get(rule.key) {
        return Some(row(rule.key.to_owned(), shown(written.get_ref()), why(scenario, rule)));
    }
    let default = match rule.default {
        Preset::Nothing => return None,
        Preset::Number(number) => number.to_string(),
        Preset::Word(word) => word.to_owned(),
        Preset::Flag(flag) => flag.to_string(),
    };
    let axes = [&read.x.key, &read.y.key];
    let is_axis = |key: &str| {
        axes.iter().any(|axis| axis.as_ref().is_some_and(|axis| *axis.get_ref() == key))
    };
    let is_said = |key: &str| is_axis(key) || read.base.contains_key(key);
    let instead =
        INSTEAD.iter().filter(|(key, _)| *key == rule.key).flat_map(|(_, others)| *others);
    if is_axis(rule.key) || instead.copied().any(is_said) {
        return None;
    }
    // What each series, or each panel, has of its own is told there.
    let mut of_model = read.series.get_ref().iter().zip(&scenario.series);
    let in_all = of_model.all(|(written, series)| {
        series.experiment.name != model.name || written.set.contains_key(rule.key)
    });
    let in_panels =
        !read.panel.is_empty() && read.panel.iter().all(|panel| panel.set.contains_key(rule.key));
    let source = format!("default ({})", rule.help);
    (!in_all && !in_panels).then(|| row(rule.key.to_owned(), default, source))
}

/// The rows of a panel's or a series' own settings, as far as they are not what all have.
fn different<'a>(
    scenario: &'a Scenario,
    models: &[&'static Experiment],
    layer: &'a Layer,
    whose: &str,
) -> Vec<Parameter> {
    let mut rows = Vec::new();
    for (key, written) in layer {
        let Some(&model) = models.iter().find(|model| model.rule(key).is_some()) else { continue };
        let Some(rule) = model.rule(key) else { continue };
        let is_same = rule
            .read(written.get_ref())
            .is_ok_and(|value| base(scenario, model).get(key) == Some(&value));
        if !is_same {
            let name = format!("{key}: {whose}");
            rows.push(row(name, shown(written.get_ref()), why(scenario, rule)));
        }
    }
    rows
}

fn why(scenario: &Scenario, rule: &Rule) -> String {
    let source = scenario.read.sources.get(rule.key).map(|source| source.get_ref().clone());
    source.unwrap_or_else(|| format!("chosen ({})", rule.help))
}

fn shown(written: &toml::Value) -> String {
    describe(written).trim_matches('"').to_owned()
}

fn row(name: String, value: String, source: String) -> Parameter {
    Parameter { name, value, source }
}
