//! Whether a value is one of those that its key may hold.

use toml::de::{DeInteger, DeValue};

use crate::error::shorten;
use crate::near::nearest;
use crate::rule::{CPU_MAX, Kind, Rule, TEXT_BYTES_MAX};
use crate::tenant::Reach;

/// Refuses a value that its key may not hold, with a sentence on what it may.
pub(crate) fn check(rule: &Rule, value: &DeValue<'_>) -> Result<(), String> {
    if fits(rule.kind, value) {
        return Ok(());
    }
    let path = rule.path();
    let meant = match (rule.kind, value) {
        (Kind::Word(words), DeValue::String(word)) => nearest(word, words.iter().copied()),
        _ => None,
    };
    let meant = meant.map_or(String::new(), |word| format!(" (did you mean \"{word}\"?)"));
    Err(format!("`{path}` is {}; allowed is {}{meant}", describe(value), rule.kind))
}

fn fits(kind: Kind, value: &DeValue<'_>) -> bool {
    match (kind, value) {
        (Kind::Flag, DeValue::Boolean(_)) => true,
        (Kind::Range(min, max), DeValue::Integer(number)) => is_within(number, min, max),
        (Kind::PowerOfTwo(min, max), DeValue::Integer(number)) => {
            is_within(number, min, max)
                && whole(number).is_some_and(|number| number.cast_unsigned().is_power_of_two())
        }
        (Kind::Word(words), DeValue::String(word)) => words.contains(&word.as_ref()),
        (Kind::Text(max), DeValue::String(text)) => is_text(text, max),
        (Kind::Texts(max), DeValue::Array(texts)) => {
            texts.len() <= max
                && texts.iter().all(|text| {
                    let text = text.get_ref().as_str();
                    text.is_some_and(|text| is_text(text, TEXT_BYTES_MAX))
                })
        }
        (Kind::Cpus(max), DeValue::Array(cpus)) => {
            cpus.len() <= max
                && cpus.iter().all(|cpu| match cpu.get_ref() {
                    DeValue::Integer(number) => is_within(number, 0, CPU_MAX),
                    _ => false,
                })
        }
        (Kind::Words(words), DeValue::Array(chosen)) => {
            let is_word = |at: usize| {
                let word = chosen[at].get_ref().as_str();
                let is_first = chosen[..at].iter().all(|other| other.get_ref().as_str() != word);
                is_first && word.is_some_and(|word| words.contains(&word))
            };
            !chosen.is_empty() && chosen.len() <= words.len() && (0..chosen.len()).all(is_word)
        }
        (Kind::Reaches(max), DeValue::Array(texts)) => {
            let is_reach =
                |text: &str| text.len() <= TEXT_BYTES_MAX && text.parse::<Reach>().is_ok();
            texts.len() <= max
                && texts.iter().all(|text| text.get_ref().as_str().is_some_and(is_reach))
        }
        (Kind::User, DeValue::String(text)) => text == "*",
        (Kind::User, DeValue::Integer(number)) => is_within(number, 0, i64::from(u32::MAX) - 1),
        _ => false,
    }
}

fn is_within(number: &DeInteger<'_>, min: i64, max: i64) -> bool {
    whole(number).is_some_and(|number| (min..=max).contains(&number))
}

/// The number, if 64 bits hold it.
fn whole(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A zero byte would end a path or a name early, inside the kernel.
fn is_text(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && !text.contains('\0')
}

/// A value as a person would name it.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{}\"", shorten(text)),
        DeValue::Integer(number) => match whole(number) {
            Some(number) => number.to_string(),
            None => shorten(number.as_str()),
        },
        DeValue::Float(number) => shorten(number.as_str()),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(items) => match items.first() {
            // Enough to find it: an array of arrays may be as deep as the text is long.
            Some(first) if items.len() == 1 && !first.get_ref().is_array() => {
                format!("[{}]", describe(first.get_ref()))
            }
            _ => format!("an array of {}", items.len()),
        },
        DeValue::Table(_) => "a table".to_owned(),
    }
}
