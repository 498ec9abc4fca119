//! The TCP engine without I/O: segments, calls and a time in; segments, events and a deadline out.
//!
//! [`Engine`] is the whole of it; read `engine.rs` first, then `fast.rs` for the common case and
//! `slow.rs` for the way of every other segment. It reads no clock, does no input or output and
//! allocates nothing after the start, so the daemon, an application's worker, a simulator and a
//! test run the same code. Payload lies in rings of the caller ([`Buffers`]).
//!
//! Two engines, and five bytes from one to the other:
//!
//! ```
//! use base::Nanos;
//! use tcp::{
//!     Buffers, Config, Engine, Event, FlowId, FlowOptions, Incoming, Output, Piece, ReadPiece,
//!     Segment,
//! };
//! use wire::FlowKey;
//!
//! /// The rings of one flow, as long as [`FlowOptions`] says.
//! struct Rings {
//!     receive: Vec<u8>,
//!     send: Vec<u8>,
//! }
//!
//! impl Buffers for Rings {
//!     fn receive_ring(&mut self, _flow: FlowId) -> Piece<'_> {
//!         (&mut self.receive).into()
//!     }
//!     fn send_ring(&self, _flow: FlowId) -> ReadPiece<'_> {
//!         (&self.send).into()
//!     }
//! }
//!
//! /// What one engine says: segments, and the flow that has come to stand.
//! #[derive(Default)]
//! struct Said {
//!     segments: Vec<(FlowKey, Vec<u8>)>,
//!     connected: Option<FlowId>,
//! }
//!
//! impl Output for Said {
//!     fn segment(&mut self, segment: &Segment<'_>) -> bool {
//!         let mut bytes = vec![0; segment.len()];
//!         let written = segment.write(&mut bytes);
//!         self.segments.push((segment.key, bytes));
//!         written.is_some()
//!     }
//!     fn event(&mut self, event: Event) {
//!         if let Event::Connected { flow, .. } = event {
//!             self.connected = Some(flow);
//!         }
//!     }
//! }
//!
//! struct Host {
//!     engine: Engine,
//!     rings: Rings,
//!     said: Said,
//! }
//!
//! impl Host {
//!     fn new(secret: u8, now: Nanos) -> Self {
//!         let config = Config { flows_max: 16, ..Config::default() };
//!         let rings = Rings { receive: vec![0; 1 << 16], send: vec![0; 1 << 16] };
//!         Self { engine: Engine::new(config, [secret; 16], now), rings, said: Said::default() }
//!     }
//!     /// One round: what the peer has sent, what is due, what goes out.
//!     fn turn(&mut self, now: Nanos, peer: &mut Self) {
//!         for (key, segment) in peer.said.segments.drain(..) {
//!             let hash = self.engine.hash_of(&key);
//!             let incoming =
//!                 Incoming { key, hash, segment: &segment, ecn: 0, is_verified: false, route: 0 };
//!             self.engine.receive(now, &[incoming], &mut self.rings, &mut self.said);
//!         }
//!         self.engine.expire(now, &mut self.said);
//!         self.engine.transmit(now, &mut self.rings, &mut self.said);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Nanos::from_secs(1);
//! let (mut client, mut server) = (Host::new(1, now), Host::new(2, now));
//! let (near, far) = (([10, 0, 0, 1], 40_000).into(), ([10, 0, 0, 2], 7).into());
//! server.engine.listen(far, 8, FlowOptions::default())?;
//! let flow = client.engine.connect(now, near, far, FlowOptions::default(), 0)?;
//! for _ in 0..2 {
//!     client.turn(now, &mut server);
//!     server.turn(now, &mut client);
//! }
//! let accepted = server.said.connected.expect("the handshake is over");
//!
//! let room = client.engine.room(flow);
//! client.rings.send[room.at..][..5].copy_from_slice(b"hello");
//! client.engine.send(flow, 5)?;
//! client.turn(now, &mut server);
//! server.turn(now, &mut client);
//!
//! let unread = server.engine.readable(accepted);
//! assert_eq!(&server.rings.receive[unread.at..][..5], b"hello");
//! server.engine.consume(accepted, unread.bytes)?;
//! # Ok(())
//! # }
//! ```
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
