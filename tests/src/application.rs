//! A real program that attaches to the daemon under test, ended when it drops.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Signal;

use crate::daemon::Daemon;
use crate::heard::Heard;
use crate::process::{binary, signal_to, wait_for, wait_for_end};

/// What every example says when it is in.
const ATTACHED: &str = "attached as application";

/// A running application.
#[derive(Debug)]
pub struct Application {
    child: Child,
    out: Heard,
    said: Heard,
}

/// How an application has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub said: String,
}

impl Application {
    /// Starts a program of this workspace, `PROGRAM --socket .. WORDS`, and waits until it is
    /// attached.
    ///
    /// # Panics
    /// It is not let in.
    pub fn start(daemon: &Daemon, words: &str) -> Self {
        let mut application = Self::spawn(&mut command(daemon, words));
        if let Err(ended) = application.is_attached() {
            panic!("{words} is not let in: {ended:?}");
        }
        application
    }

    /// Starts it as the user `uid`; what it said when it is not let in.
    pub fn try_start_as(daemon: &Daemon, uid: u32, words: &str) -> Result<Self, Ended> {
        let (program, _) = words.split_once(' ').expect("a program and its options");
        // The folder that it was built in may be root's alone.
        let copy = daemon.folder().join(program);
        if !copy.exists() {
            // By another process: a thread that forks while we write to it would hold it open, and
            // what is open for writing cannot be run.
            let copied = Command::new("cp").arg(binary(program)).arg(&copy).status();
            assert!(copied.expect("there is cp").success(), "there is room for it");
        }
        let mut command = command(daemon, words);
        let mut application = Self::spawn(command.current_dir("/").uid(uid).gid(uid));
        application.is_attached()?;
        Ok(application)
    }

    /// Starts it; how it ended when it is not let in.
    pub fn try_start(daemon: &Daemon, words: &str) -> Result<Self, Ended> {
        let mut application = Self::spawn(&mut command(daemon, words));
        application.is_attached()?;
        Ok(application)
    }

    fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is there");
        let out = Heard::of(child.stdout.take().expect("it is piped"));
        let said = Heard::of(child.stderr.take().expect("it is piped"));
        Self { child, out, said }
    }

    /// Waits until it says that it is attached, or has ended. The daemon lists it a moment before
    /// it has all of its packets.
    fn is_attached(&mut self) -> Result<(), Ended> {
        let ended = wait_for("an application that is attached or refused", || {
            if self.child.try_wait().expect("it is our child").is_some() {
                return Ok(true);
            }
            let said = self.said.so_far();
            if said.contains(ATTACHED) { Ok(false) } else { Err(said) }
        });
        if ended { Err(self.end()) } else { Ok(()) }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has attached that many times since its start.
    ///
    /// # Panics
    /// It does not.
    pub fn wait_until_attached(&self, times: usize) {
        wait_for(&format!("attachment number {times}"), || {
            let said = self.said.so_far();
            if said.matches(ATTACHED).count() >= times { Ok(()) } else { Err(said) }
        });
    }

    /// Waits until it has complained of `what`.
    ///
    /// # Panics
    /// It does not.
    pub fn wait_until_it_says(&self, what: &str) {
        wait_for(&format!("\"{what}\""), || {
            let said = self.said.so_far();
            if said.contains(what) { Ok(()) } else { Err(said) }
        });
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        signal_to(&self.child, signal);
    }

    /// Stops it where it is (SIGSTOP), until SIGCONT.
    ///
    /// # Panics
    /// One of its threads goes on.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        wait_for("a stop of all of its threads", || {
            for task in std::fs::read_dir(&tasks).expect("it is there") {
                let stat = task.expect("proc lists it").path().join("stat");
                // "PID (name) STATE ..." (proc_pid_stat(5)).
                let stat = std::fs::read_to_string(stat).expect("no thread ends meanwhile");
                let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
                if state != Some('T') {
                    return Err(stat);
                }
            }
            Ok(())
        });
    }

    /// Asks it to stop, as Ctrl-C does, and waits for its end.
    pub fn stop(mut self) -> Ended {
        self.signal(Signal::INT);
        self.end()
    }

    /// Kills it without a warning.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.end();
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not end.
    pub fn end(&mut self) -> Ended {
        let status = wait_for_end("the application", &mut self.child);
        Ended { status, out: self.out.all(), said: self.said.all() }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(daemon: &Daemon, words: &str) -> Command {
    let (program, words) = words.split_once(' ').expect("a program and its options");
    let copy = daemon.folder().join(program);
    let mut command = Command::new(if copy.exists() { copy } else { binary(program) });
    command.arg("--socket").arg(daemon.apps_socket()).args(words.split(' '));
    command
}
