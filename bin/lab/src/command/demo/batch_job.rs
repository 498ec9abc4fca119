//! The batch job of the second act: `calisto run --batch` with a shell that counts and counts.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base::Nanos;
use cli::failure::Failure;
use cli::program;
use rustix::process::{Pid, Signal, kill_process};
use sys::other_thread::OtherThread;
use sys::pidfd::PidFd;

use super::progress::check_stop;

/// One that has no core or does not end by then will not.
const TIMEOUT: Duration = Duration::from_secs(10);

/// For an end in order when there is no time for patience.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// Says who it is and then uses all the CPU time that it can get.
const SCRIPT: &str = "echo $$; while :; do :; done";

/// A running batch job; dropped, it has ended.
pub(super) struct BatchJob {
    runner: Child,
    /// The shell; none until it has said its number.
    counting: Option<OtherThread>,
}

impl BatchJob {
    /// Starts it on the cores of the daemon behind `socket`; there is a free one.
    pub(super) fn start(socket: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(program::find(program::COMMAND)?);
        command.args(["run", "--batch", "--name", "count", "--socket"]).arg(socket);
        command.args(["--", "sh", "-c", SCRIPT]);
        // A group of its own: Ctrl-C is ours to handle.
        command.process_group(0).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let runner = command
            .spawn()
            .map_err(|error| Failure::new(format!("cannot start the batch job: {error}")))?;
        let mut job = Self { runner, counting: None };
        job.await_first_line()?;
        Ok(job)
    }

    fn await_first_line(&mut self) -> Result<(), Failure> {
        let output = self.runner.stdout.take();
        let output = output.expect("its output was asked for when it was started");
        let deadline = Instant::now() + TIMEOUT;
        while !sys::poll::wait_readable(output.as_fd(), Nanos::from_millis(50)) {
            check_stop()?;
            if Instant::now() > deadline {
                return Err(Failure::new("the batch job has got no core"));
            }
        }
        let mut line = String::new();
        // An error reads as no line: the job has said nothing.
        let _ = BufReader::new(output.take(64)).read_line(&mut line);
        let pid = line.trim().parse().map_err(|_| self.failed("without a word"))?;
        let process = PidFd::open(pid).map_err(|_| self.failed("at once"))?;
        let thread = OtherThread::find(&process, pid).map_err(|_| self.failed("at once"))?;
        self.counting = Some(thread);
        Ok(())
    }

    /// CPU time that the job has used so far.
    pub(super) fn cpu_time(&mut self) -> Result<Nanos, Failure> {
        let used = self.counting.as_ref().and_then(|thread| thread.cpu_time().ok());
        used.ok_or_else(|| self.failed("early"))
    }

    /// Ends it in order, as Ctrl-C would.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        if self.end(TIMEOUT) {
            Ok(())
        } else {
            Err(Failure::new("the batch job does not end when told to"))
        }
    }

    /// Asks it to end, and waits; whether it has ended.
    fn end(&mut self, timeout: Duration) -> bool {
        let has_ended = |runner: &mut Child| matches!(runner.try_wait(), Ok(Some(_)) | Err(_));
        if has_ended(&mut self.runner) {
            return true;
        }
        // A child that has not been waited for still has its number.
        if let Some(pid) = Pid::from_raw(self.runner.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + timeout;
        while !has_ended(&mut self.runner) {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    fn failed(&mut self, how: &str) -> Failure {
        // Only who has ended has said everything, and reading waits for the rest.
        self.end(LAST_TIMEOUT);
        let _ = self.runner.kill();
        let mut said = String::new();
        if let Some(errors) = self.runner.stderr.take() {
            // What can be read is said; that some of it cannot changes nothing.
            let _ = errors.take(4096).read_to_string(&mut said);
        }
        Failure::new(format!("the batch job has ended {how}: {}", said.trim()))
    }
}

impl Drop for BatchJob {
    fn drop(&mut self) {
        // In order: only then is the job of a runner that is killed not left to its guardian.
        self.end(LAST_TIMEOUT);
        // It has ended already, or this ends it; either way nothing more can be done.
        let _ = self.runner.kill();
        let _ = self.runner.wait();
    }
}
