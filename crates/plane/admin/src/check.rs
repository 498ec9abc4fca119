//! Checks requests: version, application and numbers.

use std::fmt;
use std::ops::RangeInclusive;

use crate::{CAPTURE_SNAPLEN, CaptureRequest, Command, Request, SOCKET_ROWS_MAX};

/// Bytes of an application's name, at most.
pub const APP_NAME_BYTES_MAX: usize = 64;
/// Microseconds between two samples: from once a control tick to once a minute.
const EVERY_US: RangeInclusive<u64> = 50..=60_000_000;
/// Seconds of a recording.
const RECORD_SECONDS: RangeInclusive<u64> = 1..=3600;
/// Moves and places that one plan may hold: as many as the control loop keeps.
const PROPOSALS: RangeInclusive<u64> = 0..=4096;
/// Requests of which one is sampled.
const TRACE_ONE_IN: RangeInclusive<u64> = 1..=1_000_000;
/// Bytes kept of a captured packet: its Ethernet header, at least.
const SNAPLEN: RangeInclusive<u64> = 14..=CAPTURE_SNAPLEN as u64;

impl Request {
    /// Checks that version, application and numbers fit the command: for whoever answers requests.
    ///
    /// # Errors
    /// What does not, and what to do.
    pub fn check(&self) -> Result<(), RequestError> {
        if self.v != crate::VERSION {
            return Err(RequestError::Version(self.v));
        }
        let name = self.command.name();
        match (self.command.about(), &self.app) {
            (About::Daemon, Some(_)) => return Err(RequestError::NoApp(name)),
            (About::App, None) => return Err(RequestError::AppMissing(name)),
            (_, Some(app)) if app.is_empty() || app.len() > APP_NAME_BYTES_MAX => {
                return Err(RequestError::AppName(app.len()));
            }
            _ => {}
        }
        let (figure, value, range) = match &self.command {
            Command::Watch { every_us, .. } => ("every_us", u64::from(*every_us), EVERY_US),
            Command::Record { seconds } => ("seconds", u64::from(*seconds), RECORD_SECONDS),
            Command::Plan { moves, place, .. } => {
                ("moves and places together", (moves.len() + place.len()) as u64, PROPOSALS)
            }
            Command::Sockets { count, .. } => {
                ("count", u64::from(*count), 1..=u64::from(SOCKET_ROWS_MAX))
            }
            Command::Trace { one_in } => ("one_in", u64::from(*one_in), TRACE_ONE_IN),
            Command::Capture(CaptureRequest { snaplen: Some(snaplen), .. }) => {
                ("snaplen", u64::from(*snaplen), SNAPLEN)
            }
            _ => return Ok(()),
        };
        if range.contains(&value) {
            return Ok(());
        }
        Err(RequestError::Range { figure, value, range })
    }
}

impl Command {
    fn about(&self) -> About {
        match self {
            Self::Status
            | Self::Stats
            | Self::Stop
            | Self::Reload
            | Self::Log { .. }
            | Self::Apps
            | Self::Cores
            | Self::CoresSet { .. } => About::Daemon,
            Self::Explain | Self::Detach => About::App,
            Self::Flows { .. }
            | Self::SteerShow
            | Self::SteerSet { .. }
            | Self::SteerExport
            | Self::SteerLoad { .. }
            | Self::SteerPin { .. }
            | Self::SteerUnpin { .. }
            | Self::Workers { .. }
            | Self::Watch { .. }
            | Self::Plan { .. }
            | Self::Record { .. }
            | Self::Sockets { .. }
            | Self::Fallbacks
            | Self::Trace { .. }
            | Self::Capture(_) => About::Either,
        }
    }
}

/// Whom a command may be about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    Daemon,
    Either,
    App,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Another version of the protocol.
    Version(u32),
    /// The command is about the daemon, and an application is named.
    NoApp(&'static str),
    /// The command is about an application, and none is named.
    AppMissing(&'static str),
    /// An application's name has this many bytes.
    AppName(usize),
    /// A figure is not possible.
    Range {
        /// Which.
        figure: &'static str,
        /// Its value.
        value: u64,
        /// What is possible.
        range: RangeInclusive<u64>,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "version {version} of the admin protocol is not spoken here; this daemon speaks {}",
                crate::VERSION
            ),
            Self::NoApp(command) => {
                write!(f, "`{command}` is about the daemon: leave `app` out")
            }
            Self::AppMissing(command) => write!(
                f,
                "`{command}` is about an application: name it in `app`; see `calisto apps`"
            ),
            Self::AppName(bytes) => write!(
                f,
                "an application's name has 1 to {} bytes, not {bytes}; see `calisto apps`",
                APP_NAME_BYTES_MAX
            ),
            Self::Range { figure, value, range } => write!(
                f,
                "`{figure}` is {value}: {} to {} are possible",
                range.start(),
                range.end()
            ),
        }
    }
}

impl std::error::Error for RequestError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupMove;

    fn wrong(request: &Request) -> String {
        request.check().expect_err("it cannot be meant").to_string()
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can() {
        let sentence = wrong(&Request::about("web", Command::Stop));
        assert!(sentence.contains("`stop` is about the daemon"), "{sentence}");
        let sentence = wrong(&Request::new(Command::Explain));
        assert!(sentence.contains("name it in `app`"), "{sentence}");
        let sentence = wrong(&Request::about("", Command::Explain));
        assert!(sentence.contains("1 to 64 bytes, not 0"), "{sentence}");
        let sentence = wrong(&Request::new(Command::Watch { every_us: 1, load: false }));
        assert!(sentence.contains("`every_us` is 1: 50 to 60000000"), "{sentence}");
        let sentence = wrong(&Request::new(Command::Record { seconds: 0 }));
        assert!(sentence.contains("1 to 3600"), "{sentence}");
        let moves = vec![GroupMove { group: 0, from: 0, to: 1 }; 4097];
        let plan = Command::Plan { moves, place: Vec::new(), lease_ms: None };
        let sentence = wrong(&Request::new(plan));
        assert!(sentence.contains("is 4097: 0 to 4096"), "{sentence}");
        let sentence = wrong(&Request::new(Command::Sockets { from: 0, count: 4097 }));
        assert!(sentence.contains("`count` is 4097: 1 to 4096"), "{sentence}");
        let headless = CaptureRequest { snaplen: Some(13), ..CaptureRequest::default() };
        let sentence = wrong(&Request::about("web", Command::Capture(headless)));
        assert!(sentence.contains("`snaplen` is 13: 14 to 65535"), "{sentence}");
        let sentence = wrong(&Request { v: 2, app: None, command: Command::Status });
        assert!(sentence.contains("this daemon speaks 1"), "{sentence}");
        for right in [
            Request::new(Command::Status),
            Request::new(Command::SteerShow),
            Request::about("web", Command::SteerShow),
            Request::about("web", Command::Detach),
        ] {
            assert_eq!(right.check(), Ok(()));
        }
    }
}
