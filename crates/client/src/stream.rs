//! Sockets that the daemon serves: TCP and UDP through shared memory.
//!
//! A [`Session`] is a process's connection to the daemon. Kernel sockets are offered to it; those that
//! the daemon takes become [`Socket`]s, whose bytes pass through memory that is shared with the
//! daemon (or, between two such programs on one machine, with the other one) and cost no system call.
//! A socket that the daemon does not take is left to the kernel, with a reason.
//!
//! A thread waits for one socket by [`Socket::wait`], for many with an [`Ear`].
//!
//! A daemon that ends shows as ECONNRESET on every socket within a fraction of a second; nothing waits
//! for a daemon that is not there.

mod datagram;
mod ear;
mod ids;
mod info;
mod lock;
mod patience;
mod readiness;
mod receive;
mod region;
mod send;
mod session;
mod slot;
mod socket;
mod verdict;
mod waiting;

pub use attach::{AttachError, FallbackReason, Profile};
pub use datagram::Received;
pub use ear::Ear;
pub use ids::{RegionId, SlotId};
pub use info::SocketInfo;
pub use readiness::Readiness;
pub use receive::ReceiveFlags;
pub use rustix::io::Errno;
pub use send::SendFlags;
pub use session::{Outcome, Session, SessionOptions};
pub use shm::stream::{Piece, SlotOption as SocketOption};
pub use socket::{Shutdown, Socket};
pub use waiting::Waited;
