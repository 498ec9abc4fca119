//! A real `calistod` in a namespace, with what the cases look at from outside.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base::Nanos;
use rustix::process::Signal;
use testbed::{Testbed, TestbedConfig};

use crate::error::{Error, OrNeeds};
use crate::place::{Cpus, ScratchDir};
use crate::process::Process;
use crate::programs;

/// How long it may take to start.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Files of its folder.
const CONFIG: &str = "calisto.toml";
const LOG: &str = "daemon.log";

/// A wire with a client's namespace at one end and the daemon at the other; everything is gone
/// with this value.
pub(crate) struct Harness {
    daemon: Process,
    pub(crate) bed: Testbed,
    folder: ScratchDir,
}

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holdings {
    pub(crate) descriptors: usize,
    /// Mappings of memory that is shared with applications.
    pub(crate) regions: usize,
    pub(crate) resident_kib: u64,
}

impl Harness {
    /// Starts the daemon, all of its threads on the server's CPU, and waits until traffic flows.
    /// It serves nothing itself.
    pub(super) fn start(cpus: Cpus) -> Result<Self, Error> {
        Self::start_with(cpus, "")
    }

    /// The same with more of a configuration: whole sections.
    pub(crate) fn start_with(cpus: Cpus, sections: &str) -> Result<Self, Error> {
        let bed = Testbed::new(TestbedConfig::default()).or_needs("pair of namespaces")?;
        let folder = ScratchDir::new("apps").or_needs("folder for sockets")?;
        let admin = folder.path().join("admin.sock").display().to_string();
        let port = format!("xdp:{}", bed.server().interface());
        let text = format!("admin_socket = {admin:?}\nports = [{port:?}]\n{sections}");
        std::fs::write(folder.path().join(CONFIG), text).or_needs("configuration file")?;
        let daemon = spawn(&bed, folder.path(), cpus)?;
        let mut harness = Self { daemon, bed, folder };
        harness.await_ready()?;
        Ok(harness)
    }

    /// Ends the daemon by a signal, and waits until it is gone.
    pub(crate) fn end_by(&mut self, signal: Signal) {
        self.daemon.signal(signal);
        self.daemon.wait();
    }

    /// Starts another daemon in the place of one that has ended, with a log of its own.
    pub(crate) fn start_again(&mut self, cpus: Cpus) -> Result<(), Error> {
        self.daemon = spawn(&self.bed, self.folder.path(), cpus)?;
        self.await_ready()
    }

    fn await_ready(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            let said = self.said()?;
            if said.lines().any(|line| line.starts_with("ready: ")) {
                return Ok(());
            }
            let ended = self.daemon.ended()?.is_some();
            if ended || began.elapsed() > TIMEOUT {
                return Err(format!("it says: {said}")).or_needs("running calistod");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What the daemon and its guardian have said.
    pub(crate) fn said(&self) -> Result<String, Error> {
        std::fs::read_to_string(self.log()).or_needs("log of calistod")
    }

    /// Where operators ask.
    pub(crate) fn admin(&self) -> PathBuf {
        self.folder.path().join("admin.sock")
    }

    /// Where applications attach.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("apps.sock")
    }

    /// The daemon's address, with a port.
    pub(crate) fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::from((self.bed.server().ipv4(), port))
    }

    /// The same as an application writes what it listens on.
    pub(crate) fn listener(&self, port: u16) -> String {
        format!("udp:{}", self.address(port))
    }

    /// The daemon's process.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// The client's address.
    pub(super) fn client(&self) -> IpAddr {
        self.bed.client().ipv4().into()
    }

    /// CPU time of the daemon's loop so far.
    pub(crate) fn dispatcher_cpu_time(&self) -> Result<Nanos, Error> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.daemon.pid()));
        for task in tasks.or_needs("look into /proc")?.flatten() {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name));
            if read("comm").is_ok_and(|comm| comm.trim() == "dispatcher") {
                let stat = read("schedstat").or_needs("look into /proc")?;
                let run = stat.split_ascii_whitespace().next().and_then(|ns| ns.parse().ok());
                return run.map(Nanos).ok_or("no schedstat").or_needs("look into /proc");
            }
        }
        Err("it has no thread of that name").or_needs("dispatcher of calistod")
    }

    /// Where its log is.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join(LOG)
    }

    /// Where its files are: only root may look there, unless somebody says otherwise.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What `calisto` answers about it to these words.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, Error> {
        let mut command = Command::new(programs::command()?);
        let output = command.args(words).arg("--admin").arg(self.admin()).output();
        let output = output.or_needs("running calisto")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr)).or_needs("answer of calistod")
        }
    }

    /// What the daemon holds now.
    pub(crate) fn holdings(&self) -> Result<Holdings, Error> {
        holdings(self.daemon.pid())
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // Nothing that it would do in order is wanted any more.
        self.daemon.kill();
    }
}

/// Starts a daemon with the configuration of `folder`, all of its threads on the server's CPU.
fn spawn(bed: &Testbed, folder: &Path, cpus: Cpus) -> Result<Process, Error> {
    let output = File::create(folder.join(LOG)).or_needs("log of calistod")?;
    let errors = output.try_clone().or_needs("log of calistod")?;
    let mut command = bed.server().command(programs::daemon()?);
    command.arg("--config").arg(folder.join(CONFIG)).stdin(Stdio::null());
    command.stdout(output).stderr(errors);
    Process::start(command, cpus.server)
}

/// What a process holds now, from /proc.
fn holdings(pid: u32) -> Result<Holdings, Error> {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/{name}")).or_needs("look into /proc")
    };
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).or_needs("look into /proc")?;
    let regions = read("maps")?.lines().filter(|line| line.contains("calisto-app")).count();
    let status = read("status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
    Ok(Holdings {
        descriptors: descriptors.count(),
        regions,
        resident_kib: resident.ok_or("there is no VmRSS").or_needs("look into /proc")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_region_and_an_open_descriptor_are_seen_and_gone_when_they_are() {
        let ourselves = || holdings(std::process::id()).expect("we are there");
        let sizes = shm::packets::PacketSizes {
            workers: 1,
            ring_slots: 64,
            chunk_bytes: 2048,
            receive_chunks: 8,
            send_chunks: 8,
            handovers: 1,
        };
        // Other tests of this process hold some of their own, but not that many.
        let made: Vec<_> = (0..200)
            .map(|_| shm::packets::PacketServer::create(sizes).expect("100 KiB fit"))
            .collect();
        let with = ourselves();
        drop(made);
        let without = ourselves();
        assert!(without.regions + 100 < with.regions, "{with:?} {without:?}");
        assert!(without.descriptors + 100 < with.descriptors, "{with:?} {without:?}");
        assert!(without.resident_kib > 0, "{without:?}");
    }
}
