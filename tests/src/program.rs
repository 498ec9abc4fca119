//! Any program under test: what it says, and that it ends with the value.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::heard::Heard;
use crate::process::{TIMEOUT, signal_to, wait_for, wait_within};

/// How long after its end the last of what it said may take to be read.
const READ_WITHIN: Duration = Duration::from_secs(3);

/// A program that runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Program {
    child: Child,
    out: Heard,
    said: Heard,
    name: String,
}

/// How a program has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub said: String,
}

impl Program {
    /// Starts it.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is there");
        let out = Heard::of(child.stdout.take().expect("it is piped"));
        let said = Heard::of(child.stderr.take().expect("it is piped"));
        Self { child, out, said, name: format!("{command:?}") }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far, and then what it has complained of.
    pub fn so_far(&self) -> String {
        format!("{}{}", self.out.so_far(), self.said.so_far())
    }

    /// How it has ended; nothing: it runs.
    ///
    /// # Panics
    /// It was waited for elsewhere.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Waits until it has printed `what`, on either way.
    ///
    /// # Panics
    /// It does not, or has ended without.
    pub fn wait_until_it_says(&mut self, what: &str) {
        let mut ended_at = None;
        wait_for(&format!("\"{what}\" of {}", self.name), || {
            let said = self.so_far();
            if said.contains(what) {
                return Ok(());
            }
            if let Some(status) = self.ended() {
                // What it said last may still be in the pipe, which others may hold open.
                let since = ended_at.get_or_insert_with(Instant::now);
                let is_all_read = since.elapsed() > READ_WITHIN;
                assert!(!is_all_read, "{} has ended with {status}: {said}", self.name);
            }
            Err(said)
        });
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        signal_to(&self.child, signal);
    }

    /// Ends it in order, as a service manager does.
    ///
    /// # Panics
    /// It does not end.
    pub fn stop(self) -> Finished {
        self.signal(Signal::TERM);
        self.end()
    }

    /// Kills it without a warning.
    ///
    /// # Panics
    /// It does not end.
    pub fn kill(self) -> Finished {
        self.signal(Signal::KILL);
        self.end()
    }

    /// Waits for its end, which must be a good one; its standard output.
    ///
    /// # Panics
    /// It fails, or does not end.
    pub fn succeed(self) -> String {
        let name = self.name.clone();
        let Finished { status, out, said } = self.end();
        assert!(status.success(), "{name} has ended with {status}: {out}{said}");
        out
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not end.
    pub fn end(mut self) -> Finished {
        let status = wait_within(TIMEOUT * 6, &format!("the end of {}", self.name), || {
            let ended = self.child.try_wait().expect("it is our child");
            ended.ok_or_else(|| format!("it runs: {}{}", self.out.so_far(), self.said.so_far()))
        });
        Finished { status, out: self.out.all(), said: self.said.all() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{} said: {}", self.name, self.so_far());
        }
    }
}
