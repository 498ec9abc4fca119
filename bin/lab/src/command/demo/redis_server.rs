//! redis-server as Debian has it: on Linux's sockets, or on those of the data path.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cli::failure::Failure;
use cli::program;
use rustix::process::Signal;
use sys::child::{self, Start};
use sys::cpu_set::CpuSet;
use testbed::Testbed;

use super::progress::check_stop;

/// One that is not ready by then will not be.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// One attempt to connect.
const ATTEMPT: Duration = Duration::from_millis(250);
/// Where Debian keeps daemons, outside the PATH of ordinary users.
const ALSO: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The programs of the act, and Debian's packages that have them.
const PROGRAMS: [(&str, &str); 2] =
    [("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")];

/// The server, and what asks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Programs {
    pub(super) server: PathBuf,
    pub(super) benchmark: PathBuf,
}

impl Programs {
    /// Finds them; what is missing is said with the command that installs it.
    pub(super) fn find() -> Result<Self, Failure> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(ALSO.map(PathBuf::from));
        Self::among(&folders.collect::<Vec<_>>())
    }

    fn among(folders: &[PathBuf]) -> Result<Self, Failure> {
        let [server, benchmark] = PROGRAMS.map(|(name, _)| {
            folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file())
        });
        match (server, benchmark) {
            (Some(server), Some(benchmark)) => Ok(Self { server, benchmark }),
            (server, benchmark) => {
                let all = PROGRAMS.iter().zip([server, benchmark]);
                let missing = all.filter(|(_, found)| found.is_none());
                let pairs = missing.map(|((name, package), _)| format!("{name}={package}"));
                Err(Failure::new(format!(
                    "the redis act needs programs that are not here: script/install-missing {}",
                    pairs.collect::<Vec<_>>().join(" ")
                )))
            }
        }
    }
}

/// A running redis-server; dropped, it is gone.
pub(super) struct RedisServer {
    process: Child,
}

impl RedisServer {
    /// Starts `program` at `address` of the server's side, on `cpu`, and waits until it takes
    /// connections. With `apps`, a daemon's socket for programs, it is started by `calisto run`,
    /// and only if it can be accelerated.
    pub(super) fn start(
        bed: &Testbed,
        program: &Path,
        address: SocketAddr,
        cpu: Option<usize>,
        apps: Option<&Path>,
    ) -> Result<Self, Failure> {
        let mut command = match apps {
            None => bed.server().command(program),
            Some(socket) => {
                let mut command = bed.server().command(program::find(program::COMMAND)?);
                command.args(["run", "--strict", "--socket"]).arg(socket).arg("--").arg(program);
                command
            }
        };
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        command.args(["--bind", &ip, "--port", &port, "--protected-mode", "no"]);
        // Nothing on disk: the sockets are to be seen.
        command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
        let mut server = Self { process: spawn(command, cpu)? };
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            check_stop()?;
            server.check_alive()?;
            let attempt = || TcpStream::connect_timeout(&address, ATTEMPT).is_ok();
            if bed.client().enter(attempt).map_err(Failure::new)? {
                return Ok(server);
            }
            if Instant::now() > deadline {
                return Err(Failure::new(format!(
                    "redis-server takes no connections at {address} after {} s",
                    START_TIMEOUT.as_secs()
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// An error once it has ended by itself.
    pub(super) fn check_alive(&mut self) -> Result<(), Failure> {
        match self.process.try_wait() {
            Ok(Some(status)) => {
                let said = said(&mut self.process);
                Err(Failure::new(format!("redis-server ended early ({status}): {said}")))
            }
            Ok(None) => Ok(()),
            Err(error) => Err(Failure::new(format!("redis-server cannot be watched: {error}"))),
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It has ended already, or this ends it; either way nothing more can be done.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a program of the act on `cpu`; it ends with us.
pub(super) fn spawn(mut command: Command, cpu: Option<usize>) -> Result<Child, Failure> {
    let cpus = cpu.map(CpuSet::only);
    child::prepare(
        &mut command,
        Start { cpus, parent_death: Some(Signal::KILL), ..Start::default() },
    );
    // A group of its own: Ctrl-C is ours to handle.
    command.process_group(0).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|error| Failure::new(format!("cannot start {program}: {error}")))
}

/// What a program that has ended has complained of.
pub(super) fn said(process: &mut Child) -> String {
    let mut said = String::new();
    if let Some(errors) = process.stderr.take() {
        // What can be read is said; that some of it cannot changes nothing.
        let _ = errors.take(4096).read_to_string(&mut said);
    }
    said.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_command_that_installs_it() {
        let folder = std::env::temp_dir().join(format!("calisto-redis-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        let folders = [folder.clone()];
        let told = Programs::among(&folders).expect_err("there is none").to_string();
        let both = "install-missing redis-server=redis-server redis-benchmark=redis-tools";
        assert!(told.ends_with(both), "{told}");
        std::fs::write(folder.join("redis-server"), "").expect("it can be written");
        let told = Programs::among(&folders).expect_err("one is missing").to_string();
        assert!(told.ends_with("install-missing redis-benchmark=redis-tools"), "{told}");
        std::fs::write(folder.join("redis-benchmark"), "").expect("it can be written");
        let found = Programs::among(&folders).expect("both are there");
        assert_eq!(found.server, folder.join("redis-server"));
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
