//! A process that is told things and answers, a line each.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::ending::end;
use crate::error::{Error, OrNeeds};
use crate::place::on_cpu;

/// Ended when dropped.
pub(super) struct Talker {
    child: Child,
    /// It ends with it, if it reads at all.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Talker {
    /// Starts it; it inherits `cpu`.
    pub(super) fn start(mut command: Command, cpu: usize) -> Result<Self, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A process inherits the CPU of the thread that starts it.
        let mut child = on_cpu(cpu, || command.spawn().or_needs("second process"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or("it has no output").or_needs("second process")?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Tells it something.
    pub(super) fn say(&mut self, line: &str) -> Result<(), Error> {
        let input = self.input.as_mut().ok_or("it has no input").or_needs("second process")?;
        writeln!(input, "{line}").or_needs("second process that listens")
    }

    /// Waits for its next line; an empty one when it has ended.
    pub(super) fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.output.read_line(&mut line).or_needs("words of a second process")?;
        Ok(line.trim_end().to_owned())
    }

    /// An error if it has ended.
    pub(super) fn unless_ended(&mut self) -> Result<(), Error> {
        match self.child.try_wait().or_needs("state of a second process")? {
            None => Ok(()),
            Some(status) => Err(format!("it ended ({status})")).or_needs("second process"),
        }
    }

    /// Asks it to end, by a signal.
    pub(super) fn ask_to_end(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        drop(self.input.take());
        end(&mut self.child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Talker {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Talker::start(command, crate::place::Cpus::choose().client).expect("there is a shell")
    }

    #[test]
    fn it_answers_and_its_end_is_an_empty_line() {
        let mut talker = shell("read a; echo got $a; read b; echo $b too");
        assert!(talker.unless_ended().is_ok());
        talker.say("this").expect("it listens");
        assert_eq!(talker.line().expect("it answers"), "got this");
        talker.say("that").expect("it listens");
        assert_eq!(talker.line().expect("it answers"), "that too");
        assert_eq!(talker.line().expect("it has ended"), "");
    }

    #[test]
    fn one_that_is_asked_to_end_may_have_a_last_word() {
        let mut talker = shell("trap 'echo bye; exit' TERM; echo on; while :; do sleep 0.01; done");
        assert_eq!(talker.line().expect("it is there"), "on");
        talker.ask_to_end();
        assert_eq!(talker.line().expect("it says it"), "bye");
    }
}
