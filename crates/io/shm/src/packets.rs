//! Memory shared with one application: its buffers, a pair of rings for each of its workers.
//!
//! One region per application, so nothing that it maps shows another one's bytes. The daemon holds
//! an [`PacketServer`] and an [`PacketQueue`] per worker, the application an [`PacketMemory`] and
//! an [`PacketEnd`] per worker. The two sides do not trust each other alike: the application
//! believes the daemon, the daemon believes nothing that it reads here. It keeps every index,
//! length and owner to itself and checks what the application says against them; what cannot be is
//! a [`crate::ProtocolViolation`].
//!
//! [`PacketServer`]: crate::app::PacketServer
//! [`PacketQueue`]: crate::app::PacketQueue
//! [`PacketMemory`]: crate::app::PacketMemory
//! [`PacketEnd`]: crate::app::PacketEnd

mod end;
mod layout;
mod message;
mod server;

pub use end::{Next, PacketEnd, PacketMemory};
pub use layout::{CHUNK_HEADROOM_BYTES, PacketSizes, RING_SLOTS_MAX, SizeError, WORKERS_MAX};
pub use message::{FromApp, Packet, ToApp};
pub use server::{CoreGrantBits, Delivery, PacketQueue, PacketServer};

pub(crate) use layout::{HandoverWords, SharedCoreGrant};

#[cfg(test)]
mod tests;
