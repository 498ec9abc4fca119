//! The attach protocol between applications and the daemon.
//!
//! A UNIX socket of kind `SOCK_SEQPACKET`. The application asks once; the daemon answers with the
//! shared memory and the means to wake each other, as descriptors beside the answer (`SCM_RIGHTS`).
//! From then on packets and payload pass through memory; the socket says that the other side lives,
//! or why it has let go, and in sockets mode carries [`Call`]s: the rare things that an application
//! asks of the daemon for one of its sockets, with that socket beside the call. Neither side can
//! make the other block, keep descriptors that it did not ask for, or allocate beyond
//! [`MESSAGE_BYTES_MAX`].
#![forbid(unsafe_code)]

mod channel;
mod error;
mod fallback;
mod join_listener;
mod link;
mod listener;
mod message;
mod peer;
mod reason;
mod sockets;
mod text;
mod trust;

pub use error::AttachError;
pub use fallback::FallbackReason;
pub use join_listener::JoinListener;
pub use link::{Given, Link};
pub use listener::AttachListener;
pub use message::{
    AttachRequest, Attached, CoresClass, CoresRequest, Detached, PortInfo, ToApp, ToDaemon,
};
pub use peer::{Peer, PeerCredentials, Received};
pub use reason::DetachReason;
pub use sockets::{Call, JoinRequest, Profile, RegionKind, Reply, SocketsRequest, Streaming};
pub use text::{decode_to_app, decode_to_daemon};

/// The protocol's version: the `v` of every message. Fields may be added to a version; a reader
/// ignores those that it does not know.
pub const VERSION: u32 = 1;

/// Bytes of a message, at most.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Descriptors beside a message, at most: the region, the daemon's eventfd, and a pipe for each of
/// 64 workers.
pub const DESCRIPTORS_MAX: usize = 66;
