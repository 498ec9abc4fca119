//! Another process of a measurement: started on a CPU, told and heard a line each, ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use base::Nanos;
use rustix::process::{Pid, Signal};

use crate::error::{Error, OrNeeds};
use crate::place::on_cpu;

/// One that was asked to end is killed when it has not ended by then.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Ended when dropped: asked for first, and then made.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts it with the files that `command` has; it inherits `cpu`, and so does what it starts.
    pub(crate) fn start(mut command: Command, cpu: usize) -> Result<Self, Error> {
        // A process inherits the CPU of the thread that starts it.
        let mut child = on_cpu(cpu, || command.spawn().or_needs("second process"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Ok(Self { child, input, output })
    }

    /// Starts one that is told things, and answers.
    pub(crate) fn talk(mut command: Command, cpu: usize) -> Result<Self, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self::start(command, cpu)
    }

    /// Its number; of a program that another one became, it is the same.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), Error> {
        let input = self.input.as_mut().ok_or("it has no input").or_needs("second process")?;
        writeln!(input, "{line}").or_needs("second process that listens")
    }

    /// Waits for its next line; an empty one when it has ended.
    pub(crate) fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.output()?.read_line(&mut line).or_needs("words of a second process")?;
        Ok(line.trim_end().to_owned())
    }

    /// The rest of its next line, which begins with `word`.
    pub(crate) fn heard(&mut self, word: &str) -> Result<String, Error> {
        let line = self.line()?;
        let rest = line.strip_prefix(word).map(|rest| rest.trim().to_owned());
        rest.ok_or_else(|| format!("it says {line:?}")).or_needs("second process that answers")
    }

    /// All that it says until it ends.
    pub(crate) fn rest(&mut self) -> Result<String, Error> {
        let mut text = String::new();
        self.output()?.read_to_string(&mut text).or_needs("words of a second process")?;
        Ok(text)
    }

    fn output(&mut self) -> Result<&mut BufReader<ChildStdout>, Error> {
        self.output.as_mut().ok_or("it has no output").or_needs("second process")
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().or_needs("state of a second process")
    }

    /// An error if it has ended.
    pub(crate) fn unless_ended(&mut self) -> Result<(), Error> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(format!("it ended ({status})")).or_needs("second process"),
        }
    }

    /// Sends it a signal, unless it has ended.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if let Ok(None) = self.child.try_wait()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // It may end by itself meanwhile.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Ends it at once, or waits for the end that another signal has brought.
    pub(crate) fn kill(&mut self) {
        // Without effect on one that has ended.
        let _ = self.child.kill();
        self.wait();
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) {
        let _ = self.child.wait();
    }

    /// Asks it to end, and kills it if it does not.
    pub(crate) fn end(&mut self) {
        self.signal(Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < TIMEOUT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        self.end();
    }
}

/// CPU time of all threads of a process, those that have ended left out.
pub(crate) fn cpu_time(pid: u32) -> Result<Nanos, Error> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).or_needs("look into /proc")?;
    let of_thread = |entry: std::io::Result<std::fs::DirEntry>| {
        // A thread may end meanwhile.
        let text = std::fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    Ok(Nanos(tasks.filter_map(of_thread).sum()))
}

/// Time that a CPU has had nothing to do, proc_stat(5); in steps of 10 ms.
pub(crate) fn idle_time(cpu: usize) -> Result<Nanos, Error> {
    let text = std::fs::read_to_string("/proc/stat").or_needs("look into /proc")?;
    idle_in(&text, cpu).ok_or("there is no such CPU").or_needs("look into /proc/stat")
}

fn idle_in(stat: &str, cpu: usize) -> Option<Nanos> {
    let name = format!("cpu{cpu} ");
    let fields = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks = |at: usize| fields.split_ascii_whitespace().nth(at)?.parse::<u64>().ok();
    // Idle, and idle while something is read from a disk.
    Some(Nanos::from_millis(10 * (ticks(3)? + ticks(4)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::talk(command, crate::place::Cpus::choose().client).expect("there is a shell")
    }

    #[test]
    fn it_answers_and_its_end_is_an_empty_line() {
        let mut process = shell("read a; echo got $a; read b; echo $b too");
        assert!(process.unless_ended().is_ok());
        process.say("this").expect("it listens");
        assert_eq!(process.line().expect("it answers"), "got this");
        process.say("that").expect("it listens");
        assert_eq!(process.line().expect("it answers"), "that too");
        assert_eq!(process.line().expect("it has ended"), "");
    }

    #[test]
    fn a_line_that_begins_otherwise_is_quoted() {
        let mut process = shell("echo ready 7; echo never; echo one; echo two");
        assert_eq!(process.heard("ready").expect("it is"), "7");
        let told = process.heard("acts").expect_err("it says something else");
        assert!(told.to_string().contains("never"), "{told}");
        assert_eq!(process.rest().expect("it ends"), "one\ntwo\n");
    }

    #[test]
    fn one_that_is_asked_to_end_may_have_a_last_word() {
        let mut process =
            shell("trap 'echo bye; exit' TERM; echo on; while :; do sleep 0.01; done");
        assert_eq!(process.line().expect("it is there"), "on");
        process.signal(Signal::TERM);
        assert_eq!(process.line().expect("it says it"), "bye");
    }

    #[test]
    fn one_that_hears_is_asked_and_one_that_does_not_is_killed() {
        for (script, code) in [
            ("trap 'exit 7' TERM; echo; while :; do sleep 0.01; done", Some(7)),
            ("trap '' TERM; echo; while :; do sleep 0.01; done", None),
        ] {
            let mut process = shell(script);
            process.line().expect("its trap is set");
            process.end();
            let status = process.ended().expect("it is our child").expect("it has ended");
            assert_eq!(status.code(), code, "{script}");
        }
    }

    #[test]
    fn the_idle_time_of_a_cpu_is_its_own_and_in_ticks() {
        let stat = "cpu  1 2 3 4 5 6 7\ncpu1 1 2 3 40 5 6 7 8 9 0\ncpu11 1 2 3 50 5 6 7\n";
        assert_eq!(idle_in(stat, 1), Some(Nanos::from_millis(450)));
        assert_eq!(idle_in(stat, 2), None);
    }

    #[test]
    fn time_that_is_spun_away_is_cpu_time_of_this_process() {
        let before = cpu_time(std::process::id()).expect("we are there");
        let began = crate::place::cpu_time();
        while crate::place::cpu_time().since(began) < Nanos::from_millis(20) {
            std::hint::spin_loop();
        }
        let after = cpu_time(std::process::id()).expect("we are there");
        // The kernel's figure is behind by a tick at most.
        assert!(after.since(before) > Nanos::from_millis(5), "{before} {after}");
    }
}
