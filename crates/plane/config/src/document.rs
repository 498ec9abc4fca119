//! Holds a TOML text against the table of keys, and reads it.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::Config;
use crate::error::{ConfigError, shorten};
use crate::near::nearest;
use crate::rule::{self, RULES, Rule, TENANT, TENANTS_MAX};
use crate::tenant::Tenant;
use crate::value;

/// Reads a whole configuration, or says everything that is wrong with it, in the order of the text.
pub(crate) fn examine(text: &str) -> Result<Config, Vec<ConfigError>> {
    let document = DeTable::parse(text).map_err(|error| vec![syntax(text, &error)])?;
    let entries = entries(document.get_ref());
    let wrong: Vec<ConfigError> =
        entries.iter().filter_map(|entry| entry.check(text).err()).collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let config: Config = toml::from_str(text).map_err(|error| vec![syntax(text, &error)])?;
    relations(&config).map_err(|(key, says)| {
        // Two keys do not fit together: the line is that of the one named, if it is written.
        let line = entries.iter().find(|entry| entry.path() == key);
        vec![ConfigError::at(line.map(|entry| line_of(text, entry.start)), key, says)]
    })?;
    Ok(config)
}

/// A key and its value where they stand in a text.
pub(crate) struct Entry<'a> {
    pub(crate) start: usize,
    section: &'a str,
    key: &'a str,
    pub(crate) value: &'a DeValue<'a>,
}

impl Entry<'_> {
    pub(crate) fn path(&self) -> String {
        rule::join(self.section, self.key)
    }

    /// Whether there is such a key, and it may hold that value.
    fn check(&self, text: &str) -> Result<(), ConfigError> {
        known(self.section, self.key, self.value)
            .and_then(|rule| value::check(rule, self.value))
            .map_err(|says| ConfigError::at(Some(line_of(text, self.start)), &self.path(), says))
    }
}

/// Every key of a text, in the order of the text. A section that does not exist counts as a key.
pub(crate) fn entries<'a>(document: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for (key, value) in document {
        match value.get_ref() {
            DeValue::Table(section)
                if rule::is_section(key.get_ref()) && key.get_ref() != TENANT =>
            {
                entries.extend(section.iter().map(|inner| entry(key.get_ref(), inner)));
            }
            DeValue::Array(sections) if key.get_ref() == TENANT && are_tables(sections) => {
                let tables = sections.iter().filter_map(|section| section.get_ref().as_table());
                entries.extend(tables.flatten().map(|inner| entry(key.get_ref(), inner)));
            }
            _ => entries.push(entry("", (key, value))),
        }
    }
    entries.sort_by_key(|entry| entry.start);
    entries
}

fn are_tables(values: &[Spanned<DeValue<'_>>]) -> bool {
    values.iter().all(|value| value.get_ref().is_table())
}

fn entry<'a>(
    section: &'a str,
    (key, value): (&'a Spanned<toml::de::DeString<'a>>, &'a Spanned<DeValue<'a>>),
) -> Entry<'a> {
    Entry { start: key.span().start, section, key: key.get_ref(), value: value.get_ref() }
}

/// The rule of a key that a text mentions, or a sentence on what it may have meant.
pub(crate) fn known(
    section: &str,
    key: &str,
    value: &DeValue<'_>,
) -> Result<&'static Rule, String> {
    if let Some(rule) = rule::find(section, key) {
        return Ok(rule);
    }
    let shown = shorten(&rule::join(section, key));
    if section.is_empty() && key == TENANT {
        return Err(format!(
            "there may be several tenants, each with keys of its own: write `[[{TENANT}]]` and below it its keys"
        ));
    }
    if section.is_empty() && rule::is_section(key) {
        return Err(format!(
            "`{key}` is a section, not a key: write `[{key}]` and its keys below it"
        ));
    }
    let is_section = match value {
        DeValue::Table(_) => true,
        DeValue::Array(values) => !values.is_empty() && are_tables(values),
        _ => false,
    };
    if section.is_empty() && is_section {
        let advice = nearest(key, RULES.iter().map(|rule| rule.section))
            .map(|name| match name {
                TENANT => format!("did you mean `[[{TENANT}]]`?"),
                name => format!("did you mean `[{name}]`?"),
            })
            .unwrap_or_else(|| format!("sections are {}", sections().join(", ")));
        return Err(format!("there is no section `[{shown}]`: {advice}"));
    }
    let advice = if let Some(elsewhere) = RULES.iter().find(|rule| rule.key == key) {
        format!("did you mean `{}`?", elsewhere.path())
    } else if let Some(near) = nearest(key, of_section(section).map(|rule| rule.key)) {
        format!("did you mean `{}`?", rule::join(section, near))
    } else if let Some(near) = nearest(key, RULES.iter().map(|rule| rule.key)) {
        let rule = RULES.iter().find(|rule| rule.key == near);
        format!("did you mean `{}`?", rule.map(Rule::path).unwrap_or_default())
    } else if let Some(near) = near_section(section) {
        let keys: Vec<String> = match near == section {
            true => of_section(near).map(|rule| rule.key.to_owned()).collect(),
            false => of_section(near).map(Rule::path).collect(),
        };
        format!("keys there are {}", keys.join(", "))
    } else {
        let keys: Vec<&str> = of_section("").map(|rule| rule.key).collect();
        format!(
            "there is no section `{}` either: sections are {}; keys without one are {}",
            shorten(section),
            sections().join(", "),
            keys.join(", ")
        )
    };
    Err(format!("there is no key `{shown}`: {advice}"))
}

/// The section of that name, or else the one that was probably meant.
fn near_section(section: &str) -> Option<&'static str> {
    let mut names = RULES.iter().map(|rule| rule.section);
    names.find(|name| *name == section).or_else(|| nearest(section, sections()))
}

fn of_section(section: &str) -> impl Iterator<Item = &'static Rule> + '_ {
    RULES.iter().filter(move |rule| rule.section == section)
}

/// Names of sections, each once.
pub(crate) fn sections() -> Vec<&'static str> {
    let mut names: Vec<&str> = RULES.iter().map(|rule| rule.section).collect();
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

/// What must hold between keys: the key to blame and a sentence.
pub(crate) fn relations(config: &Config) -> Result<(), (&'static str, String)> {
    let workers = &config.workers;
    if workers.count > workers.max {
        return Err((
            "workers.count",
            format!(
                "`workers.count` is {}, more than `workers.max`, which is {}: lower the one or raise the other",
                workers.count, workers.max
            ),
        ));
    }
    if config.handover.hold_packets > config.frames.count {
        return Err((
            "handover.hold_packets",
            format!(
                "`handover.hold_packets` is {}, but there are only {} frames (`frames.count`): lower the one or raise the other",
                config.handover.hold_packets, config.frames.count
            ),
        ));
    }
    let state_bytes = u64::from(workers.state_bytes) * u64::from(workers.state_flows);
    if state_bytes > STATE_BYTES_MAX {
        return Err((
            "workers.state_flows",
            format!(
                "`workers.state_bytes` times `workers.state_flows` is {state_bytes} bytes; allowed are {STATE_BYTES_MAX}: lower one of them"
            ),
        ));
    }
    let tcp = &config.tcp;
    if tcp.ring_max_kib < tcp.ring_kib {
        return Err((
            "tcp.ring_max_kib",
            format!(
                "`tcp.ring_max_kib` is {}, less than `tcp.ring_kib`, which is {}: raise the one or lower the other",
                tcp.ring_max_kib, tcp.ring_kib
            ),
        ));
    }
    tenants(&config.tenants)
}

fn tenants(tenants: &[Tenant]) -> Result<(), (&'static str, String)> {
    if tenants.len() > TENANTS_MAX {
        return Err(("tenant.uid", format!("there may be {TENANTS_MAX} tenants at most")));
    }
    for (at, tenant) in tenants.iter().enumerate() {
        let uid = tenant.uid;
        if tenants[..at].iter().any(|earlier| earlier.uid == uid) {
            return Err((
                "tenant.uid",
                format!("two `[[{TENANT}]]` are about user {uid}: remove one"),
            ));
        }
        let chosen = tenant.default_congestion;
        if chosen.is_some_and(|chosen| !tenant.congestion.contains(&chosen)) {
            return Err((
                "tenant.default_congestion",
                format!(
                    "`default_congestion` of the `[[{TENANT}]]` of user {uid} is none of its \
                     `congestion`: add it there, or choose another"
                ),
            ));
        }
    }
    Ok(())
}

/// 64 GiB: more than a misplaced zero should be able to ask for.
const STATE_BYTES_MAX: u64 = 64 << 30;

fn syntax(text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error.span().map(|span| line_of(text, span.start));
    let message = error.message().trim().replace('\n', ", ");
    ConfigError::syntax(line, format!("this is not TOML: {message}"))
}

/// The line, from 1, on which a byte stands.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}
