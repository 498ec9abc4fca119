//! A daemon under test: a process in a namespace, its configuration, its sockets and its log.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::{ScratchDir, Side};

/// How long it may take to start, and to end.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(2);

const CONFIG: &str = "calisto.toml";
const LOG: &str = "daemon.log";

/// Where a daemon's files are; gone with this value.
pub struct DaemonFolder(ScratchDir);

impl DaemonFolder {
    /// An empty one: only its owner may look there.
    ///
    /// # Errors
    /// The directory for temporary files cannot be written.
    pub fn new() -> Result<Self> {
        ScratchDir::new("daemon").map(Self)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where operators ask. The configuration has to say so.
    pub fn admin_socket(&self) -> PathBuf {
        self.path().join("admin.sock")
    }

    /// Where applications attach.
    pub fn apps_socket(&self) -> PathBuf {
        self.path().join("apps.sock")
    }

    /// Its configuration.
    pub fn config(&self) -> PathBuf {
        self.path().join(CONFIG)
    }

    /// What the daemon and its guardian say.
    pub fn log(&self) -> PathBuf {
        self.path().join(LOG)
    }
}

/// A running daemon; dropped, it has ended.
pub struct Daemon {
    process: Child,
    folder: DaemonFolder,
    cpu: Option<usize>,
}

impl Daemon {
    /// Starts `program` in a namespace with that configuration, all of its threads on `cpu` where
    /// one is named, and waits until traffic flows or `is_over`.
    ///
    /// # Errors
    /// It cannot be started, or does not become ready: with what it said.
    pub fn start(
        program: &Path,
        side: &Side,
        cpu: Option<usize>,
        folder: DaemonFolder,
        config: &str,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Self> {
        std::fs::write(folder.config(), config)?;
        let mut command = side.command(program);
        command.arg("--config").arg(folder.config());
        let process = spawn(command, cpu, &folder)?;
        let mut daemon = Self { process, folder, cpu };
        daemon.await_ready(is_over)?;
        Ok(daemon)
    }

    /// Starts another one, with a log of its own, by a `command` that begins what takes the place
    /// of the one before: that has ended, or ends now.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_again(&mut self, command: Command, is_over: &dyn Fn() -> bool) -> Result<()> {
        let next = spawn(command, self.cpu, &self.folder)?;
        let mut old = std::mem::replace(&mut self.process, next);
        let ready = self.await_ready(is_over);
        if ready.is_err() {
            // It may have been left at work.
            let _ = old.kill();
        }
        old.wait()?;
        ready
    }

    /// Waits for the line that says that traffic flows.
    fn await_ready(&mut self, is_over: &dyn Fn() -> bool) -> Result<()> {
        let began = Instant::now();
        loop {
            let said = self.said()?;
            if said.lines().any(|line| line.starts_with("ready: ")) {
                return Ok(());
            }
            if is_over() {
                return Err(ErrorKind::Interrupted.into());
            }
            if self.ended()?.is_some() {
                let said = said.trim();
                let said = said.strip_prefix("calistod: ").unwrap_or(said);
                let said = if said.is_empty() { "the daemon ended without a word" } else { said };
                return Err(Error::other(said));
            }
            if began.elapsed() > TIMEOUT {
                let seconds = TIMEOUT.as_secs();
                let said = format!("the daemon is not ready after {seconds} s; it says: {said}");
                return Err(Error::other(said));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Its files.
    pub fn folder(&self) -> &DaemonFolder {
        &self.folder
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What it and its guardian have said.
    ///
    /// # Errors
    /// Its log is gone.
    pub fn said(&self) -> Result<String> {
        std::fs::read_to_string(self.folder.log())
    }

    /// How it has ended, if it has.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Ends it by a signal, and waits until it is gone.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub fn end_by(&mut self, signal: Signal) -> Result<()> {
        self.signal(signal);
        self.process.wait().map(drop)
    }

    fn signal(&mut self, signal: Signal) {
        if let Ok(None) = self.process.try_wait()
            && let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw)
        {
            // It may end by itself meanwhile.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Who has replaced a daemon waits for the one that it has started, and passes this on.
        self.signal(Signal::TERM);
        let began = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) && began.elapsed() < TIMEOUT {
            std::thread::sleep(LOOK_EVERY);
        }
        // It has ended already, or this ends it; either way nothing more can be done.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts it with an empty log.
fn spawn(mut command: Command, cpu: Option<usize>, folder: &DaemonFolder) -> Result<Child> {
    File::create(folder.log())?;
    // One that is replaced goes on writing behind what its successor has written.
    let output = OpenOptions::new().append(true).open(folder.log())?;
    let errors = output.try_clone()?;
    // A group of its own: Ctrl-C is ours to handle, and the daemon's end our decision.
    command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(errors);
    // A process inherits the CPU of the thread that starts it.
    let pinned = || {
        cpu.map_or(Ok(()), sys::thread::pin).map_err(Error::other)?;
        command.spawn()
    };
    std::thread::scope(|scope| {
        scope.spawn(pinned).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
