//! One event: when, how urgent, about what, a sentence and fields; and how it is written.

use std::fmt::{Debug, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};

use super::time::rfc3339;

/// Characters of an event's sentence and of each of its fields, at most.
const CHARS_MAX: usize = 2000;

/// Where in the code an event comes from, which says what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: &'static str,
    pub(super) line: u32,
    pub(super) level: Level,
    pub(super) target: &'static str,
}

pub(super) struct Event {
    at: SystemTime,
    pub(super) place: Place,
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Event {
    /// One of this module's own.
    pub(super) fn new(level: Level, target: &'static str, message: String) -> Self {
        let place = Place { file: file!(), line: line!(), level, target };
        Self::of(place, message)
    }

    pub(super) fn of(place: Place, message: String) -> Self {
        Self { at: SystemTime::now(), place, message, fields: Vec::new() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// One that somebody said, of a target of ours.
    pub(super) fn read(event: &tracing::Event<'_>) -> Self {
        let metadata: &'static Metadata<'static> = event.metadata();
        let place = Place {
            file: metadata.file().unwrap_or_default(),
            line: metadata.line().unwrap_or_default(),
            level: *metadata.level(),
            target: metadata.target(),
        };
        let mut read = Self::of(place, String::new());
        event.record(&mut read);
        read
    }

    /// What happened, with its fields.
    pub(super) fn sentence(&self) -> String {
        let mut sentence = self.message.clone();
        for (name, value) in &self.fields {
            let written = match value {
                Value::String(text) => write!(sentence, " {name}={text:?}"),
                value => write!(sentence, " {name}={value}"),
            };
            written.expect("a string takes all that is written");
        }
        sentence
    }

    /// A line for people.
    pub(super) fn text(&self) -> String {
        let Place { level, target, .. } = self.place;
        let (time, level) = (self.time(), name(level));
        format!("{time} {level} {target}: {}\n", base::printable(&self.sentence(), CHARS_MAX))
    }

    /// An object a line: `time`, `level`, `target`, `message`, and `fields` where there are any.
    pub(super) fn json(&self) -> String {
        let mut object = Map::new();
        let Place { level, target, .. } = self.place;
        object.insert("time".to_owned(), self.time().into());
        object.insert("level".to_owned(), name(level).into());
        object.insert("target".to_owned(), target.into());
        object.insert("message".to_owned(), base::printable(&self.message, CHARS_MAX).into());
        if !self.fields.is_empty() {
            let named = |(name, value): &(&str, Value)| ((*name).to_owned(), value.clone());
            let fields: Map<String, Value> = self.fields.iter().map(named).collect();
            object.insert("fields".to_owned(), fields.into());
        }
        format!("{}\n", Value::Object(object))
    }

    /// A datagram of systemd's "Native Journal Protocol": a `NAME=value` a line.
    pub(super) fn journal(&self) -> String {
        // syslog(3): from the most urgent on.
        let priority = match self.place.level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        let mut datagram = format!(
            "PRIORITY={priority}\nSYSLOG_IDENTIFIER=calistod\nCALISTO_TARGET={}\n\
             CODE_FILE={}\nCODE_LINE={}\nMESSAGE={}\n",
            self.place.target,
            self.place.file,
            self.place.line,
            base::printable(&self.sentence(), CHARS_MAX)
        );
        for (name, value) in &self.fields {
            let name = name.to_uppercase();
            let value = match value {
                Value::String(text) => base::printable(text, CHARS_MAX),
                value => value.to_string(),
            };
            writeln!(datagram, "CALISTO_{name}={value}").expect("a string takes all");
        }
        datagram
    }

    fn time(&self) -> String {
        rfc3339(self.at.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl Visit for Event {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.record_str(field, &text);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.fields.push((field.name(), base::printable(value, CHARS_MAX).into()));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), value.into()));
    }
}

/// The word for a level in `[log]`.
fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        _ => "debug",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn event(message: &str) -> Event {
        let mut event = Event::new(Level::WARN, "ports", message.to_owned());
        event.at = UNIX_EPOCH + Duration::from_millis(1_795_423_636_007);
        event.with("port", "xdp:eth1\n").with("tries", 3)
    }

    #[test]
    fn a_line_has_its_time_in_utc_its_level_its_target_and_its_fields() {
        let line = event("x\ny").text();
        let expected = "2026-11-23T08:47:16.007Z warn ports: x\\ny port=\"xdp:eth1\\n\" tries=3\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn an_object_is_a_line_whatever_is_in_it() {
        let line = event("x\ny \"{").json();
        assert_eq!(line.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&line).expect("an object");
        assert_eq!(read["time"], "2026-11-23T08:47:16.007Z");
        assert_eq!((&read["level"], &read["target"]), (&"warn".into(), &"ports".into()));
        assert_eq!(read["message"], "x\\ny \"{");
        assert_eq!(read["fields"], serde_json::json!({"port": "xdp:eth1\n", "tries": 3}));
    }

    #[test]
    fn no_sentence_can_add_a_field_to_the_journal() {
        let datagram = event("x\nPRIORITY=0").journal();
        assert!(datagram.starts_with("PRIORITY=4\n"), "{datagram}");
        assert!(datagram.contains("\nMESSAGE=x\\nPRIORITY=0 port="), "{datagram}");
        assert!(datagram.contains("\nCALISTO_PORT=xdp:eth1\\n\nCALISTO_TRIES=3\n"), "{datagram}");
    }
}
