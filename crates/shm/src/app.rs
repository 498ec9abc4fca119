//! Memory shared with one application: its buffers, a pair of rings for each of its workers.
//!
//! One region per application, so nothing that it maps shows another one's bytes. The daemon holds
//! an [`AppServer`] and an [`AppWorkerQueue`] per worker, the application an [`AppMemory`] and an
//! [`AppEnd`] per worker. The two sides do not trust each other alike: the application believes the
//! daemon, the daemon believes nothing that it reads here. It keeps every index, length and owner
//! to itself and checks what the application says against them; what cannot be is a
//! [`crate::ProtocolViolation`].
//!
//! [`AppServer`]: crate::app::AppServer
//! [`AppWorkerQueue`]: crate::app::AppWorkerQueue
//! [`AppMemory`]: crate::app::AppMemory
//! [`AppEnd`]: crate::app::AppEnd

mod end;
mod layout;
mod message;
mod server;

pub use end::{AppEnd, AppMemory, Next};
pub use layout::{AppSizes, CHUNK_HEADROOM_BYTES, RING_SLOTS_MAX, SizeError, WORKERS_MAX};
pub use message::{FromApp, Packet, ToApp};
pub use server::{AppServer, AppWorkerQueue, CoreGrantBits, Delivery};

pub(crate) use layout::{HandoverWords, SharedCoreGrant};

#[cfg(test)]
mod tests;
