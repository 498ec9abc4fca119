//! A server's process: what it says, whether it still is there, and its end.

use std::fs::File;
use std::process::{Command, Stdio};

use base::Nanos;
use rustix::process::Signal;
use testbed::ScratchDir;

use crate::error::{Error, OrNeeds};
use crate::process::{Process, cpu_time};

/// What it said last, for an error.
const TAIL_LINES: usize = 4;

/// A process with everything that it starts; ended when dropped.
pub(crate) struct Running {
    process: Process,
    folder: ScratchDir,
}

impl Running {
    /// Starts it; it inherits `cpu`, and so does whatever it starts.
    pub(crate) fn start(mut command: Command, cpu: usize) -> Result<Self, Error> {
        let folder = ScratchDir::new("server").or_needs("folder for a log")?;
        let log = File::create(folder.path().join("log")).or_needs("log of a server")?;
        let errors = log.try_clone().or_needs("log of a server")?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        Ok(Self { process: Process::start(command, cpu)?, folder })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// An error if it has ended: with what it said.
    pub(crate) fn unless_ended(&mut self) -> Result<(), Error> {
        match self.process.ended()? {
            None => Ok(()),
            Some(status) => {
                Err(format!("it ended ({status}) and said: {}", self.said())).or_needs("server")
            }
        }
    }

    /// The last lines of its output.
    pub(crate) fn said(&self) -> String {
        tail(&self.log())
    }

    /// All of its output so far.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> Result<bool, Error> {
        Ok(self.process.ended()?.is_some())
    }

    /// CPU time of it and of the processes below it.
    pub(crate) fn cpu_time(&self) -> Result<Nanos, Error> {
        let mut total = cpu_time(self.pid())?;
        sys::process_tree::each_process(self.pid(), |process| {
            // One that has ended meanwhile has had none worth speaking of.
            total += cpu_time(process.pid()).unwrap_or(Nanos::ZERO);
        });
        Ok(total)
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "nothing".to_owned();
    }
    lines[lines.len().saturating_sub(TAIL_LINES)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Longer than any of them takes.
    const TIMEOUT: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::start(command, crate::place::Cpus::choose().server).expect("there is a shell")
    }

    #[test]
    fn one_that_ends_by_itself_is_quoted() {
        let mut running = shell("echo one; echo 'no such option' >&2; exit 3");
        let began = Instant::now();
        let told = loop {
            match running.unless_ended() {
                Err(error) => break error.to_string(),
                Ok(()) => assert!(began.elapsed() < TIMEOUT, "it ends at once"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(told.contains("one / no such option"), "{told}");
    }

    #[test]
    fn a_dropped_one_is_gone_and_its_children_count_while_it_lives() {
        let running = shell("(while :; do :; done) & trap 'kill $!; exit' TERM; wait");
        let began = Instant::now();
        while running.cpu_time().expect("it is there") < Nanos::from_millis(20) {
            assert!(began.elapsed() < TIMEOUT, "its child spins");
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = running.pid();
        drop(running);
        assert!(cpu_time(pid).is_err());
    }

    #[test]
    fn only_the_last_lines_are_quoted() {
        assert_eq!(tail("a\n\nb\nc\nd\ne\n"), "b / c / d / e");
        assert_eq!(tail("\n"), "nothing");
    }
}
