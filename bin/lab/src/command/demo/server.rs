//! The daemon of the demo: in the server's namespace, with a configuration of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base::Nanos;
use cli::daemon::Daemon;
use cli::failure::Failure;
use cli::program::{self, ConfigFile};
use config::Config;
use rustix::process::{Pid, Signal};
use testbed::{Side, Testbed};

use super::progress::{Progress, check_stop};

/// A daemon that is not ready by then will not be.
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// UDP port that is served: echo's (RFC 862).
pub(super) const UDP_PORT: u16 = 7;

/// A running daemon; dropped, it is gone and so are its files.
pub(super) struct Server {
    process: Child,
    /// Where its admin socket is.
    folder: Folder,
    port: String,
}

impl Server {
    /// Starts it with `settings` (KEY=VALUE) on a port of this kind: `xdp`, `af_packet`, or `auto`:
    /// AF_XDP, or a packet socket where that is refused.
    pub(super) fn start(
        kind: &str,
        settings: &[String],
        bed: &Testbed,
        tell: &Progress,
    ) -> Result<Self, Failure> {
        let side = bed.server();
        let xdp = format!("xdp:{}", side.interface());
        if kind != "af_packet" {
            match Self::on(&xdp, settings, side) {
                Ok(server) => return Ok(server),
                Err(failure) if kind == "xdp" => return Err(failure),
                Err(failure) => {
                    check_stop()?;
                    tell.say(&format!(
                        "AF_XDP DOES NOT WORK HERE, showing it over a packet socket instead. \
                         Reason: {failure}"
                    ));
                }
            }
        }
        // A packet socket only gets copies. Without the address the kernel has nothing to say to
        // the originals, and the daemon answers for it.
        let address = format!("{}/{}", side.ipv4(), Side::IPV4_PREFIX);
        let remove = ["address", "delete", &address, "dev", side.interface()];
        run(side.command("ip").args(remove))?;
        Self::on(&format!("af_packet:{}", side.interface()), settings, side)
    }

    fn on(port: &str, settings: &[String], side: &Side) -> Result<Self, Failure> {
        let folder = Folder::new()?;
        let (process, _file) = spawn(port, settings, &folder, side)?;
        let mut server = Self { process, folder, port: port.to_owned() };
        server.await_ready()?;
        Ok(server)
    }

    /// Kills it, as nobody ends a daemon: what its guardian said, when that has done its work.
    pub(super) fn kill(&mut self) -> Result<String, Failure> {
        let lost = |error| Failure::new(format!("the daemon is lost: {error}"));
        self.process.kill().map_err(lost)?;
        self.process.wait().map_err(lost)?;
        let mut said = String::new();
        if let Some(errors) = self.process.stderr.take() {
            // The guardian has it too, and ends soon.
            errors.take(1 << 16).read_to_string(&mut said).map_err(lost)?;
        }
        let word = said.lines().find_map(|line| line.split_once("the daemon has died: "));
        word.map(|(_, word)| word.to_owned())
            .ok_or_else(|| Failure::new(format!("the daemon had no guardian: {}", said.trim())))
    }

    /// Starts another one in the place of one that was killed.
    pub(super) fn start_again(&mut self, settings: &[String], side: &Side) -> Result<(), Failure> {
        let (process, _file) = spawn(&self.port, settings, &self.folder, side)?;
        self.process = process;
        self.await_ready()
    }

    /// Has another one take its place, as an operator does; what was said of that.
    pub(super) fn replace(&mut self, settings: &[String], side: &Side) -> Result<String, Failure> {
        let before = self.daemon().process()?.pid();
        let file = ConfigFile::new(&configuration(&self.port, settings, &self.folder)?)?;
        let mut command = side.command(program::find(program::COMMAND)?);
        command.args(["up", "--replace", "--config"]).arg(file.path());
        command.process_group(0).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let next = command.spawn();
        let next =
            next.map_err(|error| Failure::new(format!("cannot start the next daemon: {error}")))?;
        let mut old = std::mem::replace(&mut self.process, next);
        let ready = self.await_ready();
        if ready.is_err() {
            // It may have been left at work.
            let _ = old.kill();
        }
        old.wait().map_err(|error| Failure::new(format!("the daemon is lost: {error}")))?;
        ready?;
        let after = self.daemon().process()?.pid();
        Ok(format!("process {after} serves in place of {before}"))
    }

    /// Waits for the line that says that traffic flows.
    fn await_ready(&mut self) -> Result<(), Failure> {
        let output = self.process.stdout.take();
        let output = output.expect("its output was asked for when it was started");
        let deadline = Instant::now() + START_TIMEOUT;
        while !sys::poll::wait_readable(output.as_fd(), Nanos::from_millis(50)) {
            check_stop()?;
            if Instant::now() > deadline {
                return Err(Failure::new(format!(
                    "the daemon has not become ready within {} s",
                    START_TIMEOUT.as_secs()
                )));
            }
        }
        if first_line(output).starts_with("ready: ") {
            return Ok(());
        }
        let mut said = String::new();
        if let Some(errors) = self.process.stderr.take() {
            // What can be read is said; that some of it cannot changes nothing.
            let _ = errors.take(4096).read_to_string(&mut said);
        }
        let said = said.trim();
        let said = said.strip_prefix("calistod: ").unwrap_or(said);
        Err(Failure::new(if said.is_empty() { "the daemon ended without a word" } else { said }))
    }

    /// How to ask it.
    pub(super) fn daemon(&self) -> Daemon {
        Daemon::at(self.folder.socket())
    }

    /// Where applications attach to it.
    pub(super) fn apps_socket(&self) -> PathBuf {
        self.folder.path.join("apps.sock")
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The port it serves on, as its configuration has it.
    pub(super) fn port(&self) -> &str {
        &self.port
    }

    /// An error once it has ended by itself.
    pub(super) fn check_alive(&mut self) -> Result<(), Failure> {
        match self.process.try_wait() {
            Ok(Some(status)) => Err(Failure::new(format!("the daemon ended early: {status}"))),
            Ok(None) => Ok(()),
            Err(error) => Err(Failure::new(format!("the daemon cannot be watched: {error}"))),
        }
    }

    /// Ends it in order; the port it served on.
    pub(super) fn stop(mut self) -> Result<String, Failure> {
        self.daemon().tell(admin::Command::Stop)?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(self.port.clone()),
                Ok(Some(status)) => {
                    return Err(Failure::new(format!("the daemon ended badly: {status}")));
                }
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(None) => return Err(Failure::new("the daemon does not end when told to")),
                Err(error) => return Err(Failure::new(format!("the daemon is lost: {error}"))),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Who has replaced a daemon waits for the one that it has started, and passes this on.
        if let Ok(None) = self.process.try_wait()
            && let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
            let deadline = Instant::now() + START_TIMEOUT;
            while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // It has ended already, or this ends it; either way nothing more can be done.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a daemon; the file of its configuration is there for as long as the result.
fn spawn(
    port: &str,
    settings: &[String],
    folder: &Folder,
    side: &Side,
) -> Result<(Child, ConfigFile), Failure> {
    let file = ConfigFile::new(&configuration(port, settings, folder)?)?;
    let mut command = side.command(program::find(program::DAEMON)?);
    command.arg("--config").arg(file.path());
    // A group of its own: Ctrl-C is ours to handle, and the daemon's end our decision.
    command.process_group(0).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let process = command.spawn();
    process
        .map(|process| (process, file))
        .map_err(|error| Failure::new(format!("cannot start the daemon: {error}")))
}

fn first_line(output: ChildStdout) -> String {
    let mut line = String::new();
    // An error reads as no line: the daemon has said nothing.
    let _ = BufReader::new(output.take(4096)).read_line(&mut line);
    line
}

/// Runs a command that changes the server's addresses.
pub(super) fn run(command: &mut Command) -> Result<(), Failure> {
    let failed = |why: &str| Failure::new(format!("cannot change the server's addresses: {why}"));
    let output = command.output().map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn configuration(port: &str, settings: &[String], folder: &Folder) -> Result<Config, Failure> {
    let mut config = Config {
        ports: vec![port.to_owned()],
        admin_socket: folder.socket().to_string_lossy().into_owned(),
        ..Config::default()
    };
    config.set_all(settings.iter().map(String::as_str)).map_err(Failure::usage)?;
    Ok(config)
}

/// A folder for the sockets, removed with the value.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("calisto-demo-{}", std::process::id()));
        // Left by a process that had our pid and was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).map_err(|error| {
            Failure::new(format!("cannot make the folder {}: {error}", path.display()))
        })?;
        Ok(Self { path })
    }

    fn socket(&self) -> PathBuf {
        self.path.join("admin.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("calisto: cannot remove {}: {error}", self.path.display());
        }
    }
}
