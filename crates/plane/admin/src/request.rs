//! What a client may ask for.

use serde::{Deserialize, Serialize};

use crate::capture::CaptureRequest;

/// One line from a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`crate::VERSION`].
    pub v: u32,
    /// The application that the command is about, by name; `None`: the daemon's own workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// What is asked for.
    #[serde(flatten)]
    pub command: Command,
}

impl Request {
    /// A request in the version that this crate speaks, about the daemon itself.
    pub fn new(command: Command) -> Self {
        Self { v: crate::VERSION, app: None, command }
    }

    /// A request in the version that this crate speaks, about an application.
    pub fn about(app: &str, command: Command) -> Self {
        Self { v: crate::VERSION, app: Some(app.to_owned()), command }
    }
}

/// What is asked for: `{"v":1,"command":"steer_set","policy":"modulo"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Ports, workers, policy, settings.
    Status,
    /// Every counter.
    Stats,
    /// The heaviest flows.
    Flows {
        /// How many, at most.
        count: u32,
    },
    /// The policy, the pins, and how the table is shared out.
    SteerShow,
    /// Another policy decides from now on.
    SteerSet {
        /// Its name.
        policy: String,
    },
    /// The owner table as text.
    SteerExport,
    /// The owner table is to be this one.
    SteerLoad {
        /// As `steer_export` gives it.
        table: String,
    },
    /// A group or a flow stays with a worker.
    SteerPin {
        /// Which.
        target: Target,
        /// With whom.
        worker: u16,
    },
    /// The policy decides again.
    SteerUnpin {
        /// Which.
        target: Target,
    },
    /// How many workers there are to be.
    Workers {
        /// How many.
        count: u16,
    },
    /// The configuration is read again, from where the daemon has it: all that has changed holds
    /// from then on, or nothing.
    Reload,
    /// How urgent an event has to be to be logged, from now on and until the configuration says
    /// otherwise; or, without a level, how urgent now.
    Log {
        /// Of which target; `None`: of all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        /// `off`, `error`, `warn`, `info` or `debug`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
    },
    /// The daemon ends, after everything under way has left.
    Stop,
    /// What the control loop sees: one `sample` after another on this connection, until the client
    /// closes it.
    Watch {
        /// Microseconds between two samples, 50 to 60 000 000.
        every_us: u32,
        /// With the load of the groups, slice by slice, and their owners.
        #[serde(default, skip_serializing_if = "is_false")]
        load: bool,
    },
    /// Groups are to move or to begin somewhere, by an outside controller's will. All of it is
    /// accepted or none; then it is carried out at the next control ticks, as far as it is still
    /// true by then.
    Plan {
        /// Groups with an owner. With `place` 4096, at most.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        moves: Vec<GroupMove>,
        /// Groups that nobody owns.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        place: Vec<GroupPlace>,
        /// How long from now the policy moves nothing by what it observes; 0 gives the lease
        /// back. Without it, a lease stays as it is. It ends with the connection, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease_ms: Option<u32>,
    },
    /// A recording of the control loop: its lines follow on this connection, and then it closes.
    Record {
        /// For how long, 1 to 3600.
        seconds: u32,
    },
    /// Every application, also those that are gone.
    Apps,
    /// All that there is to say about one application.
    Explain,
    /// The application is thrown out.
    Detach,
    /// The cores that are given out: who holds which, and how often they change hands.
    Cores,
    /// Another policy decides from now on who gets cores.
    CoresSet {
        /// Its name.
        policy: String,
    },
    /// The accelerated sockets, of every application or of one, some at a time.
    Sockets {
        /// Where the answer before this one ended: its `next`; 0 begins.
        #[serde(default, skip_serializing_if = "is_zero")]
        from: u64,
        /// How many, 1 to [`crate::SOCKET_ROWS_MAX`].
        count: u32,
    },
    /// The sockets that the kernel has kept, and why.
    Fallbacks,
    /// Where the time of requests goes: one `traced` after another on this connection, until the
    /// client says anything. One client at a time; of all programs with sockets, or of one.
    Trace {
        /// One in this many requests is sampled, 1 to 1 000 000.
        one_in: u32,
    },
    /// Packets of accelerated sockets, both ways: after one answer, a capture follows on this
    /// connection ([`crate::CaptureWriter`]) until a limit is reached or the client says anything.
    Capture(CaptureRequest),
}

impl Command {
    /// As it is written in `command`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Stats => "stats",
            Self::Flows { .. } => "flows",
            Self::SteerShow => "steer_show",
            Self::SteerSet { .. } => "steer_set",
            Self::SteerExport => "steer_export",
            Self::SteerLoad { .. } => "steer_load",
            Self::SteerPin { .. } => "steer_pin",
            Self::SteerUnpin { .. } => "steer_unpin",
            Self::Workers { .. } => "workers",
            Self::Reload => "reload",
            Self::Log { .. } => "log",
            Self::Stop => "stop",
            Self::Watch { .. } => "watch",
            Self::Plan { .. } => "plan",
            Self::Record { .. } => "record",
            Self::Apps => "apps",
            Self::Explain => "explain",
            Self::Detach => "detach",
            Self::Cores => "cores",
            Self::CoresSet { .. } => "cores_set",
            Self::Sockets { .. } => "sockets",
            Self::Fallbacks => "fallbacks",
            Self::Trace { .. } => "trace",
            Self::Capture(_) => "capture",
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A group is to change its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupMove {
    /// Which.
    pub group: u32,
    /// Who owns it now.
    pub from: u16,
    /// Who is to own it.
    pub to: u16,
}

/// A group that nobody owns is to begin with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupPlace {
    /// Which.
    pub group: u32,
    /// Who is to own it.
    pub worker: u16,
}

/// A group by number or a flow by its 5-tuple.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A flow group.
    Group(u32),
    /// A flow, written `udp 10.0.0.1:5000 -> 10.0.0.2:7`.
    Flow(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_app_stands_beside_the_command_and_old_lines_are_about_the_daemon() {
        let old = r#"{"v":1,"command":"steer_set","policy":"modulo"}"#;
        let old: Request = crate::decode(old).expect("version 1");
        assert_eq!(old.app, None);
        let request = Request::about("web", Command::SteerSet { policy: "modulo".to_owned() });
        let line = crate::encode(&request).expect("plain data");
        assert_eq!(line.trim(), r#"{"v":1,"app":"web","command":"steer_set","policy":"modulo"}"#);
        assert_eq!(crate::decode(&line), Ok(request));
    }

    #[test]
    fn a_command_is_called_what_its_line_calls_it() {
        let plan = Command::Plan { moves: Vec::new(), place: Vec::new(), lease_ms: Some(5) };
        let set = Command::CoresSet { policy: "static_set".to_owned() };
        let capture = Command::Capture(CaptureRequest::default());
        let sockets = Command::Sockets { from: 0, count: 1 };
        for command in [
            Command::SteerShow,
            Command::Apps,
            Command::Record { seconds: 2 },
            Command::Fallbacks,
            plan,
            set,
            capture,
            sockets,
        ] {
            let line = crate::encode(&Request::new(command.clone())).expect("plain data");
            let name = command.name();
            assert!(line.contains(&format!(r#""command":"{name}""#)), "{line}");
        }
    }
}
