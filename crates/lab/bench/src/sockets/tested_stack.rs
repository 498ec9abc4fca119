//! A client's namespace, a wire, and a server's namespace with somebody's TCP in it.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base::Nanos;
use sys::clock::now;
use sys::ethtool::{self, Offload};
use testbed::{Side, Testbed, TestbedConfig};

use super::accelerated::{Accelerated, Profile};
use super::witness::Carried;
use crate::apps::harness::{Harness, Holdings};
use crate::cases::Plan;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::place::Cpus;
use crate::process::cpu_time;
use crate::running::Running;
use crate::tcp::harness::set;

/// How long a server may take to be ready.
const TIMEOUT: Nanos = Nanos::from_secs(10);

/// One attempt to connect.
const ATTEMPT: Duration = Duration::from_millis(250);

/// Linux's, at both ends: its default elsewhere may pace. In a namespace without help of the host
/// it is this or that default; where nothing is lost it does what CUBIC does.
const CONGESTION: &str = "reno";

/// What the (pretended) hardware of a kernel's wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offloads {
    /// What veth has by default.
    Default,
    /// The same without TSO, GSO and GRO at both ends.
    Whole,
    /// As on the daemon's wire: transmit checksums are off as well.
    None,
}

/// Somewhere to serve.
pub(crate) struct TestedStack {
    name: &'static str,
    cpus: Cpus,
    place: Site,
}

enum Site {
    Linux(Testbed),
    Calisto(Accelerated),
}

impl TestedStack {
    /// Linux's TCP, without anything of ours.
    pub(crate) fn linux(cpus: Cpus, offloads: Offloads) -> Result<Self, Error> {
        let config =
            TestbedConfig { offloads: offloads != Offloads::None, ..TestbedConfig::default() };
        let bed = Testbed::new(config).or_needs("pair of namespaces")?;
        let name = match offloads {
            Offloads::Default => "Linux",
            Offloads::Whole => "Linux without TSO/GSO/GRO",
            Offloads::None => "Linux without offloads",
        };
        if offloads == Offloads::Whole {
            for side in [bed.client(), bed.server()] {
                let off = || {
                    [Offload::Tso, Offload::Gso, Offload::Gro]
                        .into_iter()
                        .try_for_each(|offload| ethtool::set(side.interface(), offload, false))
                };
                let done = side.enter(off).or_needs("thread in a namespace")?;
                done.or_needs("veth without offloads")?;
            }
        }
        Self { name, cpus, place: Site::Linux(bed) }.tuned()
    }

    /// Ours; in a rehearsal Linux's, as it is on our wire.
    pub(crate) fn calisto(plan: &Plan) -> Result<Self, Error> {
        Self::calisto_with(plan, "")
    }

    /// The same with more of the daemon's configuration: whole sections.
    pub(crate) fn calisto_with(plan: &Plan, sections: &str) -> Result<Self, Error> {
        if plan.is_rehearsal {
            let linux = Self::linux(plan.cpus, Offloads::None)?;
            return Ok(Self { name: "Linux in our place", ..linux });
        }
        let place = Site::Calisto(Accelerated::new(plan.cpus, sections)?);
        Self { name: "Calisto", cpus: plan.cpus, place }.tuned()
    }

    fn tuned(self) -> Result<Self, Error> {
        for side in [self.client(), self.server()] {
            set(side, "net/ipv4/tcp_congestion_control", CONGESTION)?;
        }
        set(self.client(), "net/ipv4/ip_local_port_range", "1024 65535")?;
        // Else the names of closed connections would be taken for a minute.
        set(self.client(), "net/ipv4/tcp_tw_reuse", "1")?;
        // More connections come at once than a short queue holds.
        set(self.server(), "net/core/somaxconn", "8192")?;
        Ok(self)
    }

    /// Whose TCP it is.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The wire with both ends.
    pub(crate) fn bed(&self) -> &Testbed {
        match &self.place {
            Site::Linux(bed) => bed,
            Site::Calisto(accelerated) => &accelerated.harness.bed,
        }
    }

    /// The client's namespace.
    pub(crate) fn client(&self) -> &Side {
        self.bed().client()
    }

    /// The server's namespace.
    pub(crate) fn server(&self) -> &Side {
        self.bed().server()
    }

    /// The server's address.
    pub(crate) fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::from((self.server().ipv4(), port))
    }

    /// The daemon's process, where there is one.
    pub(crate) fn daemon(&self) -> Option<u32> {
        match &self.place {
            Site::Linux(_) => None,
            Site::Calisto(accelerated) => Some(accelerated.harness.pid()),
        }
    }

    fn harness(&self) -> Option<&Harness> {
        match &self.place {
            Site::Linux(_) => None,
            Site::Calisto(accelerated) => Some(&accelerated.harness),
        }
    }

    /// What the daemon holds, where there is one.
    pub(crate) fn holdings(&self) -> Result<Option<Holdings>, Error> {
        self.harness().map(Harness::holdings).transpose()
    }

    /// Programs that the daemon, where there is one, has put out: all that are gone and have
    /// neither left nor died.
    pub(crate) fn programs_put_out(&self) -> Result<u64, Error> {
        let Some(harness) = self.harness() else { return Ok(0) };
        let told = harness.ask(&["-j", "apps"])?;
        let told: serde_json::Value = serde_json::from_str(&told).or_needs("list of programs")?;
        let apps = told["apps"].as_array().ok_or("it is none").or_needs("list of programs")?;
        let reasons = apps.iter().filter_map(|app| app["reason"]["name"].as_str());
        Ok(reasons.filter(|reason| !["left", "died"].contains(reason)).count() as u64)
    }

    /// Bytes of the daemon's log, where there is one.
    pub(crate) fn log_bytes(&self) -> Result<u64, Error> {
        let size = |harness: &Harness| std::fs::metadata(harness.log()).map(|log| log.len());
        self.harness().map_or(Ok(0), |harness| size(harness).or_needs("log of calistod"))
    }

    /// Where programs attach, where there is a daemon.
    pub(crate) fn attach_socket(&self) -> Option<PathBuf> {
        self.harness().map(Harness::socket)
    }

    /// Lets other users than root come as far as the daemon's socket.
    pub(crate) fn let_everybody_attach(&self) -> Result<(), Error> {
        let everybody = std::fs::Permissions::from_mode(0o755);
        self.harness().map_or(Ok(()), |harness| {
            std::fs::set_permissions(harness.folder(), everybody).or_needs("way to calistod")
        })
    }

    /// CPU time of the daemon, where there is one.
    pub(crate) fn daemon_cpu_time(&self) -> Result<Nanos, Error> {
        self.daemon().map_or(Ok(Nanos::ZERO), cpu_time)
    }

    /// A command that will run `program` on the server's side.
    pub(crate) fn command(&self, profile: Profile, program: &Path) -> Result<Command, Error> {
        match &self.place {
            Site::Linux(bed) => Ok(bed.server().command(program)),
            Site::Calisto(accelerated) => accelerated.command(profile, program),
        }
    }

    /// The same for a user without rights.
    pub(crate) fn command_as(
        &self,
        uid: u32,
        profile: Profile,
        program: &Path,
    ) -> Result<Command, Error> {
        let whole = self.command(profile, program)?;
        let mut command = self.server().command("setpriv");
        let user = [format!("--reuid={uid}"), format!("--regid={uid}")];
        command.args(user).args(["--clear-groups", "--"]);
        // Behind `ip netns exec NAMESPACE`, which only root may say.
        command.args(whole.get_args().skip(3));
        let envs = whole.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(envs);
        Ok(command)
    }

    /// Starts a server on the server's CPU, and waits until it serves `port`.
    pub(crate) fn serve(
        &self,
        profile: Profile,
        program: &Path,
        words: &[&str],
        port: u16,
    ) -> Result<Running, Error> {
        // The one before may still be answered for by a daemon that has not heard of its end.
        let began = now();
        while self.is_taken(port)? {
            unless_interrupted()?;
            if now().since(began) > TIMEOUT {
                return Err("somebody else has it").or_needs("port of a server");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut command = self.command(profile, program)?;
        command.args(words);
        let mut running = Running::start(command, self.cpus.server)?;
        let began = now();
        while !self.is_served(port)? {
            unless_interrupted()?;
            running.unless_ended()?;
            if now().since(began) > TIMEOUT {
                let why = format!("{TIMEOUT} have gone by; it says: {}", running.said());
                return Err(why).or_needs("server that is ready");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(running)
    }

    /// Whether a connection to that port is taken; on our stack: by us, not by the kernel.
    fn is_served(&self, port: u16) -> Result<bool, Error> {
        let before = Carried::by_kernel_of(self.server())?;
        let taken = self.is_taken(port)?;
        let carried = Carried::by_kernel_of(self.server())?.since(before);
        Ok(taken && (carried.segments > 0) == matches!(self.place, Site::Linux(_)))
    }

    /// Whether a connection to that port is taken by anybody.
    fn is_taken(&self, port: u16) -> Result<bool, Error> {
        let address = self.address(port);
        let attempt = || TcpStream::connect_timeout(&address, ATTEMPT).is_ok();
        self.client().enter(attempt).or_needs("thread in a namespace")
    }

    /// Does `work`, during which every byte has to be carried by whom this stack is named after.
    pub(crate) fn witnessed<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let before = Carried::by_kernel_of(self.server())?;
        let done = work()?;
        let carried = Carried::by_kernel_of(self.server())?.since(before);
        match &self.place {
            Site::Calisto(_) if carried.segments > 0 || carried.loopback_bytes > 0 => {
                let Carried { segments, loopback_bytes } = carried;
                let why = format!(
                    "the kernel carried {segments} segments of it, and {loopback_bytes} bytes over lo"
                );
                Err(why).or_needs("traffic that was accelerated")
            }
            Site::Linux(_) if carried.segments == 0 => {
                Err("the kernel carried nothing").or_needs("traffic of the baseline")
            }
            _ => Ok(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::programs::{Compiled, EPOLL_ECHO};
    use super::*;
    use crate::printed::needs_root;

    #[test]
    fn a_server_is_ready_when_it_is_taken_and_an_idle_baseline_is_no_measurement() {
        let cpus = Cpus::choose();
        needs_root();
        let tested_stack =
            TestedStack::linux(cpus, Offloads::Whole).expect("namespaces can be made");
        let echo = Compiled::new(EPOLL_ECHO).expect("there is a compiler");
        let address = tested_stack.address(7100);
        let words = [address.ip().to_string(), "7100".to_owned()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _running =
            tested_stack.serve(Profile::Latency, echo.path(), &words, 7100).expect("it listens");
        let ask = || {
            let connected = tested_stack.client().enter(|| TcpStream::connect(address));
            connected.or_needs("thread")?.or_needs("connection").map(drop)
        };
        tested_stack.witnessed(ask).expect("the kernel has seen it");
        // The last segments of connections that have just ended may still be on their way.
        let began = now();
        let told = loop {
            match tested_stack.witnessed(|| Ok(())) {
                Err(told) => break told.to_string(),
                Ok(()) => assert!(now().since(began) < TIMEOUT, "nobody asks, and it goes on"),
            }
        };
        assert!(told.contains("carried nothing"), "{told}");
        let told = tested_stack.serve(Profile::Latency, echo.path(), &["10.99.0.1", "7101"], 7101);
        let told = told.map(drop).expect_err("it is no address of this host").to_string();
        assert!(told.contains("listen"), "{told}");
    }
}
