//! `docs/reference/admin-protocol.md` says what this crate does: every example of it is read, and
//! every command and every reply has one.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Reply, Request, decode, encode};

const DOCUMENT: &str = include_str!("../../../../docs/reference/admin-protocol.md");

/// The lines of all ```json blocks.
fn examples() -> Vec<&'static str> {
    let mut examples = Vec::new();
    let mut inside = false;
    for line in DOCUMENT.lines() {
        match line {
            "```json" => inside = true,
            "```" => inside = false,
            _ if inside => examples.push(line),
            _ => {}
        }
    }
    examples
}

fn kind<'a>(example: &'a Value, key: &str) -> Option<&'a str> {
    example.get(key).and_then(Value::as_str)
}

/// Reads the line and writes it again: a field that nobody reads would be missing.
fn read_and_written<T: DeserializeOwned + Serialize>(line: &str) -> Value {
    let message: T = decode(line).unwrap_or_else(|error| panic!("{error}\n{line}"));
    let line = encode(&message).expect("it was just read");
    serde_json::from_str(&line).expect("it was just written")
}

#[test]
fn every_example_is_a_message_without_a_field_that_nobody_reads() {
    assert!(examples().len() > 30, "{}", examples().len());
    for line in examples() {
        let example: Value = serde_json::from_str(line).expect(line);
        let again = if kind(&example, "command").is_some() {
            let request: Request = decode(line).expect(line);
            assert_eq!(request.check(), Ok(()), "{line}");
            read_and_written::<Request>(line)
        } else {
            read_and_written::<Reply>(line)
        };
        assert_eq!(example, again);
    }
}

/// What there is, by the message of serde for what there is not.
fn kinds<T: DeserializeOwned>(nonsense: &str) -> BTreeSet<String> {
    let error = decode::<T>(nonsense).err().expect("there is no such kind").to_string();
    let (_, list) = error.split_once("expected one of ").expect("serde lists them");
    let names = list.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

#[test]
fn every_command_and_every_reply_has_an_example() {
    let has = |key| -> BTreeSet<String> {
        let kinds = examples().into_iter().filter_map(|line| {
            let example: Value = serde_json::from_str(line).expect(line);
            kind(&example, key).map(str::to_owned)
        });
        kinds.collect()
    };
    let commands = kinds::<Request>(r#"{"v":1,"command":"nonsense"}"#);
    assert!(commands.contains("steer_set") && commands.len() >= 17, "{commands:?}");
    assert_eq!(has("command"), commands);
    let replies = kinds::<Reply>(r#"{"v":1,"reply":"nonsense"}"#);
    assert!(replies.contains("done") && replies.len() >= 10, "{replies:?}");
    assert_eq!(has("reply"), replies);
}

#[test]
fn every_command_has_a_heading_of_its_name() {
    for command in kinds::<Request>(r#"{"v":1,"command":"nonsense"}"#) {
        assert!(DOCUMENT.contains(&format!("### `{command}`\n")), "{command}");
    }
}
