//! What daemons and clients of versions before say is still understood, and says the same: fields
//! are only ever added.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Reply, Request, decode, encode};

/// Each version with an example of every request and every reply. One is added when a version is
/// tagged; none is ever changed afterwards.
const VERSIONS: [(&str, &str); 1] = [("0.1.0", include_str!("../compatibility/0.1.0.jsonl"))];

/// Where `new` lacks something that `old` says, if anywhere.
fn lost(path: &str, old: &Value, new: &Value) -> Option<String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => old.iter().find_map(|(key, old)| {
            let path = format!("{path}.{key}");
            match new.get(key) {
                Some(new) => lost(&path, old, new),
                None => Some(path),
            }
        }),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let pairs = old.iter().zip(new).enumerate();
            pairs.into_iter().find_map(|(at, (old, new))| lost(&format!("{path}[{at}]"), old, new))
        }
        _ => (old != new).then(|| format!("{path}: {old} is {new}")),
    }
}

/// The line as this version writes what it has read.
fn again<T: DeserializeOwned + Serialize>(line: &str) -> Value {
    let message: T = decode(line).unwrap_or_else(|error| panic!("{error}\n{line}"));
    let line = encode(&message).expect("it was just read");
    serde_json::from_str(&line).expect("it was just written")
}

#[test]
fn a_client_and_a_daemon_of_versions_before_are_understood_and_told_all_that_they_know() {
    for (version, lines) in VERSIONS {
        let mut count = 0;
        for line in lines.lines() {
            let old: Value = serde_json::from_str(line).expect(line);
            let new = if old.get("command").is_some() {
                let request: Request = decode(line).expect(line);
                assert_eq!(request.check(), Ok(()), "{version}: {line}");
                again::<Request>(line)
            } else {
                again::<Reply>(line)
            };
            assert_eq!(lost("", &old, &new), None, "{version}: {line}");
            count += 1;
        }
        assert!(count >= 60, "{version} has {count} lines");
    }
}

#[test]
fn what_is_lost_is_found_wherever_it_was() {
    let value = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
    let old = value(r#"{"a": [{"b": 1}], "c": "x"}"#);
    for (new, says) in [
        (r#"{"a": [{"b": 1, "new": 2}], "c": "x", "d": null}"#, None),
        (r#"{"a": [{}], "c": "x"}"#, Some(".a[0].b")),
        (r#"{"a": [], "c": "x"}"#, Some(".a: [{\"b\":1}] is []")),
        (r#"{"a": [{"b": "1"}], "c": "x"}"#, Some(".a[0].b: 1 is \"1\"")),
    ] {
        assert_eq!(lost("", &old, &value(new)).as_deref(), says, "{new}");
    }
}
