//! What a running chain has counted, as it is printed and sent: `calisto nf stats`.

use serde::{Deserialize, Serialize};

/// Of the JSON below: grows when a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 2;

/// All figures of one chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// [`SCHEMA_VERSION`] of whoever wrote it.
    pub schema_version: u32,
    /// The chain's name.
    pub name: String,
    /// The process that runs it.
    pub pid: u32,
    /// Seconds since it began to forward.
    pub uptime_seconds: f64,
    /// Its slices.
    pub slices: Vec<SliceFigures>,
    /// Of its router, if it has one.
    pub router: Option<RouterFigures>,
    /// Where its functions run.
    #[serde(default)]
    pub hook: HookFigures,
}

/// Where functions run: in the XDP program of the ports as far as that can, and else in slices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookFigures {
    /// The functions, in order. One that runs in the hook runs in the slice too, for packets that
    /// the hook cannot finish.
    pub functions: Vec<PlaceFigures>,
    /// Ports by which packets come into the hook, of each slice.
    pub entries: Vec<PlaceFigures>,
    /// Ports by which packets leave from the hook.
    pub exits: Vec<PlaceFigures>,
}

/// Whether something is in the hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceFigures {
    /// The kind of the function, or the name of the port.
    pub name: String,
    /// Whether it is.
    pub hook: bool,
    /// Why not, or what keeps packets from it.
    pub why: Option<String>,
}

/// Of one slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceFigures {
    /// Its name.
    pub name: String,
    /// The CPUs of its thread; none: any.
    pub cpus: Vec<usize>,
    /// Which packets it takes; none: all.
    pub filter: Option<String>,
    /// Counters of the slice itself, then of each port, then of each function in order.
    pub groups: Vec<GroupFigures>,
}

/// Counters of one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFigures {
    /// What kind of thing: `slice`, `port` or `function`.
    pub of: String,
    /// Which one.
    pub name: String,
    /// Why it moves nothing any more.
    pub fault: Option<String>,
    /// Its counters.
    pub counters: Vec<CounterFigure>,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterFigure {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub help: String,
    /// How often since the chain began.
    pub value: u64,
}

/// Of a router's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterFigures {
    /// Where its routes come from: `kernel`, or the path of a file.
    pub routes: String,
    /// IPv4 prefixes with a route.
    pub ipv4_routes: usize,
    /// IPv6 prefixes with a route.
    pub ipv6_routes: usize,
    /// Neighbours whose link address is known.
    pub neighbours: usize,
    /// Routes that changed since the chain began.
    pub route_changes: u64,
    /// Routes for which the tables have no room: packets that they might be for are dropped.
    pub routes_withheld: usize,
    /// Neighbours that packets wanted and that were asked for.
    pub neighbours_asked: u64,
    /// Rules of routing of the kernel (`ip rule`, VRFs) that are not followed.
    pub rules_ignored: usize,
    /// Routes with several next hops, of which the first is used.
    pub multipath_routes: usize,
    /// Routes by interfaces that are no ports of the chain: packets to them are dropped as for this
    /// host.
    pub routes_elsewhere: usize,
}
