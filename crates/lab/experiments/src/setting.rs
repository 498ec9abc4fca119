//! What an experiment can be told: keys, what each may hold, and what it holds when nobody says.

use std::collections::BTreeMap;
use std::fmt;

use base::Nanos;
use sim::Level;

use crate::error::shorten;

/// Stretches of load in a text: more would be a file, not a setting.
const SHIFTS_MAX: usize = 1000;

/// What a key may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// One of these that is a power of two.
    PowerOfTwo(u64, u64),
    /// Any number from the first to the second.
    Number(f64, f64),
    /// Requests a second: a number, or as the load generator's `--rate`: `20k`, `1.5M`.
    Rate(f64, f64),
    /// Microseconds: a number, or as the load generator writes times: `800ns`, `10us`, `5ms`.
    Time(f64, f64),
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
    /// `true` or `false`.
    Flag,
    /// Loads one after the other, as in `--loadshift`: `rate:time,rate:time`.
    Shifts,
}

/// A key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    /// What it holds when nobody says anything.
    pub(crate) default: Preset,
    /// What it is, in a line.
    pub(crate) help: &'static str,
}

/// A key of that kind, with what it holds by itself and what it is.
pub(crate) const fn rule(
    key: &'static str,
    kind: Kind,
    default: Preset,
    help: &'static str,
) -> Rule {
    Rule { key, kind, default, help }
}

/// What a key holds by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preset {
    /// Nothing: its help says what that means.
    Nothing,
    Number(f64),
    Word(&'static str),
    Flag(bool),
}

/// A stretch of time with one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shift {
    pub(crate) rate: f64,
    pub(crate) length: Nanos,
}

/// What a key holds; times are microseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Word(String),
    Flag(bool),
    Shifts(Vec<Shift>),
}

impl Rule {
    /// The value that somebody wrote, if the key may hold it.
    pub(crate) fn read(&self, written: &toml::Value) -> Result<Value, String> {
        self.kind.read(written).ok_or_else(|| {
            let meant = match (self.kind, written) {
                (Kind::Word(words), toml::Value::String(word)) => config::nearest(word, words()),
                _ => None,
            };
            let meant = meant.map_or(String::new(), |word| format!(" (did you mean \"{word}\"?)"));
            format!("`{}` is {}; allowed is {}{meant}", self.key, describe(written), self.kind)
        })
    }

    /// The same for a number of a sweep.
    pub(crate) fn number(&self, number: f64) -> Result<Value, String> {
        let whole = number.fract() == 0.0 && number.abs() < 9e15;
        let written =
            if whole { toml::Value::Integer(number as i64) } else { toml::Value::Float(number) };
        self.read(&written)
    }
}

impl Kind {
    fn read(self, written: &toml::Value) -> Option<Value> {
        let number = match written {
            toml::Value::Integer(number) => Some(*number as f64),
            toml::Value::Float(number) if number.is_finite() => Some(*number),
            _ => None,
        };
        let text = written.as_str();
        let within = |number: f64, min: f64, max: f64| {
            (min..=max).contains(&number).then_some(Value::Number(number))
        };
        match self {
            Self::Whole(min, max) => {
                let whole = number.filter(|number| number.fract() == 0.0)?;
                within(whole, min as f64, max as f64)
            }
            Self::PowerOfTwo(min, max) => {
                let whole = number.filter(|number| number.fract() == 0.0 && *number >= 1.0)?;
                (whole as u64).is_power_of_two().then(|| within(whole, min as f64, max as f64))?
            }
            Self::Number(min, max) => within(number?, min, max),
            Self::Rate(min, max) => {
                let rate = number.or_else(|| load::parse_rate(text?).ok())?;
                within(rate, min, max)
            }
            Self::Time(min, max) => within(number.or_else(|| micros(text?))?, min, max),
            Self::Word(words) => {
                let word = text.filter(|word| words().contains(word))?;
                Some(Value::Word(word.to_owned()))
            }
            Self::Flag => written.as_bool().map(Value::Flag),
            Self::Shifts => shifts(text?).map(Value::Shifts),
        }
    }
}

fn micros(text: &str) -> Option<f64> {
    load::parse_duration(text).ok().map(|nanos| nanos.0 as f64 / 1e3)
}

fn shifts(text: &str) -> Option<Vec<Shift>> {
    let shifts: Option<Vec<Shift>> = text
        .split(',')
        .map(|part| {
            let (rate, length) = part.trim().split_once(':')?;
            let rate = if rate == "0" { 0.0 } else { load::parse_rate(rate).ok()? };
            let length = load::parse_duration(length).ok()?;
            let is_length = (1_000..=600_000_000_000).contains(&length.0);
            is_length.then_some(Shift { rate, length })
        })
        .collect();
    shifts.filter(|shifts| (1..=SHIFTS_MAX).contains(&shifts.len()))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::PowerOfTwo(min, max) => write!(f, "a power of two from {min} to {max}"),
            Self::Number(min, max) => write!(f, "a number from {min} to {max}"),
            Self::Rate(min, max) => {
                write!(f, "a rate from {min} to {max} a second, such as \"20k\" or \"1.5M\"")
            }
            Self::Time(min, max) => write!(
                f,
                "a time from {min} to {max} microseconds, such as \"800ns\", \"10us\" or \"5ms\""
            ),
            Self::Word(words) => {
                let words: Vec<String> = words().iter().map(|word| format!("\"{word}\"")).collect();
                write!(f, "one of {}", words.join(", "))
            }
            Self::Flag => f.write_str("true or false"),
            Self::Shifts => write!(
                f,
                "up to {SHIFTS_MAX} loads with their times from 1us to 600s, such as \
                 \"20k:10ms,500k:5ms\""
            ),
        }
    }
}

/// A value as a person would name it.
pub(crate) fn describe(written: &toml::Value) -> String {
    match written {
        toml::Value::String(text) => format!("\"{}\"", shorten(text)),
        toml::Value::Array(items) => format!("an array of {}", items.len()),
        toml::Value::Table(_) => "a table".to_owned(),
        other => shorten(&other.to_string()),
    }
}

/// What an experiment is told: a value for each of its keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, Value>,
    /// A cost that is at one end of its range, whatever the run's level.
    pinned: Option<(&'static str, Level)>,
}

impl Settings {
    /// What holds when nobody says anything.
    pub(crate) fn defaults(rules: &[Rule]) -> Self {
        let mut settings = Self::default();
        for rule in rules {
            let value = match rule.default {
                Preset::Nothing => continue,
                Preset::Number(number) => Value::Number(number),
                Preset::Word(word) => Value::Word(word.to_owned()),
                Preset::Flag(flag) => Value::Flag(flag),
            };
            settings.set(rule, value);
        }
        settings
    }

    pub(crate) fn set(&mut self, rule: &Rule, value: Value) {
        self.values.insert(rule.key, value);
    }

    /// Puts a cost at one end of what was measured.
    pub(crate) fn pin(&mut self, key: &'static str, level: Level) {
        self.pinned = Some((key, level));
    }

    /// At which end of what was measured a cost is, if at one by itself.
    pub(crate) fn pinned(&self, key: &str) -> Option<Level> {
        self.pinned.filter(|(pinned, _)| *pinned == key).map(|(_, level)| level)
    }

    /// What a key holds, if it holds anything.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// The number that a key holds, if it holds one.
    pub(crate) fn maybe(&self, key: &str) -> Option<f64> {
        match self.values.get(key) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The number that a key with a default holds.
    pub(crate) fn number(&self, key: &str) -> f64 {
        self.maybe(key).expect("its rule has a default, and is about numbers")
    }

    /// The same, where it is whole.
    pub(crate) fn whole(&self, key: &str) -> u64 {
        self.number(key) as u64
    }

    /// The same, where it is a time.
    pub(crate) fn time(&self, key: &str) -> Nanos {
        nanos(self.number(key))
    }

    /// The same, where it is a time that need not be there.
    pub(crate) fn maybe_time(&self, key: &str) -> Option<Nanos> {
        self.maybe(key).map(nanos)
    }

    /// The word that a key with a default holds.
    pub(crate) fn word(&self, key: &str) -> &str {
        match self.values.get(key) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    /// Whether a flag is set.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.values.get(key), Some(Value::Flag(true)))
    }

    /// The loads that a key holds; none when nobody said any.
    pub(crate) fn shifts(&self, key: &str) -> &[Shift] {
        match self.values.get(key) {
            Some(Value::Shifts(shifts)) => shifts,
            _ => &[],
        }
    }
}

fn nanos(micros: f64) -> Nanos {
    Nanos((micros * 1e3).round() as u64)
}
