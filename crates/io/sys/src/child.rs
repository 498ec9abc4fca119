//! What a program that we start is to begin with: class, CPUs, signals, group, and whose death ends
//! it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use base::Nanos;
use rustix::process::Signal;

use crate::cpu_set::CpuSet;
use crate::scheduling;
use crate::signal_fd::SignalMask;

/// What is done in the child, after fork and before its program begins.
#[derive(Debug, Default)]
pub struct Start {
    /// SCHED_IDLE, its children too.
    pub idle: bool,
    /// The CPUs that it may run on.
    pub cpus: Option<CpuSet>,
    /// The signal that it gets when the thread that started it ends. Does not hold for its own
    /// children, nor for programs with a set-user-id bit.
    pub parent_death: Option<Signal>,
    /// Which signals it holds back, if not those of the thread that starts it.
    pub mask: Option<SignalMask>,
    /// A cgroup to enter ([`crate::freezer::Freezer::entrance`]).
    pub group: Option<File>,
}

/// Has `command` begin like that. An error of any of it is the error of the spawn.
pub fn prepare(command: &mut Command, start: Start) {
    let parent = std::process::id();
    // SAFETY: the closure makes system calls on values that were made before the fork; it takes no
    // lock and allocates nothing.
    unsafe { command.pre_exec(move || start.begin(parent)) };
}

impl Start {
    /// Runs in the child; only what is safe after a fork.
    fn begin(&self, parent: u32) -> io::Result<()> {
        let Self { idle, cpus, parent_death, mask, group } = self;
        if let Some(signal) = *parent_death {
            rustix::process::set_parent_process_death_signal(Some(signal))?;
            let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
            if now != Some(parent.cast_signed()) {
                // It has died already, and nobody will tell.
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        if let Some(mut group) = group.as_ref() {
            group.write_all(b"0")?;
        }
        if let Some(cpus) = cpus {
            rustix::thread::sched_setaffinity(None, cpus.mask())?;
        }
        if *idle {
            scheduling::set_idle(true).map_err(|error| error.errno())?;
        }
        match mask {
            Some(mask) if !mask.apply() => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            _ => Ok(()),
        }
    }
}

/// Leaves standard input and output to the programs that were started: whoever is at the other end
/// sees them closed as soon as those close them.
///
/// # Errors
/// There is no /dev/null.
pub fn leave_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(rustix::stdio::dup2_stdout(&null)?)
}

/// CPU time that our children, and theirs, have used; only those that have ended and were waited
/// for.
pub fn cpu_time_of_ended() -> Nanos {
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours to write. It cannot fail with these arguments, and would leave zeros.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let nanos = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_usec).unwrap_or(0) * 1_000
    };
    Nanos(nanos(usage.ru_utime) + nanos(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_tree;
    use crate::signal_fd::SignalFd;

    /// What a shell that begins like that prints for `script`.
    fn output(start: Start, script: &str) -> String {
        let mut command = Command::new("sh");
        prepare(command.args(["-c", script]), start);
        let output = command.output().expect("a shell is everywhere");
        String::from_utf8(output.stdout).expect("it prints text").trim().to_owned()
    }

    #[test]
    fn a_program_begins_in_the_class_and_on_the_cpus_that_it_was_given() {
        let cpu = CpuSet::allowed().iter().last().expect("some CPU runs this");
        let start = Start { idle: true, cpus: Some(CpuSet::only(cpu)), ..Start::default() };
        // Field 41 of proc_pid_stat(5) is the class; a shell's name has no spaces.
        let text =
            output(start, "grep Cpus_allowed_list /proc/self/status; cut -d' ' -f41 /proc/$$/stat");
        assert_eq!(text, format!("Cpus_allowed_list:\t{cpu}\n5"));
        assert!(!scheduling::is_idle(), "only the child is");
    }

    #[test]
    fn a_program_gets_the_signals_that_its_starter_holds_back() {
        std::thread::spawn(|| {
            let signals = SignalFd::new(&[Signal::TERM]).expect("it is a signal");
            let script = "kill -TERM $$; echo still here";
            assert_eq!(output(Start::default(), script), "still here", "masks are inherited");
            let mask = Some(signals.mask_without());
            assert_eq!(output(Start { mask, ..Start::default() }, script), "");
        })
        .join()
        .expect("no assertion failed");
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let started = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            let start = Start { parent_death: Some(Signal::KILL), ..Start::default() };
            prepare(command.arg("1000"), start);
            command.spawn().expect("sleep is everywhere")
        });
        let mut child = started.join().expect("no assertion failed");
        // Waiting ends only because the thread has ended.
        let status = child.wait().expect("it is our child");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
        let mut left = 0;
        process_tree::each_process(std::process::id(), |process| {
            left += usize::from(process.pid() == child.id());
        });
        assert_eq!(left, 0);
        assert!(cpu_time_of_ended() > Nanos::ZERO);
    }

    #[test]
    fn a_program_that_may_not_begin_as_asked_does_not_begin() {
        let mut command = Command::new("true");
        let start = Start { cpus: Some(CpuSet::new()), ..Start::default() };
        prepare(&mut command, start);
        let error = command.spawn().expect_err("nothing can run nowhere");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
