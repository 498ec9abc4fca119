//! A run of the program: from its start to its end, with the signals that it is meant to get.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use base::Nanos;
use rustix::process::{Pid, Signal};
use serde::Serialize;
use sys::child::{self, Start};
use sys::signal_fd::{Received, SignalFd};
use sys::{clock, poll};

use crate::failure::Failure;

/// Time between two looks at what the daemon has of it.
const LOOK_EVERY: Nanos = Nanos::from_millis(200);

/// Signals that a program gets when we get them. Those of the keyboard it gets anyway.
const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Turn {
    pub(super) exit_code: u8,
    pub(super) wall_seconds: f64,
    /// Of the program and of all that it has waited for.
    pub(super) cpu_seconds: f64,
}

/// Runs programs one after another.
#[derive(Debug)]
pub(super) struct Turns {
    signals: SignalFd,
}

impl Turns {
    pub(super) fn new() -> Result<Self, Failure> {
        let mut held_back = vec![Signal::CHILD];
        held_back.extend(PASSED_ON);
        Ok(Self { signals: SignalFd::new(&held_back).map_err(Failure::new)? })
    }

    /// Runs it to its end, and calls `look` now and then meanwhile.
    pub(super) fn play(
        &self,
        mut command: Command,
        mut look: impl FnMut(),
    ) -> Result<Turn, Failure> {
        let start = Start { mask: Some(self.signals.mask_without()), ..Start::default() };
        child::prepare(&mut command, start);
        let (begun, before) = (clock::now(), child::cpu_time_of_ended());
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .spawn()
            .map_err(|error| Failure::new(format!("cannot start `{program}`: {error}")))?;
        let pid = Pid::from_raw(child.id().cast_signed());
        loop {
            poll::wait_readable(self.signals.as_fd(), LOOK_EVERY);
            while let Some(Received { signal, by_process }) = self.signals.take() {
                if signal != Signal::CHILD && by_process {
                    // One that ends at once has its sockets for the last time now.
                    look();
                    // It is our child, and we have not waited for it: the number is still its own.
                    pid.map(|pid| rustix::process::kill_process(pid, signal));
                }
            }
            look();
            if let Some(status) = child.try_wait().map_err(Failure::new)? {
                return Ok(Turn {
                    exit_code: exit_code(status),
                    wall_seconds: clock::now().since(begun).as_secs_f64(),
                    cpu_seconds: child::cpu_time_of_ended().since(before).as_secs_f64(),
                });
            }
        }
    }
}

/// As shells say it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_time_its_cpu_time_and_its_exit_code() {
        let turns = Turns::new().expect("signals can be held back");
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3"]);
        let mut looks = 0;
        let turn = turns.play(command, || looks += 1).expect("a shell is everywhere");
        assert_eq!(turn.exit_code, 3);
        assert!(turn.cpu_seconds > 0.0 && turn.wall_seconds > 0.0 && looks > 0, "{turn:?}");
        let none = turns.play(Command::new("/nowhere/program"), || ());
        assert!(none.expect_err("there is none").to_string().contains("/nowhere/program"));
    }
}
