//! The daemon of the demo: in the server's namespace, with a configuration of its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use cli::daemon::Daemon;
use cli::failure::Failure;
use cli::program;
use config::Config;
use rustix::process::Signal;
use testbed::{DaemonFolder, Side, Testbed};

use super::progress::{Progress, check_stop};

/// What it has not done by then it will not do.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// UDP port that is served: echo's (RFC 862).
pub(super) const UDP_PORT: u16 = 7;

/// A running daemon; dropped, it is gone and so are its files.
pub(super) struct Server {
    process: testbed::Daemon,
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
        let folder = DaemonFolder::new().map_err(failed)?;
        let (program, config) =
            (program::find(program::DAEMON)?, configuration(port, settings, &folder)?);
        let started = testbed::Daemon::start(
            &program,
            side,
            None,
            folder,
            &config.to_toml(),
            &sys::signal::stop_requested,
        );
        check_stop()?;
        Ok(Self { process: started.map_err(Failure::new)?, port: port.to_owned() })
    }

    /// Kills it, as nobody ends a daemon: what its guardian said, when that has done its work.
    pub(super) fn kill(&mut self) -> Result<String, Failure> {
        self.process.end_by(Signal::KILL).map_err(failed)?;
        let began = Instant::now();
        loop {
            let said = self.process.said().map_err(failed)?;
            let word = said.lines().find_map(|line| line.split_once("the daemon has died: "));
            if let Some((_, word)) = word {
                return Ok(word.to_owned());
            }
            if began.elapsed() > TIMEOUT {
                let why = format!("the daemon had no guardian: {}", said.trim());
                return Err(Failure::new(why));
            }
            check_stop()?;
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Starts another one in the place of one that was killed.
    pub(super) fn start_again(&mut self, settings: &[String], side: &Side) -> Result<(), Failure> {
        let program = program::find(program::DAEMON)?;
        self.start_next(settings, side.command(program))
    }

    /// Has another one take its place, as an operator does; what was said of that.
    pub(super) fn replace(&mut self, settings: &[String], side: &Side) -> Result<String, Failure> {
        let before = self.daemon().process()?.pid();
        let mut command = side.command(program::find(program::COMMAND)?);
        command.args(["up", "--replace"]);
        self.start_next(settings, command)?;
        let after = self.daemon().process()?.pid();
        Ok(format!("process {after} serves in place of {before}"))
    }

    fn start_next(&mut self, settings: &[String], mut command: Command) -> Result<(), Failure> {
        let folder = self.process.folder();
        let config = configuration(&self.port, settings, folder)?;
        std::fs::write(folder.config(), config.to_toml()).map_err(failed)?;
        command.arg("--config").arg(folder.config());
        let started = self.process.start_again(command, &sys::signal::stop_requested);
        check_stop()?;
        started.map_err(Failure::new)
    }

    /// How to ask it.
    pub(super) fn daemon(&self) -> Daemon {
        Daemon::at(self.process.folder().admin_socket())
    }

    /// Where applications attach to it.
    pub(super) fn apps_socket(&self) -> PathBuf {
        self.process.folder().apps_socket()
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The port it serves on, as its configuration has it.
    pub(super) fn port(&self) -> &str {
        &self.port
    }

    /// An error once it has ended by itself.
    pub(super) fn check_alive(&mut self) -> Result<(), Failure> {
        match self.process.ended().map_err(failed)? {
            Some(status) => Err(Failure::new(format!("the daemon ended early: {status}"))),
            None => Ok(()),
        }
    }

    /// Ends it in order; the port it served on.
    pub(super) fn stop(mut self) -> Result<String, Failure> {
        self.daemon().tell(admin::Command::Stop)?;
        let began = Instant::now();
        loop {
            match self.process.ended().map_err(failed)? {
                Some(status) if status.success() => return Ok(self.port.clone()),
                Some(status) => {
                    return Err(Failure::new(format!("the daemon ended badly: {status}")));
                }
                None if began.elapsed() < TIMEOUT => std::thread::sleep(LOOK_EVERY),
                None => return Err(Failure::new("the daemon does not end when told to")),
            }
        }
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::new(format!("the daemon is lost: {error}"))
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

fn configuration(
    port: &str,
    settings: &[String],
    folder: &DaemonFolder,
) -> Result<Config, Failure> {
    let mut config = Config {
        ports: vec![port.to_owned()],
        admin_socket: folder.admin_socket().to_string_lossy().into_owned(),
        ..Config::default()
    };
    config.set_all(settings.iter().map(String::as_str)).map_err(Failure::usage)?;
    Ok(config)
}
