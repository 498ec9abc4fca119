//! A daemon that serves the sockets of programs, and programs under `calisto run`: nothing that
//! they send or receive may take the kernel's way unseen.

use std::process::Command;
use std::time::Duration;

use admin::{FallbackTotal, ReplyBody, SocketRow};
use testbed::{Side, Testbed, TestbedConfig};

use crate::daemon::Daemon;
use crate::fixture::project;
use crate::kernel_tcp::kernel_tcp;
use crate::process::{TIMEOUT, binary, wait_for, wait_within};
use crate::program::Program;

/// What every such daemon is told. A connection that is over is soon forgotten, so that a test can
/// see that nothing stays.
const CONFIG: &str =
    "ports = [\"xdp:veth0\"]\n[tcp]\ntime_wait_ms = 100\n[workers]\njob = \"sockets\"\n";

/// Two namespaces, and a daemon that serves sockets in the server's.
#[derive(Debug)]
pub struct Accelerated {
    // Ended in this order: a daemon leaves before its namespace does.
    daemon: Daemon,
    bed: Testbed,
    /// Connections that the kernel of the server's end had opened or accepted before.
    kernel_before: u64,
    descriptors_before: usize,
}

/// Payload bytes that went through the sockets of programs, as Calisto counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// To programs.
    pub received: u64,
    /// From programs.
    pub sent: u64,
}

impl Accelerated {
    /// IPv4 and IPv6, one worker.
    ///
    /// # Panics
    /// Without root, or when the daemon does not come up.
    pub fn start() -> Self {
        Self::with("")
    }

    /// The same with more settings: whole tables, such as `[[tenant]]`.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn with(tables: &str) -> Self {
        Self::with_workers("count = 1", tables)
    }

    /// The same with other settings of its workers.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn with_workers(workers: &str, tables: &str) -> Self {
        Self::configured(&format!("{CONFIG}{workers}\n{tables}"))
    }

    /// The same with all of a configuration but the admin socket.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn configured(config: &str) -> Self {
        let bed = Testbed::new(TestbedConfig { ipv6: true, ..TestbedConfig::default() });
        let bed = bed.expect("this test needs root and the ip command");
        let daemon = Daemon::start(bed.server(), config);
        let kernel_before = kernel_connections(bed.server());
        // It says that it is ready before its loop turns, and the loop has descriptors of its own.
        // Who is answered has been through it; then that connection goes.
        daemon.counter("tcp_flows");
        let descriptors_before = wait_for("rest of a daemon", || {
            let looks = [0; 5].map(|_| {
                std::thread::sleep(Duration::from_millis(2));
                descriptors(daemon.pid()).len()
            });
            let is_still = looks.iter().all(|&open| open == looks[0]);
            is_still.then_some(looks[0]).ok_or_else(|| format!("{looks:?} descriptors"))
        });
        Self { daemon, bed, kernel_before, descriptors_before }
    }

    /// The end where the daemon is.
    pub fn here(&self) -> &Side {
        self.bed.server()
    }

    /// The wire, with both ends.
    pub fn bed(&self) -> &Testbed {
        &self.bed
    }

    /// The other end: Linux alone.
    pub fn there(&self) -> &Side {
        self.bed.client()
    }

    /// The daemon.
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// The daemon, to end it and to start it again.
    pub fn daemon_mut(&mut self) -> (&mut Daemon, &Side) {
        (&mut self.daemon, self.bed.server())
    }

    /// A command that runs here, under `calisto run`, or not at all. The process is the program
    /// itself.
    pub fn command(&self, program: &str) -> Command {
        self.command_with(&["--strict"], program)
    }

    /// The same with options of `calisto run`.
    pub fn command_with(&self, options: &[&str], program: &str) -> Command {
        let mut command = self.here().command(binary("calisto"));
        command.arg("run").args(options).arg("--").arg(program);
        command.env("CALISTO_ADMIN", self.daemon.socket());
        command.env("CALISTO_APPS", self.daemon.apps_socket());
        command.current_dir(self.daemon.folder());
        command
    }

    /// Starts `words` here, accelerated.
    ///
    /// # Panics
    /// There is no such program.
    pub fn run(&self, words: &[&str]) -> Program {
        let (program, words) = words.split_first().expect("a program");
        Program::spawn(self.command(program).args(words))
    }

    /// Starts `words` at the other end, on Linux.
    ///
    /// # Panics
    /// There is no such program.
    pub fn run_there(&self, words: &[&str]) -> Program {
        let (program, words) = words.split_first().expect("a program");
        let mut command = self.there().command(program);
        Program::spawn(command.args(words).current_dir(self.daemon.folder()))
    }

    /// All sockets that Calisto serves now.
    ///
    /// # Panics
    /// The daemon does not tell, or has more than fit into an answer.
    pub fn sockets(&self) -> Vec<SocketRow> {
        let ask = admin::Command::Sockets { from: 0, count: admin::SOCKET_ROWS_MAX };
        match self.daemon.ask(ask) {
            ReplyBody::Sockets { sockets, next: None } => sockets,
            other => panic!("{other:?} are no sockets"),
        }
    }

    /// How many sockets were left to the kernel so far, by reason.
    ///
    /// # Panics
    /// The daemon does not tell.
    pub fn fallbacks(&self) -> Vec<FallbackTotal> {
        match self.daemon.ask(admin::Command::Fallbacks) {
            ReplyBody::Fallbacks { totals, .. } => totals,
            other => panic!("{other:?} are no sockets of the kernel"),
        }
    }

    /// What was carried so far; it is told a moment late.
    pub fn carried(&self) -> Carried {
        let (received, sent) = ("tcp_bytes_received", "tcp_bytes_sent");
        Carried { received: self.daemon.counter(received), sent: self.daemon.counter(sent) }
    }

    /// Waits until exactly these bytes were carried since the start, and asserts that they were all
    /// that there was: no socket was the kernel's, and the kernel here saw no segment.
    ///
    /// # Panics
    /// Something took another way.
    pub fn carried_exactly(&self, meant: Carried) {
        wait_for("all bytes on the way of Calisto", || match self.carried() {
            carried if carried == meant => Ok(()),
            carried => Err(format!("{carried:?}, not {meant:?}")),
        });
        self.all_was_accelerated();
    }

    /// The same where a protocol does not say how many bytes it needs around those that were asked
    /// for: at least `meant`, and at most a hundredth and a few KiB more.
    ///
    /// # Panics
    /// Something took another way.
    pub fn carried_about(&self, meant: Carried) {
        let fits = |count: u64, least: u64| (least..=least + least / 100 + 8192).contains(&count);
        wait_for("all bytes on the way of Calisto", || match self.carried() {
            Carried { received, sent }
                if fits(received, meant.received) && fits(sent, meant.sent) =>
            {
                Ok(())
            }
            carried => Err(format!("{carried:?}, not about {meant:?}")),
        });
        self.all_was_accelerated();
    }

    /// Asserts that no socket was left to the kernel, and that the kernel here opened or accepted
    /// no connection. (Calls to where nobody listens yet are the kernel's to refuse.)
    ///
    /// # Panics
    /// One was, or it did.
    pub fn all_was_accelerated(&self) {
        assert_eq!(self.fallbacks(), [], "sockets were left to the kernel");
        self.kernel_has_no_connections();
    }

    /// Asserts that the kernel here opened or accepted no connection.
    ///
    /// # Panics
    /// It did.
    pub fn kernel_has_no_connections(&self) {
        let seen = kernel_connections(self.here()) - self.kernel_before;
        assert_eq!(seen, 0, "the kernel has connections");
    }

    /// What the kernel has had until now is not asked about: whoever knocks while a server starts
    /// may meet its kernel's listener, which is there first.
    pub fn begin_counting(&mut self) {
        self.kernel_before = kernel_connections(self.here());
    }

    /// An honest program is served as ever, whatever others do.
    ///
    /// # Panics
    /// It is not.
    pub fn others_are_served(&self) {
        const PYTHON: &str = "/usr/bin/python3";
        let script = |name: &str| project().join("tests/programs").join(name).display().to_string();
        let host = self.here().ipv4().to_string();
        let mut server = self.run(&[PYTHON, &script("asyncio_server.py"), "0.0.0.0", "8000"]);
        server.wait_until_it_says("listening");
        let client = [PYTHON, &script("asyncio_client.py"), &host, "8000", "5", "50000"];
        assert!(self.run_there(&client).succeed().ends_with("are right\n"));
        server.kill();
    }

    /// Waits until no socket is served, no memory is lent and the daemon has no descriptor that it
    /// did not have before: all programs have ended.
    ///
    /// # Panics
    /// Something stays.
    pub fn nothing_is_left(&self) {
        // A daemon without a CPU takes its time, and so do its questioners.
        wait_within(3 * TIMEOUT, "an end without remains", || {
            // Before anything is asked: the connection of a question goes a moment after its
            // answer.
            let open = descriptors(self.daemon.pid());
            let sockets = self.sockets();
            let count = |name: &str| self.daemon.counter(name);
            let left = (sockets.len(), count("tcp_flows"), count("tcp_ring_bytes"));
            std::thread::sleep(Duration::from_millis(10));
            if left == (0, 0, 0) && open.len() <= self.descriptors_before {
                return Ok(());
            }
            let before = self.descriptors_before;
            Err(format!(
                "{left:?} sockets, flows and bytes of rings, more than {before} descriptors: \
                 {open:?}, {sockets:?}"
            ))
        });
        let died = self.daemon.said().contains("panicked");
        assert!(!died, "{}", self.daemon.said());
    }
}

/// Connections that the kernel of `side` has opened or accepted so far.
fn kernel_connections(side: &Side) -> u64 {
    kernel_tcp(side, "ActiveOpens") + kernel_tcp(side, "PassiveOpens")
}

/// What a process has open.
fn descriptors(pid: u32) -> Vec<String> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    // One that is closed meanwhile is not open.
    let target = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.path().read_link().ok();
    folder.filter_map(target).map(|target| target.display().to_string()).collect()
}
