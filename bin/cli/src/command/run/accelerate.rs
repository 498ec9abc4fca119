//! Starts a program whose sockets the data plane serves: says what stands in the way, and becomes
//! it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use admin::{Command as Question, ReplyBody};
use attach::Link;
use clap::ValueEnum;
use doctor::{Finding, Level};
use serde::Serialize;
use sys::pidfd::PidFd;

use super::library;
use super::obstacle::{NO_DAEMON, Obstacle};
use super::program_file::{self, NotRun, Runner};
use crate::daemon::Daemon;
use crate::failure::{Failure, NO_PROGRAM_CODE, NOT_RUN_CODE};
use crate::target::default_socket;

/// Of the JSON; a reader that knows another one should not guess.
const SCHEMA_VERSION: u32 = 1;
/// What tells the library its profile.
const PROFILE_VARIABLE: &str = "CALISTO_PROFILE";
/// Names the daemon's admin socket, if it is not where it belongs.
const ADMIN_VARIABLE: &str = "CALISTO_ADMIN";
const LOADER_VARIABLE: &str = "LD_PRELOAD";

/// How a program is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Profile {
    /// Whoever waits looks again for some microseconds before it sleeps.
    Latency,
    /// The program sleeps at once, and more is done when it wakes.
    Throughput,
    /// Nobody ever waits on a CPU.
    Safe,
}

impl Profile {
    /// What was said, what the environment says, or `latency`.
    pub(crate) fn choose(said: Option<Self>, variable: Option<OsString>) -> Result<Self, Failure> {
        let Some(variable) = variable.filter(|value| said.is_none() && !value.is_empty()) else {
            return Ok(said.unwrap_or(Self::Latency));
        };
        let value = variable.to_string_lossy();
        Self::from_str(&value, false).map_err(|_| {
            Failure::usage(format!(
                "{PROFILE_VARIABLE} is {value:?}: `latency`, `throughput` and `safe` are possible"
            ))
        })
    }

    /// From the environment.
    pub(crate) fn of_environment(said: Option<Self>) -> Result<Self, Failure> {
        Self::choose(said, std::env::var_os(PROFILE_VARIABLE))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Safe => "safe",
        }
    }
}

/// What would happen.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    schema_version: u32,
    /// The program, then who interprets it.
    files: Vec<PathBuf>,
    is_accelerated: bool,
    profile: Profile,
    /// The daemon's socket for programs.
    socket: PathBuf,
    library: Option<PathBuf>,
    obstacles: Vec<Reason>,
    /// What may stand in the way, and could not be seen.
    doubts: Vec<Reason>,
    /// The daemon's process, where the kernel tells it.
    #[serde(skip)]
    daemon: Option<u32>,
}

/// Why it is not accelerated.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Reason {
    name: Cow<'static, str>,
    message: String,
}

/// Why there is no plan: as shells say it.
#[derive(Debug)]
pub(crate) struct NotThere {
    exit_code: u8,
    sentence: String,
}

impl Plan {
    /// Looks at the program, the library and the daemon.
    pub(crate) fn make(
        command: &[OsString],
        profile: Profile,
        socket: Option<&Path>,
    ) -> Result<Self, NotThere> {
        let runner = Runner {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        };
        let path = std::env::var_os("PATH");
        let looked = program_file::look(command, path.as_deref(), runner)
            .map_err(|error| NotThere::of(command, &error))?;
        let mut obstacles: Vec<Obstacle> = looked.obstacle.into_iter().collect();
        let library = match library::find_ours() {
            Ok(library) => Some(library),
            Err(obstacle) => {
                obstacles.push(obstacle);
                None
            }
        };
        let socket = socket_of(socket, calisto_client::default_socket);
        let daemon = match Link::connect(&socket) {
            Ok(link) => PidFd::of_peer(link.as_fd()).ok().map(|process| process.pid()),
            Err(error) => {
                obstacles.push(Obstacle::Daemon(error.to_string()));
                None
            }
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            files: looked.files,
            is_accelerated: obstacles.is_empty(),
            profile,
            socket,
            library,
            obstacles: obstacles.iter().map(Reason::of).collect(),
            doubts: Vec::new(),
            daemon,
        })
    }

    /// The same, with what the machine has about it. A program that is started does not need this:
    /// the daemon looks then, for each socket, and the machine may be another by the time.
    pub(crate) fn on_this_machine(self) -> Self {
        // Without a daemon nobody can say in which namespace there would be one.
        let is_one = !self.obstacles.iter().any(|reason| reason.name == NO_DAEMON);
        let found = if is_one { doctor::look_for_program(self.daemon) } else { Vec::new() };
        let plan = self.with_findings(found);
        match plan.daemon {
            Some(daemon) => plan.with_job(job_of(daemon).as_deref()),
            None => plan,
        }
    }

    /// The same, with what the daemon's workers do, if it is known.
    fn with_job(mut self, job: Option<&str>) -> Self {
        match job {
            Some("sockets") => {}
            Some(job) => self.obstacles.push(Reason {
                name: "no_sockets".into(),
                message: format!(
                    "the workers of the daemon have the job {job:?}, and serve no sockets: start it \
                     without --listen, or with --job sockets"
                ),
            }),
            None => self.doubts.push(Reason {
                name: "job".into(),
                message: "whether the daemon serves sockets could not be asked: root sees it in \
                          `calisto status`"
                    .to_owned(),
            }),
        }
        self.is_accelerated = self.obstacles.is_empty();
        self
    }

    fn with_findings(mut self, found: Vec<Finding>) -> Self {
        for finding in &found {
            match finding.level {
                Level::Fine => {}
                Level::Note => self.doubts.push(Reason::of_finding(finding)),
                Level::Worse | Level::Missing => self.obstacles.push(Reason::of_finding(finding)),
            }
        }
        self.is_accelerated = self.obstacles.is_empty();
        self
    }

    pub(crate) fn is_accelerated(&self) -> bool {
        self.is_accelerated
    }

    /// What stands in the way, a sentence each, on standard error.
    pub(crate) fn complain(&self, consequence: &str) {
        for Reason { message, .. } in &self.obstacles {
            eprintln!("calisto: {message}: {consequence}");
        }
    }

    /// For people.
    pub(crate) fn render(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for (index, file) in self.files.iter().enumerate() {
            let label = if index == 0 { "program" } else { "run by" };
            let _ = writeln!(text, "{label}  {}", file.display());
        }
        let library = self.library.as_deref().map_or("none".into(), Path::to_string_lossy);
        let _ = writeln!(
            text,
            "library  {library}\nsocket   {}\nprofile  {}",
            self.socket.display(),
            self.profile.name()
        );
        text.push_str(match (self.is_accelerated, self.doubts.is_empty()) {
            (true, true) => "It would be accelerated.\n",
            (true, false) => "It would be accelerated, as far as can be seen:\n",
            (false, _) => "It would run on the kernel's stack, because\n",
        });
        let told = if self.is_accelerated { &self.doubts } else { &self.obstacles };
        for Reason { message, .. } in told {
            let _ = writeln!(text, "  {message}");
        }
        text
    }

    /// Becomes the program: the same process, terminal and signals. Comes back only with why not.
    pub(crate) fn exec(&self, command: &[OsString]) -> NotThere {
        match self.command(command) {
            Ok(mut process) => NotThere::new(command, &process.exec()),
            Err(_) => NotThere::new(command, &io::ErrorKind::InvalidInput.into()),
        }
    }

    /// The program on the kernel's stack, as a child.
    ///
    /// # Errors
    /// No program is named.
    pub(crate) fn command_on_kernel(command: &[OsString]) -> Result<Command, Failure> {
        let (program, words) =
            command.split_first().ok_or_else(|| Failure::usage("name a program to run"))?;
        let mut process = Command::new(program);
        process.args(words);
        Ok(process)
    }

    /// The program as this plan has it, as a child.
    ///
    /// # Errors
    /// As for [`Self::command_on_kernel`].
    pub(crate) fn command(&self, command: &[OsString]) -> Result<Command, Failure> {
        let mut process = Self::command_on_kernel(command)?;
        // A program that cannot use the library does not get it: musl's loader would not start it.
        if let Some(library) = self.library.as_deref().filter(|_| self.is_accelerated) {
            let there = std::env::var_os(LOADER_VARIABLE);
            process.env(LOADER_VARIABLE, library::preload(there, library));
            process.env(calisto_client::SOCKET_VARIABLE, &self.socket);
            process.env(PROFILE_VARIABLE, self.profile.name());
        }
        Ok(process)
    }
}

/// What the workers of that daemon do, if it answers us and is the one whose admin socket we know.
fn job_of(daemon: u32) -> Option<String> {
    let socket = std::env::var_os(ADMIN_VARIABLE).map_or_else(default_socket, PathBuf::from);
    match Daemon::at(socket).ask(Question::Status) {
        Ok(ReplyBody::Status(status)) if status.pid == daemon => Some(status.job),
        _ => None,
    }
}

impl Reason {
    fn of(obstacle: &Obstacle) -> Self {
        Self { name: obstacle.word().into(), message: obstacle.to_string() }
    }

    fn of_finding(finding: &Finding) -> Self {
        let Finding { subject, what, cost, mend, .. } = finding;
        let mut message = format!("{subject} {what}");
        for part in [cost, mend].into_iter().flatten() {
            message += &format!("; {part}");
        }
        Self { name: subject.replace(' ', "_").into(), message }
    }
}

impl NotThere {
    fn of(command: &[OsString], why: &NotRun) -> Self {
        match why {
            NotRun::Program(error) => Self::new(command, error),
            NotRun::Interpreter { interpreter, script, error } => Self {
                exit_code: NOT_RUN_CODE,
                sentence: format!(
                    "cannot start `{}`: its first line names `{}` to run it: {error}; install that, or \
                     change the line",
                    script.display(),
                    interpreter.display()
                ),
            },
        }
    }

    fn new(command: &[OsString], error: &io::Error) -> Self {
        let program = command.first().cloned().unwrap_or_default();
        let program = program.to_string_lossy();
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        Self {
            exit_code: if is_missing { NO_PROGRAM_CODE } else { NOT_RUN_CODE },
            sentence: format!("cannot start `{program}`: {error}; say its path, or install it"),
        }
    }

    /// Says it, and gives the exit code.
    pub(crate) fn say(&self) -> u8 {
        eprintln!("calisto: {}", self.sentence);
        self.exit_code
    }
}

/// The daemon's socket: as said, by the environment, or where it is by default. The program may go
/// to another folder before it looks.
fn socket_of(said: Option<&Path>, otherwise: impl Fn() -> PathBuf) -> PathBuf {
    let socket = said.map_or_else(otherwise, Path::to_owned);
    std::path::absolute(&socket).unwrap_or(socket)
}

#[cfg(test)]
mod tests;
