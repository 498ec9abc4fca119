//! The parent of a job's program: it outlives a runner that is killed, and then sees to it that
//! nothing stays frozen, pinned or behind.
//!
//! The runner starts it; it starts the program, passes signals on, and ends as the program ended.
//! It does nothing in between. When the runner dies first, the kernel says so by a signal
//! (PR_SET_PDEATHSIG), and the program is killed as the runner was. When the guardian is killed,
//! the program is too, by the same means, and the runner does the cleaning. Only if both are killed
//! at once may a frozen grandchild stay behind.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command};

use base::Nanos;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use sys::child::{self, Start};
use sys::cpu_set::CpuSet;
use sys::signal_fd::{Received, SignalFd};
use sys::{poll, process_tree};

use super::job::Job;
use crate::failure::{Failure, NO_PROGRAM_CODE, NOT_RUN_CODE};

/// Signals that the program gets when we get them. Those of the keyboard it gets anyway.
pub(super) const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// A group's name for none.
const NO_GROUP: &str = "-";

/// The words by which a runner tells it what to do.
pub(crate) fn words(place: &CpuSet, job: &Job) -> [OsString; 3] {
    let group = job.group().map_or_else(|| NO_GROUP.into(), |path| path.as_os_str().to_owned());
    [place.to_string().into(), job.original().to_string().into(), group]
}

/// The parent of one program.
#[derive(Debug)]
pub(crate) struct Guardian<'a> {
    command: &'a [OsString],
    place: CpuSet,
    job: Job,
    runner: Option<Pid>,
    signals: SignalFd,
}

impl<'a> Guardian<'a> {
    /// With the words that [`words`] made of it.
    pub(crate) fn new(words: &[String], command: &'a [OsString]) -> Result<Self, Failure> {
        let [place, original, group] = words else {
            return Err(Failure::usage("only `calisto run --batch` starts a guardian"));
        };
        let cpus = |text: &str| text.parse::<CpuSet>().map_err(Failure::usage);
        let group = (group != NO_GROUP).then(|| Path::new(group));
        let mut held_back = vec![Signal::CHILD];
        held_back.extend(PASSED_ON);
        Ok(Self {
            command,
            place: cpus(place)?,
            job: Job::shared(group, cpus(original)?),
            runner: rustix::process::getppid(),
            signals: SignalFd::new(&held_back).map_err(Failure::new)?,
        })
    }

    /// Starts the program and waits for its end: its exit code, or 128 and its signal.
    pub(crate) fn run(self) -> Result<u8, Failure> {
        process_tree::adopt_orphans().map_err(Failure::new)?;
        let code = match self.start() {
            Ok(program) => self.watch(&program),
            Err(error) => {
                let program = self.command.first().cloned().unwrap_or_default();
                let program = program.to_string_lossy();
                eprintln!(
                    "calisto: cannot start `{program}`: {error}; say its path, or install it"
                );
                if error.kind() == io::ErrorKind::NotFound { NO_PROGRAM_CODE } else { NOT_RUN_CODE }
            }
        };
        self.job.release();
        Ok(code)
    }

    fn start(&self) -> io::Result<Child> {
        let (program, words) = self.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(words);
        let start = Start {
            idle: true,
            cpus: Some(self.place),
            parent_death: Some(Signal::KILL),
            mask: Some(self.signals.mask_without()),
            group: self.job.freezer().entrance()?,
        };
        child::prepare(&mut command, start);
        let program = command.spawn()?;
        child::leave_streams()?;
        Ok(program)
    }

    /// Passes signals on until the program has ended.
    fn watch(&self, program: &Child) -> u8 {
        let pid = Pid::from_raw(program.id().cast_signed());
        let send = |signal| {
            // It is our child, and we have not waited for it: the number is still its own.
            pid.map(|pid| rustix::process::kill_process(pid, signal));
        };
        loop {
            poll::wait_readable(self.signals.as_fd(), Nanos::FAR_FUTURE);
            while let Some(Received { signal, by_process }) = self.signals.take() {
                if rustix::process::getppid() != self.runner {
                    send(Signal::KILL);
                    // One that is frozen may not even die.
                    self.job.set_free();
                } else if signal != Signal::CHILD && by_process {
                    send(signal);
                }
            }
            // Orphans that we adopted are waited for too.
            while let Ok(Some((ended, status))) = rustix::process::wait(WaitOptions::NOHANG) {
                if Some(ended) == pid {
                    return exit_code(status);
                }
            }
        }
    }
}

/// As shells say it.
fn exit_code(status: WaitStatus) -> u8 {
    let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(u8::MAX)
}
