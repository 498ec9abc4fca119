//! Another process of a measurement: when it is ready, and the CPU time that it has had.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use base::Nanos;

use super::helper::Kind;
use crate::ending::end;
use crate::error::{Error, OrNeeds};
use crate::helper::word;
use crate::place::on_cpu;

/// Ended when dropped.
pub(super) struct Process {
    child: Child,
    /// Kept open: what it says later disturbs nobody.
    _output: BufReader<ChildStdout>,
    /// The process that was ready: the child, or one that it started.
    pub(super) pid: u32,
}

/// The words that make this program a helper.
pub(super) fn as_helper(kind: Kind) -> [String; 4] {
    ["bench".to_owned(), "cores".to_owned(), "--helper".to_owned(), word(kind)]
}

impl Process {
    /// Starts it, with this CPU to begin with, and waits until it says that it is ready.
    pub(super) fn start(mut command: Command, cpu: usize) -> Result<Self, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // A process inherits the CPU of the thread that starts it.
        let mut child = on_cpu(cpu, || command.spawn().or_needs("second process"))?;
        let output = child.stdout.take().ok_or("it has no output").or_needs("second process")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        let read = output.read_line(&mut line).or_needs("words of a second process");
        let pid = line.trim_end().strip_prefix("ready ").and_then(|pid| pid.parse().ok());
        let process = Self { child, _output: output, pid: pid.unwrap_or(0) };
        read?;
        match pid {
            Some(_) => Ok(process),
            None => Err(format!("it says {line:?}")).or_needs("second process that is ready"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&mut self.child);
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
