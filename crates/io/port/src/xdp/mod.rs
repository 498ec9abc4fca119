//! AF_XDP: packets of any NIC, chosen by a small program in the kernel, in our own frames.
//!
//! [`XdpInterface`] is the program on an interface, [`Ours`] and [`Flows`] what it takes, [`Umem`]
//! the frames as the kernel knows them, [`XdpPort`] one queue. Read `port.rs` first for one
//! packet's way.

mod asm;
mod bpf;
mod chain;
mod flows;
pub(crate) mod hook_map;
mod host;
mod if_xdp;
mod interface;
mod lent;
mod options;
mod ours;
mod port;
mod program;
mod queue;
mod ring;
mod segments;
mod socket;
mod station_map;
mod umem;

pub use flows::{Flow, Flows};
pub use interface::{AttachMode, XdpInterface, XdpRights};
pub use options::{CopyMode, XdpOptions};
pub use ours::{Destination, Ours, Protocol};
pub use port::{XdpPort, XdpSockets};
pub use program::Take;
pub(crate) use ring::RingMemory;
pub use segments::PIECES_MAX;
pub use umem::Umem;
