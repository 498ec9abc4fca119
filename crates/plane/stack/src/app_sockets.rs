//! An application with sockets, as workers see it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use base::{AppId, RegionId};
use shm::sockets::SocketServer;
use tcp::Algorithm;

use crate::bucket::Rate;
use crate::flow_records::FlowRecords;

/// How the sleepers of an application are woken: by a thread that may make system calls.
pub trait Notifier: Send + Sync {
    /// Wakes who waits at a poller.
    fn poller(&self, side: shm::sockets::Side, poller: u32);
    /// Wakes all who sleep on a word.
    fn futex(&self, word: &std::sync::atomic::AtomicU32);
}

/// An application with sockets, as workers see it.
pub struct AppSockets {
    /// A small number that no other living application has.
    pub app: AppId,
    /// The user whose program it is: what a worker does in a turn is shared among users first.
    pub user: u32,
    /// What accepted connections' entries name.
    pub region: RegionId,
    /// Its memory.
    pub server: SocketServer,
    /// Records of its connections for whoever goes on with them when this process is dead; none:
    /// nobody would.
    pub records: Option<Arc<FlowRecords>>,
    /// How its sleepers are woken.
    pub notifier: Box<dyn Notifier>,
    /// Its worker may wait on a CPU for more to do (profile safe: no).
    pub spins: bool,
    /// What it may send, together with others of the same user, if that is limited.
    pub rate: Option<Arc<Rate>>,
    /// To whom it may send datagrams, if that is limited.
    pub permits: Option<Box<dyn Fn(SocketAddr) -> bool + Send + Sync>>,
    /// What its connections may choose from.
    pub congestions: Vec<Algorithm>,
    /// One in this many requests to it is sampled ([`crate::Sample`]); 0: none.
    pub trace_one_in: AtomicU32,
}

impl AppSockets {
    /// Whether it may send a datagram to that address.
    pub(crate) fn may_send(&self, remote: SocketAddr) -> bool {
        self.permits.as_ref().is_none_or(|permits| permits(remote))
    }
}

impl std::fmt::Debug for AppSockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppStreams").field("app", &self.app).finish_non_exhaustive()
    }
}
