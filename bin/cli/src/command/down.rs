//! `calisto down`: ends the daemon after everything under way has left.

use std::time::{Duration, Instant};

use admin::{Command, ReplyBody};
use clap::Args;
use sys::pidfd::PidFd;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::target::Admin;
use crate::turn::Turn;

/// What a daemon takes to end besides the time that sockets have to close: packets under way leave
/// (0.5 s), threads and ports end.
const END_MAX: Duration = Duration::from_secs(10);

/// Whoever waits for longer is told what for.
const QUIET: Duration = Duration::from_secs(2);

/// Time between two looks at whether it has ended.
const EVERY: Duration = Duration::from_millis(10);

/// End the daemon and wait until it is gone; what is under way leaves first, and traffic returns to
/// Linux.
///
/// A second one, while the first waits, ends it at once. While the daemon is being replaced it is
/// refused: it would reset connections.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto down\n  \
    calisto down --no-wait                                return when it has begun to end")]
pub(crate) struct Down {
    /// Ask only, and do not wait until the daemon has ended.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    admin: Admin,
}

impl Down {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        // Held until this ends.
        let _turn = Turn::to_end(&self.admin.socket)?;
        if self.no_wait {
            daemon.tell(Command::Stop)?;
            return output::done("the daemon is ending", json);
        }
        let process = daemon.process()?;
        daemon.tell(Command::Stop)?;
        // One that does not answer any more waits for no socket.
        let drain = match daemon.ask(Command::Status) {
            Ok(ReplyBody::Status(status)) => status.draining_ms.unwrap_or_default(),
            _ => 0,
        };
        let bound = Duration::from_millis(drain) + END_MAX;
        wait(&process, bound, QUIET, |line| eprintln!("calisto: {line}"))?;
        output::done("the daemon has ended", json)
    }
}

/// Waits until `process` has ended, for at most `bound`; after `quiet` it tells what it waits for.
fn wait(
    process: &PidFd,
    bound: Duration,
    quiet: Duration,
    mut tell: impl FnMut(String),
) -> Result<(), Failure> {
    let (began, pid) = (Instant::now(), process.pid());
    let mut is_told = false;
    while !process.is_dead() {
        let waited = began.elapsed();
        if waited >= bound {
            return Err(Failure::new(format!(
                "the daemon, process {pid}, was asked to end and has not within {} s: see what it \
                 printed last; `kill {pid}` hurries it, and `kill -9 {pid}` ends it at once",
                bound.as_secs()
            )));
        }
        if waited >= quiet && !is_told {
            is_told = true;
            tell(format!(
                "the daemon, process {pid}, lets sockets of programs close and packets under way \
                 leave, for at most {} s more; `kill {pid}` hurries it",
                (bound - waited).as_secs()
            ));
        }
        std::thread::sleep(EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Command as Program, Stdio};

    use super::*;

    #[test]
    fn it_waits_until_the_process_has_ended_and_says_what_for() {
        let mut child = Program::new("cat").stdin(Stdio::piped()).spawn().expect("cat is there");
        let process = PidFd::open(child.id()).expect("it is our child");
        let mut told = Vec::new();
        let failure = wait(&process, EVERY, Duration::ZERO, |line| told.push(line))
            .expect_err("nobody has ended it");
        let pid = child.id();
        assert!(failure.to_string().contains(&format!("`kill {pid}` hurries it")), "{failure}");
        assert_eq!(failure.exit_code(), 1);
        assert!(told.len() == 1 && told[0].contains(&format!("process {pid}")), "{told:?}");
        drop(child.stdin.take());
        let long = Duration::from_secs(600);
        assert_eq!(wait(&process, long, long, |line| panic!("{line}")), Ok(()));
        child.wait().expect("it is our child");
    }
}
