//! Prints results: text for people, or one JSON value a line.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints `value` as one line of JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string(value).map_err(Failure::new)?;
    line.push('\n');
    text(&line)
}

/// Prints `text` as it is.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(format!("cannot print the result: {error}")))
}

/// Says what has been done: a sentence, or `{"done":"…"}`.
pub fn done(sentence: &str, as_json: bool) -> Result<(), Failure> {
    if as_json {
        json(&serde_json::json!({ "done": sentence }))
    } else {
        text(&format!("{sentence}\n"))
    }
}
