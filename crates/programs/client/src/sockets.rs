//! Sockets that the daemon serves: TCP and UDP through shared memory.
//!
//! A [`Session`] is a process's connection to the daemon. Kernel sockets are offered to it; those
//! that the daemon takes become [`Socket`]s, whose bytes pass through memory that is shared with
//! the daemon (or, between two such programs on one machine, with the other one) and cost no system
//! call. A socket that the daemon does not take is left to the kernel, with a reason.
//!
//! A thread waits for one socket by [`Socket::wait`], for many with a [`Poller`].
//!
//! [`TcpStream`], [`TcpListener`] and [`UdpSocket`] join both, with the calls of `std::net`:
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use calisto_client::sockets::{Session, SessionOptions, TcpListener};
//!
//! let session = Session::attach(&SessionOptions::new("echo"))?;
//! let listener = TcpListener::bind(&session, "0.0.0.0:7".parse()?)?;
//! for stream in listener.incoming() {
//!     let mut stream = stream?;
//!     let mut bytes = [0; 4096];
//!     let count = stream.read(&mut bytes)?;
//!     stream.write_all(&bytes[..count])?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A daemon that ends shows as ECONNRESET on every socket within a fraction of a second; nothing
//! waits for a daemon that is not there.

mod answer;
mod buffers;
mod confined;
mod datagram;
mod datagram_ring;
mod info;
pub(crate) mod kernel;
mod lock;
mod offer;
#[cfg(any(feature = "rt", feature = "tokio"))]
pub(crate) mod polled;
mod poller;
mod pollers;
#[cfg(any(feature = "rt", feature = "tokio"))]
pub(crate) mod reactor;
mod readiness;
mod receive;
mod region;
mod send;
mod session;
mod slot;
mod socket;
mod stretch;
mod tcp_listener;
mod tcp_stream;
/// TCP for tokio.
#[cfg(feature = "tokio")]
pub mod tokio;
mod traced;
mod udp_socket;
mod verdict;
mod waiting;
mod watcher;
mod yield_policy;

pub use attach::Given;
pub use attach::{AttachError, FallbackReason, Profile};
pub use base::{RegionId, SlotId};
pub use confined::{is_confined, note_confined, prepare_to_be_confined};
pub use datagram::{Outgoing, Received};
pub use info::SocketInfo;
pub use lock::{GIVEN_TO_KERNEL, GIVEN_WITHIN};
pub use offer::Outcome;
pub use poller::Poller;
pub use readiness::Readiness;
pub use receive::ReceiveFlags;
pub use rustix::io::Errno;
pub use send::SendFlags;
pub use session::{Session, SessionOptions};
pub use shm::sockets::{PAYLOAD_MAX, Piece, SlotOption as SocketOption};
pub use socket::{Shutdown, Socket};
pub use tcp_listener::TcpListener;
pub use tcp_stream::TcpStream;
pub use udp_socket::UdpSocket;
pub use waiting::Waited;
pub use watcher::Watcher;
