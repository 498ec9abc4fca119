//! Holds a scenario's text against what its experiment can be told.

mod claims;

use std::collections::BTreeMap;

use report::{Error, Kind, Report};
use toml::Spanned;

use crate::error::{ScenarioError, line_of, shorten};
use crate::experiment::{self, Experiment};
use crate::lines;
use crate::own_costs::Costs;
use crate::points;
use crate::scenario::{Layer, Over, SeriesText, Text};
use crate::setting::{Settings, Value};
use crate::sweep::{Axes, Scenario, Series};

/// More is no scenario.
const BYTES_MAX: usize = 256 << 10;
/// Values of an axis, series, panels.
const VALUES_MAX: usize = 1000;
const SERIES_MAX: usize = 32;
const PANELS_MAX: usize = 16;
/// Points of a whole figure.
const POINTS_MAX: usize = 50_000;

/// Reads a scenario.
pub(crate) fn parse(text: &str, costs: &Costs) -> Result<Scenario, ScenarioError> {
    if text.len() > BYTES_MAX {
        return Err(ScenarioError::new(
            None,
            format!("a scenario is no longer than {BYTES_MAX} bytes, and this has {}", text.len()),
        ));
    }
    let read = toml::from_str(text).map_err(|error| refused(text, &error))?;
    Reader { text, costs: &costs.values }.scenario(read)
}

/// What serde refuses, said as a sentence.
fn refused(text: &str, error: &toml::de::Error) -> ScenarioError {
    let line = error.span().map(|span| line_of(text, span.start));
    let message = error.message().trim().replace('\n', ", ");
    let message = without_types(&message);
    let mut words = message.split('`').skip(1).step_by(2);
    let sentence = match words.next() {
        Some(field) if message.starts_with("missing field") => format!("`{field}` is missing"),
        Some(wrong) if message.starts_with("unknown") => {
            let there: Vec<&str> = words.collect();
            let what = if message.starts_with("unknown field") { "field" } else { "word" };
            let meant = config::nearest(wrong, there.iter().copied());
            let meant = meant.map_or(String::new(), |word| format!("did you mean `{word}`? "));
            let wrong = shorten(wrong);
            format!("there is no {what} `{wrong}` here; {meant}there are {}", there.join(", "))
        }
        _ => {
            let written = line.and_then(|line| text.lines().nth(line - 1)).unwrap_or("");
            match written.split_once('=') {
                Some((key, _)) => format!("`{}` cannot be read: {message}", shorten(key.trim())),
                None => format!("this cannot be read: {message}"),
            }
        }
    };
    ScenarioError::new(line, sentence)
}

/// What serde says without the names that a type has in the code.
fn without_types(message: &str) -> String {
    let mut plain = message.to_owned();
    for (kind, word) in [("struct", "a table"), ("enum", "a word")] {
        let Some((before, after)) = plain.split_once(&format!("expected {kind} ")) else {
            continue;
        };
        let rest = after.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
        plain = format!("{before}expected {word}{rest}");
    }
    plain
}

struct Reader<'a> {
    text: &'a str,
    /// What things cost on the reader's machine; what a scenario says itself goes before it.
    costs: &'a BTreeMap<String, toml::Value>,
}

impl Reader<'_> {
    fn error<T>(&self, place: &Spanned<T>, sentence: impl Into<String>) -> ScenarioError {
        ScenarioError::new(Some(line_of(self.text, place.span().start)), sentence)
    }

    fn scenario(&self, read: Text) -> Result<Scenario, ScenarioError> {
        self.word(&read.name, "-")?;
        let main = self.experiment(&read.experiment)?;
        let axes = self.axes(&read)?;
        let panels = self.panels(&read)?;
        let count = read.series.get_ref().len();
        if !(1..=SERIES_MAX).contains(&count) {
            let sentence = format!("there are {count} `[[series]]`; allowed are 1 to {SERIES_MAX}");
            return Err(self.error(&read.series, sentence));
        }
        let experiments = read.series.get_ref().iter().map(|series| {
            series.experiment.as_ref().map_or(Ok(main), |named| self.experiment(named))
        });
        let experiments: Vec<&'static Experiment> = experiments.collect::<Result<_, _>>()?;
        self.common(&read, &experiments)?;
        let mut series = Vec::new();
        for (written, &experiment) in read.series.get_ref().iter().zip(&experiments) {
            self.word(&written.name, "-_")?;
            let names = || series.iter().map(|one: &Series| one.name.as_str());
            if names().any(|name| name == written.name.get_ref()) {
                let sentence = format!("two series are called \"{}\"", written.name.get_ref());
                return Err(self.error(&written.name, sentence));
            }
            series.push(self.series(&read, written, experiment, &axes)?);
        }
        self.papers(&read, &panels)?;
        let scenario = Scenario { main, axes, panels, series, read, pinned: None };
        self.claims(&scenario)?;
        self.fits(&scenario)?;
        drawable(&scenario)?;
        Ok(scenario)
    }

    /// A name: lower-case letters, figures and these marks.
    fn word(&self, word: &Spanned<String>, marks: &str) -> Result<(), ScenarioError> {
        let text = word.get_ref();
        let fits = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || marks.contains(letter)
        };
        if (1..=60).contains(&text.len()) && text.chars().all(fits) {
            return Ok(());
        }
        let sentence = format!(
            "`name` is \"{}\"; allowed are 1 to 60 of lower-case letters, figures and {marks}",
            shorten(text)
        );
        Err(self.error(word, sentence))
    }

    fn experiment(&self, name: &Spanned<String>) -> Result<&'static Experiment, ScenarioError> {
        experiment::by_name(name.get_ref()).map_err(|sentence| self.error(name, sentence))
    }

    /// The values of both axes.
    fn axes(&self, read: &Text) -> Result<Axes, ScenarioError> {
        let missing = |what| ScenarioError::new(None, what);
        if read.x.over == Over::Time {
            let written = read.x.values.as_ref().map(Spanned::span);
            if let Some(span) = written {
                let line = line_of(self.text, span.start);
                let sentence = "`x.values` has no meaning where `x.over` is \"time\": remove it";
                return Err(ScenarioError::new(Some(line), sentence));
            }
        } else if read.x.key.is_none() || read.x.values.is_none() {
            return Err(missing(
                "`x.key` and `x.values` are missing: which setting goes through which values, such as \
                 key = \"rate\" and values = [1000, 2000]",
            ));
        }
        if let Some(key) = &read.x.key
            && read.x.over == Over::Steps
            && key.get_ref() != "rate"
        {
            let sentence = format!(
                "`x.key` is \"{}\", but a sweep in one run goes through `rate`: write key = \"rate\", or leave \
                 `x.over` away",
                shorten(key.get_ref())
            );
            return Err(self.error(key, sentence));
        }
        if !(read.x.factor.is_finite() && read.x.factor > 0.0) {
            return Err(missing(
                "`x.factor` is what one unit of the axis is in the setting's: above 0",
            ));
        }
        let is_map = read.kind == Kind::Map;
        if is_map != (read.y.key.is_some() && read.y.values.is_some()) {
            return Err(missing(
                "`y.key` and `y.values` belong to `kind` = \"map\", both, and to no other",
            ));
        }
        if is_map != read.cell.is_some() {
            return Err(missing(
                "`[cell]` says what the values of a map are, and belongs to no other kind",
            ));
        }
        if is_map && read.x.over != Over::Points {
            return Err(missing(
                "a map's cells are runs of their own: `x.over` must be \"points\"",
            ));
        }
        let values = |written: &Option<Spanned<Vec<f64>>>, name| match written {
            None => Ok(Vec::new()),
            Some(values) => self.values(values, name).map(|()| values.get_ref().clone()),
        };
        Ok(Axes { x: values(&read.x.values, "x")?, y: values(&read.y.values, "y")? })
    }

    fn values(&self, values: &Spanned<Vec<f64>>, axis: &str) -> Result<(), ScenarioError> {
        let numbers = values.get_ref();
        if !(1..=VALUES_MAX).contains(&numbers.len()) {
            let sentence = format!(
                "`{axis}.values` has {} values; allowed are 1 to {VALUES_MAX}",
                numbers.len()
            );
            return Err(self.error(values, sentence));
        }
        if let Some(two) =
            numbers.windows(2).find(|two| two[0] < two[1] && is_alike(two[0], two[1]))
        {
            let sentence = format!(
                "`{axis}.values` has {} and {}, which are alike to the six digits that are written",
                two[0], two[1]
            );
            return Err(self.error(values, sentence));
        }
        let rises = numbers.windows(2).all(|two| two[0] < two[1]);
        if !rises || !numbers.iter().all(|number| number.is_finite()) {
            let sentence = format!("`{axis}.values` must be numbers that rise, each once");
            return Err(self.error(values, sentence));
        }
        Ok(())
    }

    fn panels(&self, read: &Text) -> Result<Vec<String>, ScenarioError> {
        let names: Vec<String> = read.panel.iter().map(|panel| panel.name.clone()).collect();
        if names.len() > PANELS_MAX {
            let sentence =
                format!("there are {} `[[panel]]`; allowed are up to {PANELS_MAX}", names.len());
            return Err(ScenarioError::new(None, sentence));
        }
        let twice = |at: usize| names[..at].contains(&names[at]);
        if let Some(at) = (1..names.len()).find(|at| twice(*at)) {
            return Err(ScenarioError::new(
                None,
                format!("two panels are called \"{}\"", names[at]),
            ));
        }
        Ok(if names.is_empty() { vec![String::new()] } else { names })
    }

    /// Whether what is common to all series means something to one of them.
    fn common(&self, read: &Text, all: &[&'static Experiment]) -> Result<(), ScenarioError> {
        let layers = std::iter::once(&read.base).chain(read.panel.iter().map(|panel| &panel.set));
        for (key, value) in layers.flatten() {
            if !all.iter().any(|experiment| experiment.rule(key).is_some()) {
                return Err(self.error(value, unknown(all[0], key)));
            }
        }
        let axes = [read.x.key.as_ref(), read.y.key.as_ref()];
        for key in axes.into_iter().flatten() {
            if !all.iter().any(|experiment| experiment.rule(key.get_ref()).is_some()) {
                return Err(self.error(key, unknown(all[0], key.get_ref())));
            }
        }
        for (key, source) in &read.sources {
            if !all.iter().any(|experiment| experiment.rule(key).is_some()) {
                return Err(self.error(source, unknown(all[0], key)));
            }
        }
        Ok(())
    }

    fn series(
        &self,
        read: &Text,
        written: &SeriesText,
        experiment: &'static Experiment,
        axes: &Axes,
    ) -> Result<Series, ScenarioError> {
        for (key, value) in &written.set {
            if experiment.rule(key).is_none() {
                return Err(self.error(value, unknown(experiment, key)));
            }
        }
        if !experiment.over.contains(&read.x.over) {
            let sentence = format!(
                "the experiment \"{}\" is run point by point: it has no sweep in one run",
                experiment.name
            );
            return Err(self.error(&written.name, sentence));
        }
        let wanted = written.value.as_ref().unwrap_or(&read.y.value);
        let value = self.value(experiment, wanted)?;
        let mut base = Settings::defaults(experiment.rules);
        for (key, value) in self.costs {
            if let Some(rule) = experiment.rule(key) {
                let value = rule.read(value).map_err(|sentence| {
                    ScenarioError::new(None, format!("of the costs given: {sentence}"))
                })?;
                base.set(rule, value);
            }
        }
        self.apply(experiment, &read.base, &mut base)?;
        let panels =
            if read.panel.is_empty() { vec![None] } else { read.panel.iter().map(Some).collect() };
        let settings = panels.into_iter().map(|panel| {
            let mut settings = base.clone();
            if let Some(panel) = panel {
                self.apply(experiment, &panel.set, &mut settings)?;
            }
            self.apply(experiment, &written.set, &mut settings)?;
            Ok(settings)
        });
        let settings = settings.collect::<Result<_, ScenarioError>>()?;
        let read_axis = |key: &Option<Spanned<String>>, values: &[f64], factor: f64| {
            let Some(key) = key else { return Ok(None) };
            // An axis that means nothing to a model would be drawn as a line that does not move.
            let Some(rule) = experiment.rule(key.get_ref()) else {
                return Err(self.error(&written.name, unknown(experiment, key.get_ref())));
            };
            for value in values {
                rule.number(value * factor).map_err(|sentence| self.error(key, sentence))?;
            }
            Ok(Some(rule))
        };
        let x = read_axis(&read.x.key, &axes.x, read.x.factor)?;
        let y = read_axis(&read.y.key, &axes.y, 1.0)?;
        Ok(Series {
            name: written.name.get_ref().clone(),
            label: written.label.clone(),
            origin: written.origin,
            experiment,
            value,
            settings,
            x,
            y,
        })
    }

    fn value(
        &self,
        experiment: &Experiment,
        wanted: &Spanned<String>,
    ) -> Result<&'static str, ScenarioError> {
        let found = experiment.values.iter().find(|value| *value == wanted.get_ref());
        found.copied().ok_or_else(|| {
            let meant = config::nearest(wanted.get_ref(), experiment.values.iter().copied());
            let meant = meant.map_or(String::new(), |value| format!("did you mean \"{value}\"? "));
            let sentence = format!(
                "the experiment \"{}\" gives no value \"{}\"; {meant}there are {}",
                experiment.name,
                shorten(wanted.get_ref()),
                experiment.values.join(", ")
            );
            self.error(wanted, sentence)
        })
    }

    /// Those settings of a layer that the experiment knows.
    fn apply(
        &self,
        experiment: &Experiment,
        layer: &Layer,
        settings: &mut Settings,
    ) -> Result<(), ScenarioError> {
        for (key, written) in layer {
            if let Some(rule) = experiment.rule(key) {
                let value: Value =
                    rule.read(written.get_ref()).map_err(|says| self.error(written, says))?;
                settings.set(rule, value);
            }
        }
        Ok(())
    }
}

/// Whether the page will take what comes out: better before a run than after it.
fn drawable(scenario: &Scenario) -> Result<(), ScenarioError> {
    let refused = match Report::of(lines::all(scenario, "", 0, Vec::new())) {
        Ok(_) => return Ok(()),
        Err(Error::Line { wrong, .. }) => wrong,
        Err(Error::Conflict { what, .. }) => format!("{what}: it is there twice"),
        Err(error) => error.to_string(),
    };
    Err(ScenarioError::new(None, format!("the page cannot show it: {refused}")))
}

fn unknown(experiment: &Experiment, key: &str) -> String {
    let keys = || experiment.rules.iter().map(|rule| rule.key);
    let advice = config::nearest(key, keys()).map_or_else(
        || format!("there are {}", keys().collect::<Vec<_>>().join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    format!("the experiment \"{}\" has no setting `{}`; {advice}", experiment.name, shorten(key))
}

/// Whether two numbers are written alike.
fn is_alike(one: f64, other: f64) -> bool {
    points::rounded(one) == points::rounded(other)
}
