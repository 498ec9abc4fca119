//! A real `calistod` in the server's namespace, ended and cleaned up when it drops.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use admin::{AppStatus, ReplyBody, Request, SteerStatus};
use testbed::Side;

use crate::heard::Heard;
use crate::operator::Operator;
use crate::process::{binary, run, signal_to, wait_for, wait_for_end};

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    folder: PathBuf,
    said: Heard,
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

    /// One that answers on UDP port 7 with two workers, and whose tables are so small that one
    /// sample shows a whole one: 128 groups.
    ///
    /// # Panics
    /// It does not come up.
    pub fn with_small_tables(side: &Side, policy: &str) -> Self {
        let config = format!(
            "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n[workers]\ncount = 2\n\
             [steer]\ngroups = 128\npolicy = {policy:?}\n[apps]\ngroups = 128\n\
             [handover]\ndeadline_ms = 200\n"
        );
        Self::start(side, &config)
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
        std::fs::write(folder.join("calisto.toml"), text).expect("the folder was just made");
        match launch(side, &folder) {
            Ok((child, said)) => Ok(Self { child, folder, said }),
            Err(failed) => {
                let _ = std::fs::remove_dir_all(&folder);
                Err(failed)
            }
        }
    }

    /// Kills it without a warning; its sockets stay behind.
    pub fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.wait();
    }

    /// Starts it again with the same configuration, after it has ended.
    ///
    /// # Panics
    /// It does not come up.
    pub fn start_again(&mut self, side: &Side) {
        match launch(side, &self.folder) {
            Ok((child, said)) => (self.child, self.said) = (child, said),
            Err((status, said)) => panic!("the daemon ended with {status}: {said}"),
        }
    }

    /// A folder that goes with it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of its admin socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("admin.sock")
    }

    /// The path of its socket for applications.
    pub fn apps_socket(&self) -> PathBuf {
        self.folder.join("apps.sock")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed on its standard error so far.
    pub fn said(&self) -> String {
        self.said.so_far()
    }

    /// Sends one line and gives its answer.
    ///
    /// # Panics
    /// There is no answer.
    pub fn line(&self, line: &str) -> ReplyBody {
        self.connect().line(line)
    }

    /// A connection to its admin socket, for those to whom it matters that it stays.
    ///
    /// # Panics
    /// Nobody listens.
    pub fn connect(&self) -> Operator {
        Operator::connect(&self.socket())
    }

    /// Asks for something.
    pub fn ask(&self, command: admin::Command) -> ReplyBody {
        self.connect().ask(&Request::new(command))
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

    /// Who owns each group.
    pub fn owners(&self) -> Vec<Option<u16>> {
        let ReplyBody::Table { table } = self.ask(admin::Command::SteerExport) else {
            panic!("the table is not exported")
        };
        let mut lines = table.lines();
        let groups = lines.next().and_then(|line| line.strip_prefix("groups ")).expect("a header");
        let mut owners = vec![None; groups.parse().expect("a number")];
        for line in lines {
            let (range, worker) = line.split_once(' ').expect("a run");
            let (first, last) = range.split_once('-').expect("a range");
            let (first, last): (usize, usize) =
                (first.parse().expect("a number"), last.parse().expect("a number"));
            owners[first..=last].fill(Some(worker.parse().expect("a number")));
        }
        owners
    }

    /// Waits until nothing moves and `holds` is true of the steering.
    ///
    /// # Panics
    /// It does not come true.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&SteerStatus) -> bool) -> SteerStatus {
        wait_for(what, || {
            let status = self.steer();
            if status.settled && holds(&status) { Ok(status) } else { Err(format!("{status:?}")) }
        })
    }

    /// Every application, also those that are gone.
    pub fn apps(&self) -> Vec<AppStatus> {
        match self.ask(admin::Command::Apps) {
            ReplyBody::Apps { apps } => apps,
            other => panic!("{other:?} are no applications"),
        }
    }

    /// One application with its counters; the one that is attached, if there is one.
    ///
    /// # Panics
    /// The daemon does not know it.
    pub fn explain(&self, app: &str) -> AppStatus {
        match self.connect().ask(&Request::about(app, admin::Command::Explain)) {
            ReplyBody::Explain { app } => app,
            other => panic!("{app} is not explained: {other:?}"),
        }
    }

    /// Waits until the application of that name is gone; why.
    ///
    /// # Panics
    /// It stays.
    pub fn wait_until_gone(&self, app: &str) -> admin::Reason {
        wait_for(&format!("the end of {app}"), || {
            let status = self.explain(app);
            status.reason.clone().ok_or_else(|| format!("{status:?}"))
        })
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

    /// A counter of the ports, summed over them.
    pub fn port_counter(&self, name: &str) -> u64 {
        let ReplyBody::Status(status) = self.ask(admin::Command::Status) else {
            panic!("status is not answered")
        };
        let all = status.ports.iter().flat_map(|port| &port.counters);
        all.filter(|counter| counter.name == name).map(|counter| counter.value).sum()
    }

    /// `calisto WORDS` about this daemon, which must succeed; what it prints.
    ///
    /// # Panics
    /// It fails.
    pub fn calisto(&self, words: &str) -> String {
        let (status, out, said) = self.try_calisto(words);
        assert!(status.success(), "calisto {words}: {said}");
        out
    }

    /// `calisto WORDS` about this daemon: how it ended, what it printed, what it complained of.
    pub fn try_calisto(&self, words: &str) -> (ExitStatus, String, String) {
        let mut command = Command::new(binary("calisto"));
        run(command.args(words.split(' ')).env("CALISTO_ADMIN", self.socket()))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        signal_to(&self.child, signal);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not end.
    pub fn wait(&mut self) -> ExitStatus {
        wait_for_end("the daemon", &mut self.child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the daemon said: {}", self.said.all());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Starts `calistod` on the configuration in `folder` and waits until it is ready.
fn launch(side: &Side, folder: &Path) -> Result<(Child, Heard), (ExitStatus, String)> {
    let mut command = side.command(binary("calistod"));
    command.arg("--config").arg(folder.join("calisto.toml"));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ip and calistod are there");
    let mut said = Heard::of(child.stderr.take().expect("it is piped"));
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    let read = stdout.read_line(&mut line);
    if read.is_ok() && line.starts_with("ready: ") {
        // No test wants what it prints later, but the pipe must be read.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        return Ok((child, said));
    }
    let status = child.wait().expect("it is our child");
    Err((status, line + &said.all()))
}
