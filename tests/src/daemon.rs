//! A real `calistod` in the server's namespace, ended and cleaned up when it drops.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use admin::{Reply, ReplyBody, Request, SteerStatus};
use testbed::Side;

/// Long enough for any machine; a test that waits for this has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program of this workspace, built beside the tests.
///
/// # Panics
/// It is not there: `cargo build --workspace --bins` makes it, as `cargo xtask ci` does.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps/TEST");
    let path = folder.join(name);
    assert!(path.exists(), "{} is missing: run cargo build --workspace --bins", path.display());
    path
}

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    /// Starts one on `side` and waits until traffic flows. `{interface}` is not replaced: the
    /// configuration names what the testbed made.
    ///
    /// # Panics
    /// It does not come up; what it said is in the message.
    pub fn start(side: &Side, config: &str) -> Self {
        match Self::try_start(side, config) {
            Ok(daemon) => daemon,
            Err((status, said)) => panic!("the daemon ended with {status}: {said}"),
        }
    }

    /// Starts one that may fail: then how it ended and what it said.
    pub fn try_start(side: &Side, config: &str) -> Result<Self, (ExitStatus, String)> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("calisto-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
        let socket = folder.join("admin.sock");
        let text = format!("admin_socket = {:?}\n{config}", socket.display().to_string());
        let path = folder.join("calisto.toml");
        std::fs::write(&path, text).expect("the folder was just made");
        let mut command = side.command(binary("calistod"));
        command.arg("--config").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("ip and calistod are there");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        let read = BufReader::new(stdout).read_line(&mut line);
        if read.is_ok() && line.starts_with("ready: ") {
            return Ok(Self { child, folder });
        }
        let mut said = line;
        let mut stderr = child.stderr.take().expect("it is piped");
        let _ = stderr.read_to_string(&mut said);
        let status = child.wait().expect("it is our child");
        let _ = std::fs::remove_dir_all(&folder);
        Err((status, said))
    }

    /// The path of its admin socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("admin.sock")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends one line and gives its answer.
    ///
    /// # Panics
    /// There is no answer.
    pub fn line(&self, line: &str) -> ReplyBody {
        let mut stream = UnixStream::connect(self.socket()).expect("the daemon listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout is no zero");
        writeln!(stream, "{line}").expect("the daemon reads");
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("the daemon answers");
        let reply: Reply = admin::decode(&answer).expect("the daemon speaks the protocol");
        reply.body
    }

    /// Asks for something.
    pub fn ask(&self, command: admin::Command) -> ReplyBody {
        let request = admin::encode(&Request::new(command)).expect("a request is JSON");
        self.line(request.trim_end())
    }

    /// Asks for something that must be done.
    ///
    /// # Panics
    /// It is refused.
    pub fn must(&self, command: admin::Command) {
        let body = self.ask(command.clone());
        assert_eq!(body, ReplyBody::Done, "{command:?}");
    }

    /// The steering as it is.
    pub fn steer(&self) -> SteerStatus {
        match self.ask(admin::Command::SteerShow) {
            ReplyBody::Steer(status) => status,
            other => panic!("{other:?} is no steering"),
        }
    }

    /// Waits until nothing moves and `holds` is true of the steering.
    ///
    /// # Panics
    /// It does not come true.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&SteerStatus) -> bool) -> SteerStatus {
        let began = Instant::now();
        loop {
            let status = self.steer();
            if status.settled && holds(&status) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{what} does not come true: {status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A counter, summed over the threads that have it.
    pub fn counter(&self, name: &str) -> u64 {
        let ReplyBody::Stats { threads } = self.ask(admin::Command::Stats) else {
            panic!("stats are not answered")
        };
        let all = threads.iter().flat_map(|thread| &thread.counters);
        let found: Vec<u64> = all.filter(|c| c.name == name).map(|c| c.value).collect();
        assert!(!found.is_empty(), "there is no counter {name}");
        found.iter().sum()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.expect("a child has a process id");
        rustix::process::kill_process(pid, signal).expect("it is our child");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not end.
    pub fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the daemon does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs a program of this workspace to its end.
///
/// # Panics
/// It cannot be started.
pub fn run(command: &mut Command) -> (ExitStatus, String, String) {
    let output = command.output().expect("the program is there");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status, text(output.stdout), text(output.stderr))
}
