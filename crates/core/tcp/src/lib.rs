//! The TCP engine without I/O: segments, calls and a time in; segments, events and a deadline out.
//!
//! [`Engine`] is the whole of it; read `engine.rs` first, then `fast.rs` for the common case and
//! `slow.rs` for the way of every other segment. It reads no clock, does no input or output and
//! allocates nothing after the start, so the daemon, an application's worker, a simulator and a
//! test run the same code. Payload lies in rings of the caller ([`Buffers`]).
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

mod acknowledge;
mod close;
mod cold;
mod config;
mod congestion;
mod cookie;
mod counters;
mod data;
mod delayed;
mod emit;
mod engine;
mod expire;
mod fast;
mod flow;
mod handshake;
mod info;
mod io;
mod options;
mod pacing;
mod pmtu;
mod pool;
mod reassembly;
mod record;
mod recovery;
mod regrow;
mod repair;
mod reset;
mod rtt;
mod scoreboard;
mod secret;
mod seq;
mod shared;
mod slow;
mod small;
mod table;
mod transmit;
mod urgent;
mod wheel;
mod window;

pub use config::{Algorithm, Config, FlowOptions, IpFields, KeepAlive};
pub use counters::Counters;
pub use engine::{AttachError, CallError, ConnectError, Detached, Engine, ListenError, Span};
pub use flow::State;
pub use info::{FlowInfo, Phase, TimerKind};
pub use io::{Buffers, CE, CloseReason, ECT, Event, FlowId, Incoming, ListenerId, Output, Segment};
pub use options::OptionBytes;
pub use piece::{Piece, ReadPiece};
pub use record::FlowRecord;
pub use regrow::Regrow;
pub use repair::{NoRepair, Repair, RepairWindow};
pub use seq::Seq;
