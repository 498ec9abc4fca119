//! Whoever stands between the two wires and hands packets on.

use std::process::Command;

use super::functions::{bridge, router};
use super::hooked::Hooked;
use super::in_process::{InProcess, Stop, packet_rings, slice_of};
use super::tools::Tools;
use super::wires::{IN, OUT, Wires};
use crate::error::Error;
use crate::place::Cpus;
use crate::running::Running;
use crate::sockets::programs::{Compiled, find};

/// The programs that forward end by themselves after this, whatever becomes of us.
const LONGEST_MILLIS: &str = "60000";

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarder {
    /// A slice of both wires, with function l2.
    Bridge,
    /// A slice of both wires, with function router.
    Router,
    /// Our port over a packet socket's ring.
    PacketRings,
    /// DPDK's testpmd over AF_XDP.
    TestpmdXdp,
    /// The same over packet sockets.
    TestpmdPacket,
    /// pcap_dispatch() and pcap_inject().
    Pcap,
    /// recvmmsg(2) and sendmmsg(2).
    Mmsg,
    /// A chain whose router runs in the XDP hook.
    Hook,
    /// The same behind an acl, whose last rule each packet meets.
    HookAcl,
    /// A program in the kernel that redirects.
    XdpRedirect,
    /// One that asks the kernel's tables where to.
    XdpRoute,
    /// The kernel's routing.
    Kernel,
}

impl Forwarder {
    /// All of them, ours first.
    pub(super) const ALL: [Self; 9] = [
        Self::Bridge,
        Self::Router,
        Self::TestpmdXdp,
        Self::PacketRings,
        Self::TestpmdPacket,
        Self::Pcap,
        Self::Mmsg,
        Self::XdpRedirect,
        Self::Kernel,
    ];

    /// What runs in the hook, and what it is held against.
    pub(super) const IN_HOOK: [Self; 5] =
        [Self::Hook, Self::HookAcl, Self::XdpRoute, Self::XdpRedirect, Self::Kernel];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hook => "hook, router",
            Self::HookAcl => "hook, acl of 16 rules and router",
            Self::XdpRoute => "XDP bpf_fib_lookup",
            Self::Bridge => "slice, l2",
            Self::Router => "slice, router",
            Self::PacketRings => "TPACKET_V3",
            Self::TestpmdXdp => "testpmd on af_xdp",
            Self::TestpmdPacket => "testpmd on af_packet",
            Self::Pcap => "libpcap",
            Self::Mmsg => "recvmmsg",
            Self::XdpRedirect => "XDP redirect",
            Self::Kernel => "kernel ip_forward",
        }
    }

    /// Whether packets lose a hop in it.
    pub(super) fn routes(self) -> bool {
        self.asks_kernel() || self == Self::Router
    }

    /// Whether the kernel has to forward for it: it does, or its tables are asked.
    pub(super) fn asks_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Hook | Self::HookAcl | Self::XdpRoute)
    }

    /// Whether it is ours.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Bridge | Self::Router | Self::Hook | Self::HookAcl)
    }

    /// Starts it; whether packets come through is to be seen at the sink.
    pub(super) fn start(self, tools: &Tools, wires: &Wires, cpus: Cpus) -> Result<Started, Error> {
        let program = |tool: &Compiled, words: &[&str]| {
            let mut command = wires.inner().command(tool.path());
            command.args(words).args([IN, OUT, LONGEST_MILLIS]);
            Running::start(command, cpus.server).map(Started::Program)
        };
        let loops = |work: fn(&Stop) -> Result<(), Error>| {
            InProcess::start(wires.inner().namespace(), cpus.server, work).map(Started::Loop)
        };
        match self {
            Self::Bridge => loops(|stop| slice_of(stop, bridge()?)),
            Self::Router => loops(|stop| slice_of(stop, router()?)),
            Self::PacketRings => loops(packet_rings),
            Self::TestpmdXdp => testpmd(wires, cpus, "net_af_xdp"),
            Self::TestpmdPacket => testpmd(wires, cpus, "net_af_packet"),
            Self::Pcap => program(&tools.pcap_forward, &[]),
            Self::Mmsg => program(&tools.mmsg_forward, &[]),
            Self::Hook | Self::HookAcl => {
                let has_rules = self == Self::HookAcl;
                let chain = Hooked::start(wires.inner().namespace(), cpus.server, has_rules);
                chain.map(Started::Hooked)
            }
            Self::XdpRedirect => program(&tools.xdp, &["redirect"]),
            Self::XdpRoute => program(&tools.xdp, &["route"]),
            Self::Kernel => Ok(Started::Kernel),
        }
    }
}

/// testpmd between the wires: from one to the other and back, as it comes.
fn testpmd(wires: &Wires, cpus: Cpus, driver: &str) -> Result<Started, Error> {
    let program = find("dpdk-testpmd", "dpdk-dev")?;
    let Cpus { client, server } = cpus;
    let mut command: Command = wires.inner().command(program);
    // The first core of the list is the one that does not forward.
    command.args(["--lcores", &format!("0@{client},1@{server}")]);
    command.args(["--no-huge", "-m", "512", "--no-pci", "--no-telemetry", "--no-shconf"]);
    for (at, link) in [IN, OUT].into_iter().enumerate() {
        command.arg(format!("--vdev={driver}{at},iface={link}"));
    }
    command.args(["--", "--forward-mode=io", "--nb-cores=1", "--total-num-mbufs=16384"]);
    // Not interactive, and quiet until it is told to stop.
    command.args(["--stats-period", "600"]);
    Running::start(command, client).map(Started::Program)
}

/// A forwarder under way; ended when dropped.
pub(super) enum Started {
    /// The kernel itself: nothing to end.
    Kernel,
    Program(Running),
    Loop(InProcess),
    Hooked(Hooked),
}

impl Started {
    /// An error if it has ended: with what it said.
    pub(super) fn unless_ended(&mut self) -> Result<(), Error> {
        match self {
            Self::Kernel => Ok(()),
            Self::Program(running) => running.unless_ended(),
            Self::Loop(thread) => thread.unless_ended(),
            Self::Hooked(chain) => chain.unless_ended(),
        }
    }

    /// What it said last.
    pub(super) fn said(&self) -> String {
        match self {
            Self::Program(running) => running.said(),
            Self::Kernel | Self::Loop(_) | Self::Hooked(_) => "nothing".to_owned(),
        }
    }
}
