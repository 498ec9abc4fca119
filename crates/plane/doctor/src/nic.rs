//! One interface: everything about it that a port of it will meet.

mod drivers;
mod facts;
mod interrupts;
mod link;
mod offloads;
mod queues;
mod xdp;

use sys::cpu_set::CpuSet;
use sys::interface::Interface;

use crate::Finding;
use crate::kernel::KernelVersion;

pub(crate) use facts::NicFacts;

/// What of the machine decides what an interface's facts mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// CPUs that we may run on.
    pub allowed: Vec<u16>,
    /// CPUs of a slice that was asked about.
    pub slice: Option<CpuSet>,
    /// NUMA nodes.
    pub nodes: usize,
    /// Whether irqbalance(1) runs.
    pub irqbalance: bool,
    /// Whether a daemon of ours runs.
    pub daemon_runs: bool,
    /// Bytes of a frame.
    pub frame_bytes: u32,
}

pub(crate) fn gather(interface: &Interface, kernel: Option<KernelVersion>) -> NicFacts {
    facts::gather(interface, kernel)
}

/// What that means.
pub(crate) fn judge(facts: &NicFacts, context: &Context) -> Vec<Finding> {
    let mut findings = link::judge(facts, context);
    findings.extend(xdp::judge(facts, context));
    findings.extend(queues::judge(facts));
    findings.extend(offloads::judge(facts));
    findings.extend(interrupts::judge(facts, context));
    findings
}

#[cfg(test)]
mod tests {
    use sys::ethtool::{Channels, Driver};
    use sys::netdev::XdpFeatures;

    use super::*;
    use crate::Level;

    /// A port of a NIC of 100 Gbit/s as it comes, in a machine with two nodes of 64 CPUs.
    pub(super) fn ice() -> NicFacts {
        NicFacts {
            name: "eth1".to_owned(),
            up: true,
            running: true,
            mtu: 1500,
            program: None,
            program_name: None,
            driver: Some(Driver { name: "ice".to_owned(), bus: "0000:03:00.0".to_owned() }),
            features: Some(XdpFeatures {
                native: true,
                redirect: true,
                sends: true,
                zero_copy: true,
                pieces: true,
            }),
            kernel: Some(KernelVersion(6, 12)),
            queues: Channels { rx: 16, tx: 16 },
            queues_max: Some(128),
            rss_table: Some((0..2048).map(|entry| entry % 16).collect()),
            udp_ports_hashed: Some(true),
            flags: None,
            offloads: Vec::new(),
            rings: None,
            coalescing: None,
            deferral: None,
            node: None,
            interrupts: Vec::new(),
        }
    }

    /// One end of a veth pair without offloads.
    pub(super) fn veth() -> NicFacts {
        NicFacts {
            name: "veth0".to_owned(),
            driver: Some(Driver { name: "veth".to_owned(), bus: String::new() }),
            features: Some(XdpFeatures {
                native: true,
                redirect: true,
                sends: true,
                zero_copy: false,
                pieces: true,
            }),
            queues: Channels { rx: 2, tx: 2 },
            queues_max: None,
            rss_table: None,
            udp_ports_hashed: None,
            ..ice()
        }
    }

    pub(super) fn context() -> Context {
        Context {
            allowed: (0..128).collect(),
            slice: None,
            nodes: 2,
            irqbalance: false,
            daemon_runs: false,
            frame_bytes: 4096,
        }
    }

    #[test]
    fn no_interface_alone_makes_every_port_impossible() {
        let worst = NicFacts {
            up: false,
            mtu: 65_536,
            features: Some(XdpFeatures::default()),
            program: Some(sys::interface::XdpAttached { program_id: 1, generic: false }),
            ..ice()
        };
        let findings = judge(&worst, &context());
        assert!(findings.iter().all(|finding| !finding.blocks_ports));
        assert!(findings.iter().filter(|finding| finding.level >= Level::Worse).count() >= 4);
    }

    #[test]
    fn every_line_names_its_interface() {
        for finding in judge(&ice(), &context()) {
            assert!(finding.subject.starts_with("eth1 "), "{finding}");
        }
    }
}
