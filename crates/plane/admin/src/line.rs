//! A message as a line of text, and back.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a line, at most. The longest honest one is a table of a million groups whose every
/// group is a run of its own: some 20 bytes each.
pub const LINE_BYTES_MAX: usize = 24 << 20;

/// Characters of a sentence about a line, at most.
const SENTENCE_CHARS_MAX: usize = 500;

/// A message as one line, with its newline.
///
/// # Errors
/// The message cannot be written as JSON, which no message of this crate does.
pub fn encode<T: Serialize>(message: &T) -> Result<String, LineError> {
    let mut line = serde_json::to_string(message).map_err(|error| LineError(error.to_string()))?;
    line.push('\n');
    Ok(line)
}

/// The message of a line.
///
/// # Errors
/// What is wrong with the line, in a sentence for its writer.
pub fn decode<T: DeserializeOwned>(line: &str) -> Result<T, LineError> {
    // The error quotes the line, which is a stranger's.
    serde_json::from_str(line.trim_end())
        .map_err(|error| LineError(base::printable(&error.to_string(), SENTENCE_CHARS_MAX)))
}

/// A line is not a message of this protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError(String);

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a message of the admin protocol, version {}: {}", crate::VERSION, self.0)
    }
}

impl std::error::Error for LineError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Reply, ReplyBody, Request, Target};

    #[test]
    fn every_command_survives_its_line() {
        for (command, text) in [
            (Command::Status, r#"{"v":1,"command":"status"}"#),
            (Command::Flows { count: 3 }, r#"{"v":1,"command":"flows","count":3}"#),
            (
                Command::SteerSet { policy: "modulo".to_owned() },
                r#"{"v":1,"command":"steer_set","policy":"modulo"}"#,
            ),
            (
                Command::SteerPin { target: Target::Group(7), worker: 1 },
                r#"{"v":1,"command":"steer_pin","target":{"group":7},"worker":1}"#,
            ),
        ] {
            let request = Request::new(command);
            assert_eq!(encode(&request).expect("it can be written"), format!("{text}\n"));
            assert_eq!(decode::<Request>(text), Ok(request));
        }
        let reply = Reply::new(ReplyBody::Error { message: "no".to_owned() });
        let line = encode(&reply).expect("it can be written");
        assert_eq!(line, "{\"v\":1,\"reply\":\"error\",\"message\":\"no\"}\n");
        assert_eq!(decode::<Reply>(&line), Ok(reply));
    }

    #[test]
    fn what_is_said_of_a_line_is_short_and_no_terminal_acts_on_it() {
        let line = format!(r#"{{"v":1,"command":"\u001b[31m{}"}}"#, "x".repeat(1_000_000));
        let error = decode::<Request>(&line).expect_err("no such command").to_string();
        assert!(error.len() < 700 && !error.chars().any(char::is_control), "{error}");
    }

    #[test]
    fn a_line_that_is_no_message_is_refused_with_a_sentence() {
        for line in
            ["", "{}", "[1,2]", r#"{"v":1,"command":"explode"}"#, r#"{"v":1,"command":"flows"}"#]
        {
            let error = decode::<Request>(line).expect_err(line).to_string();
            assert!(error.contains("admin protocol, version 1"), "{error}");
        }
    }
}
