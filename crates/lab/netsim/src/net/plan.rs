//! What is simulated: a fabric, a TCP, a load.

use base::Nanos;
use tcp::{Algorithm, Config, FlowOptions};

use crate::link::LinkPlan;
use crate::refused::check;
use crate::{Refused, Sizes};

/// Bytes of the receive rings of flows that are there together, at most.
const RINGS_MAX: u64 = 1 << 30;
/// Looks at all queues, at most.
const LOOKS_MAX: u64 = 10_000_000;

/// Hosts under leaf switches, which spine switches join; with one leaf there need be no spine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSpine {
    /// Leaf switches.
    pub leaves: u32,
    /// Spine switches, each joined to every leaf. A connection's packets take one of them, by a
    /// hash.
    pub spines: u32,
    /// Hosts of each leaf.
    pub hosts_per_leaf: u32,
    /// Between a host and its leaf, each way. The way up is the host's own: its NIC drops and marks
    /// nothing, the engine waits until there is room.
    pub host_link: LinkPlan,
    /// Between leaf and spine, each way.
    pub fabric_link: LinkPlan,
}

impl Default for LeafSpine {
    /// 64 hosts at 10 Gbit/s under 4 leaves and 4 spines at 40 Gbit/s: no leaf has less to its
    /// spines than from its hosts.
    fn default() -> Self {
        let host_link = LinkPlan::default();
        let fabric_link = LinkPlan { rate: 40_000_000_000, ..host_link };
        Self { leaves: 4, spines: 4, hosts_per_leaf: 16, host_link, fabric_link }
    }
}

impl LeafSpine {
    /// That many hosts under one switch.
    pub fn one_switch(hosts: u32, host_link: LinkPlan) -> Self {
        Self { leaves: 1, spines: 0, hosts_per_leaf: hosts, host_link, fabric_link: host_link }
    }

    /// All hosts.
    pub fn hosts(&self) -> u32 {
        self.leaves.saturating_mul(self.hosts_per_leaf)
    }
}

/// The engines' settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpPlan {
    /// Congestion control. DCTCP asks for ECN by itself.
    pub congestion: Algorithm,
    /// Whether the others ask for ECN, too, and take a mark for a loss.
    pub ecn: bool,
    /// Whether a window is spread over its round trip; TIMELY always does that.
    pub pacing: bool,
    /// Base-2 logarithm of the bytes in each ring: no window is larger.
    pub ring_log2: u8,
    /// Shortest retransmission timeout.
    pub rto_min: Nanos,
    /// How long an acknowledgement may wait. TIMELY takes one that has waited for a long queue: its
    /// flows starve at their lowest rate unless this is zero.
    pub ack_delay: Nanos,
    /// Segments of the first flight.
    pub initial_window: u32,
    /// Bytes of an IP packet.
    pub mtu: u16,
}

impl Default for TcpPlan {
    /// The engine's own settings, but a retransmission timeout of 10 ms at least, as the DCTCP
    /// paper has it for data centres, and rings of 256 KiB: two round trips of 100 us at 10 Gbit/s.
    fn default() -> Self {
        let Config { ack_delay, initial_window, mtu, .. } = Config::default();
        Self {
            congestion: Algorithm::default(),
            ecn: false,
            pacing: false,
            ring_log2: 18,
            rto_min: Nanos::from_millis(10),
            ack_delay,
            initial_window,
            mtu,
        }
    }
}

impl TcpPlan {
    pub(crate) fn options(&self) -> FlowOptions {
        FlowOptions {
            receive_ring_log2: self.ring_log2,
            receive_limit_log2: self.ring_log2,
            send_ring_log2: self.ring_log2,
            congestion: self.congestion,
            ecn: self.ecn,
            pacing: self.pacing,
            ..FlowOptions::default()
        }
    }

    /// For an engine that may have that many flows at once.
    pub(crate) fn config(&self, flows: u32) -> Config {
        let window = (1_u32 << self.ring_log2) / u32::from(self.mtu - 80) + 4;
        Config {
            // As many again in TIME-WAIT.
            flows_max: flows.saturating_mul(2) + 8,
            sent_max: flows.saturating_mul(window) + 64,
            ranges_max: flows.saturating_mul(window.min(64)) + 64,
            mtu: self.mtu,
            rto_min: self.rto_min,
            ack_delay: self.ack_delay,
            initial_window: self.initial_window,
            ..Config::default()
        }
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        let rings = (12..=24).contains(&self.ring_log2);
        check(rings, "ring_log2", self.ring_log2, "from 12 to 24")?;
        let mtu = (576..=9216).contains(&self.mtu);
        check(mtu, "mtu", self.mtu, "from 576 to 9216 bytes")?;
        let window = (1..=1000).contains(&self.initial_window);
        check(window, "initial_window", self.initial_window, "from 1 to 1000 segments")?;
        let rto = (Nanos::from_micros(100)..=Nanos::from_secs(10)).contains(&self.rto_min);
        check(rto, "rto_min", self.rto_min, "from 100 us to 10 s")
    }
}

/// Who sends what to whom.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Flows between hosts drawn by lot begin one after the other; each is a connection of its own,
    /// from SYN to FIN.
    Arriving {
        /// How many.
        flows: u32,
        /// How much each carries.
        sizes: Sizes,
        /// How much of what the hosts' links carry is asked for, of 1; arrivals are Poisson's.
        load: f64,
    },
    /// Everybody answers one host at once.
    Incast {
        /// Senders: the hosts after the first, which receives.
        senders: u32,
        /// Bytes of each.
        bytes: u64,
        /// They begin within this time.
        spread: Nanos,
    },
    /// Flows without end, as many from and to each host as from and to any other; what they get is
    /// measured between two times.
    Lasting {
        /// How many.
        flows: u32,
        /// They begin within this time.
        spread: Nanos,
        /// Measured from here ...
        from: Nanos,
        /// ... to here, where the run ends.
        until: Nanos,
    },
}

impl Traffic {
    /// Flows in all.
    pub fn flows(&self) -> u32 {
        match *self {
            Self::Arriving { flows, .. } | Self::Lasting { flows, .. } => flows,
            Self::Incast { senders, .. } => senders,
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct NetPlan {
    /// The hosts and what joins them.
    pub topology: LeafSpine,
    /// The engines.
    pub tcp: TcpPlan,
    /// The load.
    pub traffic: Traffic,
    /// Time from one look at all queues to the next.
    pub look_every: Nanos,
    /// A run that is not over by then is cut off.
    pub time_limit: Nanos,
}

impl Default for NetPlan {
    /// A thousand flows of web search at half load.
    fn default() -> Self {
        Self {
            topology: LeafSpine::default(),
            tcp: TcpPlan::default(),
            traffic: Traffic::Arriving { flows: 1000, sizes: Sizes::web_search(1), load: 0.5 },
            look_every: Nanos::from_micros(100),
            time_limit: Nanos::from_secs(20),
        }
    }
}

impl NetPlan {
    /// That many hosts under one switch answer another one at once.
    pub fn incast(senders: u32, bytes: u64, congestion: Algorithm) -> Self {
        Self {
            topology: LeafSpine::one_switch(senders.saturating_add(1), LinkPlan::default()),
            tcp: TcpPlan { congestion, ..TcpPlan::default() },
            traffic: Traffic::Incast { senders, bytes, spread: Nanos::from_micros(10) },
            look_every: Nanos::from_micros(20),
            ..Self::default()
        }
    }

    /// Whether it makes sense; the field that does not.
    ///
    /// # Errors
    /// A number is outside of what it may be.
    pub fn check(&self) -> Result<(), Refused> {
        let LeafSpine { leaves, spines, hosts_per_leaf, host_link, fabric_link } = &self.topology;
        check((1..=256).contains(leaves), "leaves", leaves, "from 1 to 256")?;
        let joined = (usize::from(*leaves > 1) as u32..=256).contains(spines);
        check(joined, "spines", spines, "from 1 to 256, or 0 when there is one leaf")?;
        let hosts = (2..=4096).contains(&self.topology.hosts());
        let product = format!("{hosts_per_leaf} with {leaves} leaves");
        check(hosts, "hosts_per_leaf", product, "such that there are 2 to 4096 hosts")?;
        host_link.check()?;
        fabric_link.check()?;
        self.tcp.check()?;
        let flows = self.traffic.flows();
        check((1..=100_000).contains(&flows), "flows", flows, "from 1 to 100000")?;
        // A flow that arrives gets the ring of one that has gone. The others are there together.
        let together = !matches!(self.traffic, Traffic::Arriving { .. });
        let rings = u64::from(flows) << self.tcp.ring_log2;
        let fits = !together || rings <= RINGS_MAX;
        check(
            fits,
            "ring_log2",
            self.tcp.ring_log2,
            "such that all flows' rings are 1 GiB at most",
        )?;
        match &self.traffic {
            Traffic::Arriving { sizes, load, .. } => {
                check(*load > 0.0 && *load < 1.0, "load", load, "above 0 and below 1")?;
                sizes.check()?;
            }
            Traffic::Incast { senders, bytes, .. } => {
                let others = *senders < self.topology.hosts();
                check(others, "senders", senders, "less than there are hosts")?;
                check(*bytes > 0, "bytes", bytes, "at least one")?;
            }
            Traffic::Lasting { from, until, .. } => {
                check(from < until, "from", from, "before `until`")?;
                check(*until <= self.time_limit, "until", until, "at most `time_limit`")?;
            }
        }
        let look = self.look_every >= Nanos::from_micros(1);
        check(look, "look_every", self.look_every, "at least 1 us")?;
        let limit = self.time_limit <= Nanos::from_secs(3600);
        check(limit, "time_limit", self.time_limit, "at most an hour")?;
        let looks = self.time_limit.0 / self.look_every.0 <= LOOKS_MAX;
        check(looks, "look_every", self.look_every, "a ten millionth of `time_limit` or more")
    }
}
