//! The server whose tail is watched while a batch job takes what it leaves.

use crate::apps::harness::Harness;
use crate::cases::Plan;
use crate::error::{Error, OrNeeds};
use crate::helper::{self, Kind};
use crate::place::Cpus;
use crate::process::{Process, cpu_time};
use crate::programs;
use base::Nanos;
use load::transport::kernel::{KernelConfig, KernelUdp};
use load::{Options, Pace};
use std::net::SocketAddr;
use std::process::Command;
use testbed::{Testbed, TestbedConfig};

pub(super) const PORT: u16 = 7;

/// Flows of the client.
pub(super) const FLOWS: u32 = 16;

/// Where requests go, and who answers them.
pub(super) struct Server {
    /// First, because it is attached to the daemon.
    _process: Process,
    pid: u32,
    pub(super) place: Site,
}

pub(super) enum Site {
    Harness(Harness),
    Bed(Testbed),
}

impl Server {
    pub(super) fn start(cpus: Cpus, cores: Option<&str>) -> Result<Self, Error> {
        let program = programs::ourselves()?;
        match cores {
            Some(cores) => {
                let harness = Harness::start_with(
                    cpus,
                    &format!("[cores]\nset = [{}]\n{cores}", cpus.server),
                )?;
                let mut command = Command::new(program);
                let (socket, listen) = (harness.socket(), harness.address(PORT));
                command.args(Kind::Echo { socket, listen }.words());
                let (process, pid) = helper::start(command, cpus.server)?;
                Ok(Self { _process: process, pid, place: Site::Harness(harness) })
            }
            None => {
                let bed = Testbed::new(TestbedConfig::default()).or_needs("pair of namespaces")?;
                let mut command = bed.server().command(program);
                let listen = SocketAddr::from((bed.server().ipv4(), PORT));
                command.args(Kind::KernelEcho { listen }.words());
                let (process, pid) = helper::start(command, cpus.server)?;
                Ok(Self { _process: process, pid, place: Site::Bed(bed) })
            }
        }
    }

    pub(super) fn bed(&self) -> &Testbed {
        match &self.place {
            Site::Harness(harness) => &harness.bed,
            Site::Bed(bed) => bed,
        }
    }

    /// CPU time of all threads that serve.
    pub(super) fn cpu_time(&self) -> Result<Nanos, Error> {
        let daemon = match &self.place {
            Site::Harness(harness) => cpu_time(harness.pid())?,
            Site::Bed(_) => Nanos::ZERO,
        };
        Ok(daemon + cpu_time(self.pid)?)
    }

    pub(super) fn load(
        &self,
        plan: &Plan,
        pace: Pace,
        length: Nanos,
    ) -> Result<load::Report, Error> {
        let wanted = load::Plan {
            pace,
            flows: FLOWS,
            warmup: Nanos::from_millis(plan.pick(150, 100)),
            length,
            grace: Nanos::from_millis(100),
            ..load::Plan::default()
        };
        // Its CPU is its own: it never halts, so that no wake-up of the client is measured.
        let options = Options {
            cpus: vec![plan.cpus.client],
            spin: Nanos::from_secs(1),
            ..Options::default()
        };
        let open = |plan: &load::Plan, _| {
            let config = KernelConfig {
                target: SocketAddr::from((self.bed().server().ipv4(), PORT)),
                sources: None,
                flows: plan.flows,
                payload_bytes: plan.payload_bytes,
                first_port: load::transport::sources::FIRST_PORT,
            };
            let opened = self.bed().client().enter(|| KernelUdp::open(&config));
            opened.map_err(|error| load::Error::Failed(error.to_string()))?
        };
        load::run(&wanted, &options, open, None).or_needs("load")
    }
}
