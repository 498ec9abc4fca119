//! What a reader with the token may ask the page's server to change.

use admin::Command;
use serde::Deserialize;

/// One change: `{"change":"steer","policy":"sticky"}`. The daemon checks the values.
#[derive(Debug, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Change {
    /// Another policy decides which worker owns which flow.
    Steer {
        /// Its name.
        policy: String,
    },
    /// Another policy decides who gets cores.
    Cores {
        /// Its name.
        policy: String,
    },
    /// Another number of workers.
    Workers {
        /// How many.
        count: u16,
    },
}

impl From<Change> for Command {
    fn from(change: Change) -> Self {
        match change {
            Change::Steer { policy } => Self::SteerSet { policy },
            Change::Cores { policy } => Self::CoresSet { policy },
            Change::Workers { count } => Self::Workers { count },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_than_these_three_can_be_asked() {
        let parsed = |text: &str| serde_json::from_str::<Change>(text).map(Command::from);
        let workers = parsed(r#"{"change":"workers","count":3}"#).expect("it is one of them");
        assert_eq!(workers, Command::Workers { count: 3 });
        for other in [
            r#"{"change":"stop"}"#,
            r#"{"change":"workers"}"#,
            r#"{"change":"workers","count":-1}"#,
            r#"{"change":"steer","policy":"modulo","app":"other"}"#,
            r#"{"command":"stop"}"#,
        ] {
            assert!(parsed(other).is_err(), "{other}");
        }
    }
}
