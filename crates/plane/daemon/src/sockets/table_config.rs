//! What the socket table is made from.

use std::sync::Arc;
use std::time::Duration;

use config::Config;
use stack::CommandQueue;
use sys::eventfd::EventFd;
use tcp::FlowOptions;

use super::interfaces::PortInterface;
use super::routes::Link;
use crate::attach_server_counters::AttachServerCounters;
use crate::doorbells::Doorbells;
use crate::guardian::Guardian;
use crate::open_sockets::OpenSockets;

/// What the socket table is made from.
pub(crate) struct SocketTableConfig {
    pub(crate) config: Arc<Config>,
    pub(crate) command_queue: CommandQueue,
    /// Wakes all workers that sleep.
    pub(crate) workers_doorbell: Arc<EventFd>,
    pub(crate) doorbells: Doorbells,
    pub(crate) links: Vec<Link>,
    /// The names of their interfaces, by number, and whether their ports go on with another
    /// interface of the name.
    pub(crate) names: Vec<PortInterface>,
    /// Bytes of the longest packet that every port takes.
    pub(crate) mtu: u16,
    /// Settings of every flow.
    pub(crate) flow: FlowOptions,
    pub(crate) counters: Arc<AttachServerCounters>,
    pub(crate) open_sockets: OpenSockets,
    /// Who goes on with the connections when this process is dead.
    pub(crate) guardian: Option<Guardian>,
}

impl SocketTableConfig {
    /// Waits, not long, until workers have heeded what they were told: a packet that is taken from
    /// the kernel before would find nobody.
    pub(super) fn await_workers(&self) {
        let begun = std::time::Instant::now();
        while !self.command_queue.is_heeded() && begun.elapsed() < HEEDED_WITHIN {
            std::thread::sleep(HEEDED_EVERY);
        }
    }
}

/// A worker that is stopped, or very busy, keeps the attach server waiting so long and no longer.
const HEEDED_WITHIN: Duration = Duration::from_millis(20);

/// Time between two looks.
const HEEDED_EVERY: Duration = Duration::from_micros(50);
