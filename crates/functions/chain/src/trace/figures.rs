//! What became of a packet in a chain, as it is printed.

use serde::Serialize;

use super::PacketFigures;

/// Of the JSON below: grows when a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// What a chain did to one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Its place among those that were traced, from one.
    pub number: u64,
    /// The port that it came by.
    pub port: String,
    /// How that is known.
    pub port_because: &'static str,
    /// The packet as it came.
    pub packet: PacketFigures,
    /// Which packets the chain takes; nothing: all.
    pub filter: Option<String>,
    /// Whether it takes this one; nothing: nobody could look.
    pub is_taken: Option<bool>,
    /// The packet's way, and those of others that came of it, such as fragments, or of itself once
    /// it had waited. None when the kernel has it.
    pub ways: Vec<Way>,
}

/// The way of one packet through the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// How it is at the beginning.
    pub packet: PacketFigures,
    /// What functions did, in order. Those that did nothing are left out.
    pub steps: Vec<Step>,
    /// What became of it.
    pub end: End,
    /// Neighbours whose link address it needed, and what is assumed of them.
    pub asked: Vec<Asked>,
}

/// What one function did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The place of the function in the chain, from one.
    pub place: usize,
    /// Its kind.
    pub function: &'static str,
    /// Whether it saw the packet when it was to leave, after the last function had decided.
    pub is_leaving: bool,
    /// What it decided.
    pub verdict: Decided,
    /// Counters that moved.
    pub counters: Vec<Moved>,
    /// The packet after it, if it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet: Option<PacketFigures>,
}

/// What a function decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    /// The next function is to decide.
    Next,
    /// It leaves by this port.
    Leaves(String),
    /// It goes no further.
    Drop,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It leaves by this port.
    Leaves(String),
    /// This function dropped it.
    Dropped(String),
    /// It waits, and goes on as the next way says.
    Waits,
    /// No function decided about it, so it was dropped.
    Undecided,
}

/// A counter that moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Its name.
    pub name: String,
    /// By how much; what counts how many there are may fall.
    pub by: i64,
    /// What it counts.
    pub help: String,
}

/// A neighbour whose link address was needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// On the link of this port.
    pub port: String,
    /// Which one.
    pub address: std::net::IpAddr,
    /// What it is taken to answer; nothing: it did not answer before, and does not now.
    pub assumed: Option<String>,
}
