//! A real `calistod` in a namespace, with what the cases look at from outside.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use base::Nanos;
use rustix::process::Signal;
use testbed::{Daemon, DaemonFolder, Testbed, TestbedConfig};

use crate::error::{Error, OrNeeds};
use crate::place::Cpus;
use crate::programs;

/// A wire with a client's namespace at one end and the daemon at the other; everything is gone
/// with this value.
pub(crate) struct Harness {
    daemon: Daemon,
    pub(crate) bed: Testbed,
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
        let folder = DaemonFolder::new().or_needs("folder of calistod")?;
        let admin = folder.admin_socket().display().to_string();
        let port = format!("xdp:{}", bed.server().interface());
        let config = format!("admin_socket = {admin:?}\nports = [{port:?}]\n{sections}");
        let (program, cpu) = (programs::daemon()?, Some(cpus.server));
        let is_over = sys::signal::stop_requested;
        let daemon = Daemon::start(&program, bed.server(), cpu, folder, &config, &is_over);
        Ok(Self { daemon: daemon.or_needs("running calistod")?, bed })
    }

    /// Ends the daemon by a signal, and waits until it is gone.
    pub(crate) fn end_by(&mut self, signal: Signal) -> Result<(), Error> {
        self.daemon.end_by(signal).or_needs("process of calistod")
    }

    /// Starts another daemon in the place of one that has ended, with a log of its own.
    pub(crate) fn start_again(&mut self) -> Result<(), Error> {
        let mut command = self.bed.server().command(programs::daemon()?);
        command.arg("--config").arg(self.daemon.folder().config());
        let started = self.daemon.start_again(command, &sys::signal::stop_requested);
        started.or_needs("running calistod")
    }

    /// What the daemon and its guardian have said.
    pub(crate) fn said(&self) -> Result<String, Error> {
        self.daemon.said().or_needs("log of calistod")
    }

    /// Where operators ask.
    pub(crate) fn admin(&self) -> PathBuf {
        self.daemon.folder().admin_socket()
    }

    /// Where applications attach.
    pub(crate) fn socket(&self) -> PathBuf {
        self.daemon.folder().apps_socket()
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
        self.daemon.folder().log()
    }

    /// Where its files are: only root may look there, unless somebody says otherwise.
    pub(crate) fn folder(&self) -> &Path {
        self.daemon.folder().path()
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
