//! A port whose kind is chosen at start. One match per batch, none per packet.

use std::os::fd::BorrowedFd;

use base::Nanos;
use shm::{Batch, FramePool};

use crate::af_packet::AfPacketPort;
use crate::faulty::Faulty;
use crate::hook::Hook;
use crate::memory::MemoryPort;
use crate::pcap::PcapPort;
use crate::tap::TapPort;
use crate::xdp::XdpPort;
use crate::{Capabilities, Fault, Filter, Judge, OpenError, Port, PortCounters};

/// Any kind of port.
pub enum AnyPort {
    /// Queues of an interface by AF_XDP.
    Xdp(Box<XdpPort>),
    /// An interface by a packet socket.
    AfPacket(Box<AfPacketPort>),
    /// A TAP interface.
    Tap(Box<TapPort>),
    /// Capture files.
    Pcap(Box<PcapPort>),
    /// An end of a wire in memory.
    Memory(Box<MemoryPort>),
    /// Any of them behind a bad wire.
    Faulty(Box<Faulty<Self>>),
}

macro_rules! each {
    ($any:expr, $port:ident => $call:expr) => {
        match $any {
            AnyPort::Xdp($port) => $call,
            AnyPort::AfPacket($port) => $call,
            AnyPort::Tap($port) => $call,
            AnyPort::Pcap($port) => $call,
            AnyPort::Memory($port) => $call,
            AnyPort::Faulty($port) => $call,
        }
    };
}

impl AnyPort {
    /// The AF_XDP queues in it, for what only that has: what is ours.
    pub fn as_xdp(&self) -> Option<&XdpPort> {
        match self {
            Self::Xdp(port) => Some(port),
            Self::Faulty(port) => port.inner().as_xdp(),
            _ => None,
        }
    }
}

impl AnyPort {
    /// The same, to go on with other sockets.
    pub fn as_xdp_mut(&mut self) -> Option<&mut XdpPort> {
        match self {
            Self::Xdp(port) => Some(port),
            Self::Faulty(port) => port.inner_mut().as_xdp_mut(),
            _ => None,
        }
    }
}

impl Port for AnyPort {
    #[inline]
    fn rx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        each!(self, port => port.rx(pool, batch, now))
    }

    #[inline]
    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        each!(self, port => port.tx(pool, batch, now))
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<Judge, OpenError> {
        each!(self, port => port.set_filter(filter))
    }

    fn set_hook(&mut self, filter: Option<&Filter>, hook: &Hook) -> Result<(), String> {
        each!(self, port => port.set_hook(filter, hook))
    }

    fn flush(&mut self, pool: &mut FramePool, now: Nanos) {
        each!(self, port => port.flush(pool, now));
    }

    fn prepare_wait(&mut self, pool: &mut FramePool) {
        each!(self, port => port.prepare_wait(pool));
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        each!(self, port => port.poll_fd())
    }

    fn next_deadline(&self) -> Nanos {
        each!(self, port => port.next_deadline())
    }

    fn fault(&self) -> Option<Fault> {
        each!(self, port => port.fault())
    }

    fn capabilities(&self) -> &Capabilities {
        each!(self, port => port.capabilities())
    }

    fn counters(&self) -> PortCounters {
        each!(self, port => port.counters())
    }

    fn close(&mut self, pool: &mut FramePool) {
        each!(self, port => port.close(pool));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_can_be_opened_by_one_thread_and_run_by_another() {
        fn is_send<T: Send>() {}
        is_send::<AnyPort>();
    }
}
