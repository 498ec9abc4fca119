//! What every scenario promises, what is refused, and that parts make the whole.

mod claimed;
mod merged;
mod refused;
mod results;
mod verdicts;

use std::sync::Arc;
use std::time::Duration;

use report::{Claim, Line, PointLine};

use crate::{Options, Run, Scenario, Shard, library, store};

/// A scenario that is run in no time.
const SMALL: &str = r#"
name = "small"
title = "A queue"
source = "theory"
text = "One server, two ways to name its load."
experiment = "station"
seed = 3

[x]
label = "Load"
unit = "kpps"
key = "rate"
factor = 1000.0
values = [10, 50, 90]

[y]
label = "Mean"
unit = "us"
value = "mean_us"

[base]
cores = 1
mean = "10us"
packets = 2000

[sources]
mean = "chosen"

[[panel]]
name = "left"
[[panel]]
name = "right"
set = { distribution = "exponential" }

[[series]]
name = "one"
label = "One"

[[series]]
name = "two"
label = "Two servers"
set = { cores = 2 }

[[paper]]
name = "one-theory"
label = "Theory"
origin = "theory"
points = [[50, 15]]

[[claim]]
claim = "Two are better than one"
source = "everybody"
relation = "lower"
series = "two"
than = "one"
from = 50
"#;

fn options(threads: usize, shard: Shard) -> Options {
    Options { seed: None, shard, threads, quick: true, runs: 1 }
}

/// All lines of a run.
fn lines(scenario: Scenario, options: Options) -> Vec<Line> {
    let mut run = Run::start(Arc::new(scenario), options).expect("a thread can be started");
    while run.wait(Duration::from_secs(60)).expect("every job can be done") {}
    run.lines("calisto sim it")
}

fn points(lines: &[Line]) -> Vec<&PointLine> {
    lines
        .iter()
        .filter_map(|line| match line {
            Line::Point(point) => Some(point),
            _ => None,
        })
        .collect()
}

fn claims(lines: &[Line]) -> Vec<&Claim> {
    lines
        .iter()
        .filter_map(|line| match line {
            Line::Claim(claim) => Some(claim),
            _ => None,
        })
        .collect()
}

/// A figure that comes along at some places of its axis, with other settings for those models that
/// have them.
fn cut(name: &str, x: &[f64], set: &[(&str, f64)]) -> Scenario {
    let mut scenario = library::find(name).expect("it is there");
    scenario.axes.x = x.to_vec();
    for series in &mut scenario.series {
        for (key, value) in set {
            let Some(rule) = series.experiment.rule(key) else { continue };
            let value = rule.number(*value).expect("the rule lets it pass");
            series.settings.iter_mut().for_each(|settings| settings.set(rule, value.clone()));
        }
    }
    scenario
}

fn small() -> Scenario {
    Scenario::parse(SMALL).expect("it is sound")
}

#[test]
fn every_scenario_that_comes_along_is_sound_and_bears_its_name() {
    let mut orders = Vec::new();
    for (name, _) in library::SCENARIOS {
        let scenario = library::find(name).expect("it is sound");
        assert_eq!(scenario.name(), *name);
        orders.push(scenario.order());
    }
    let mut sorted = orders.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(orders, sorted, "each has a place of its own, in the order of the list");
}

#[test]
fn texts_name_the_numbers_that_their_runs_have() {
    let text = |name: &str| library::find(name).expect("it is there").read.text;
    let apps = &library::find("apps").expect("it is there").series[0].settings[0];
    let exponent = format!("exponent {}", apps.number("apps_zipf"));
    assert!(text("apps").contains(&exponent), "{exponent}");
    let cold = sim::model::Costs::default().cold.median.0;
    assert!(text("calisto-penalty").contains(&format!("{cold} ns, as measured")), "{cold}");
}

#[test]
fn every_default_is_a_value_that_its_own_rule_lets_pass() {
    use crate::setting::Preset;
    for experiment in crate::experiment::EXPERIMENTS {
        for rule in experiment.rules {
            let written = match rule.default {
                Preset::Nothing => continue,
                Preset::Number(number) => toml::Value::Float(number),
                Preset::Word(word) => toml::Value::String(word.to_owned()),
                Preset::Flag(flag) => toml::Value::Boolean(flag),
            };
            rule.read(&written).unwrap_or_else(|says| panic!("{}: {says}", experiment.name));
        }
    }
}

#[test]
fn the_manual_names_every_setting_with_its_range() {
    let text = crate::manual::text();
    for experiment in crate::experiment::EXPERIMENTS {
        assert!(text.contains(&format!("experiment = \"{}\"", experiment.name)));
        for rule in experiment.rules {
            assert!(
                text.contains(rule.key) && text.contains(&rule.kind.to_string()),
                "{}",
                rule.key
            );
        }
    }
}

#[test]
fn a_figure_that_is_not_there_is_answered_with_the_nearest_one() {
    let says = library::find("callisto-6").expect_err("there is none");
    assert!(says.contains("did you mean calisto-6?"), "{says}");
    assert_eq!(store::file_name("map", "2/3".parse().expect("a shard")), "map.shard-2-of-3.jsonl");
}
