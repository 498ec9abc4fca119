//! Packets built here, through any port: any number of flows, from addresses that nobody has.
//!
//! One thread owns the port and its frames. ARP requests for the source addresses are answered here
//! where the port sees them; AF_XDP leaves them to the kernel, which must have the addresses then.
//! For thousands of addresses give the target a route to them (`ip route add PREFIX via GATEWAY`):
//! on-link ones overflow a Linux target's neighbour table (1024 entries), and it drops its replies.

use std::net::{IpAddr, SocketAddr};

use base::Nanos;
use port::Port;
use shm::{Batch, FramePool};
use wire::build::UdpPacket;
use wire::{NotOurs, Outcome, Protocol, arp, classify};

use super::sources::{Prefix, Spread};
use super::{Answer, Reply, Transport, TransportCounters};
use crate::{Error, REQUEST_BYTES, Request};

/// Batches received in one turn, at most.
const BATCHES_PER_TURN: usize = 4;

/// Packets that leave together, at most: the first one waits while the others are built, and all
/// are noted as sent before that.
const GROUP_MAX: usize = 16;

/// Ports of an address, at most.
const PORTS_MAX: u32 = 50_000;

/// Who sends to whom.
#[derive(Clone, Copy, Debug)]
pub struct PacketsConfig {
    /// Where requests go.
    pub target: SocketAddr,
    /// Where they come from.
    pub sources: Prefix,
    /// The first source port.
    pub first_port: u16,
    /// Link address of the sources.
    pub source_mac: [u8; 6],
    /// Link address of the target, or of the router towards it.
    pub next_hop_mac: [u8; 6],
    /// How many flows there are.
    pub flows: u32,
    /// Bytes of a request.
    pub payload_bytes: usize,
}

/// Flows as packets through a port.
pub struct Packets<P: Port> {
    port: P,
    pool: FramePool,
    config: PacketsConfig,
    spread: Spread,
    outgoing: Batch,
    incoming: Batch,
    payload: Vec<u8>,
    clock: fn() -> Nanos,
    /// When the port was last given packets.
    sent_at: Option<Nanos>,
    counters: TransportCounters,
}

impl<P: Port> Packets<P> {
    /// Requests through `port`, which moves frames of `pool`.
    ///
    /// # Errors
    /// Too many flows for the addresses, or a payload that the link does not carry.
    pub fn new(port: P, pool: FramePool, config: PacketsConfig) -> Result<Self, Error> {
        let PacketsConfig { target, sources, first_port, flows, payload_bytes, .. } = config;
        let spread = Spread::new(flows, sources.hosts());
        let ports_max = PORTS_MAX.min(u32::from(u16::MAX - first_port));
        if spread.ports > ports_max {
            return Err(Error::Setting(format!(
                "{flows} flows from {} address(es) need {} ports of each, and {ports_max} are \
                 possible: give --source-prefix with at least {} addresses",
                sources.hosts(),
                spread.ports,
                flows.div_ceil(ports_max.max(1))
            )));
        }
        if sources.nth(0).is_ipv4() != target.is_ipv4() {
            return Err(Error::Setting(format!(
                "the source address and {target} are of different IP versions: use one of both"
            )));
        }
        let headers = if target.is_ipv4() { 28 } else { 48 };
        let mtu = port.capabilities().mtu as usize;
        if headers + payload_bytes > mtu {
            return Err(Error::Setting(format!(
                "a payload of {payload_bytes} bytes does not fit the MTU {mtu} of {}: choose {} \
                 or less",
                port.capabilities().name,
                mtu.saturating_sub(headers)
            )));
        }
        Ok(Self {
            port,
            pool,
            config,
            spread,
            outgoing: Batch::new(),
            incoming: Batch::new(),
            payload: vec![0; payload_bytes.max(REQUEST_BYTES)],
            clock: sys::clock::now,
            sent_at: None,
            counters: TransportCounters::default(),
        })
    }

    /// Pushes out what is in the outgoing batch.
    #[inline]
    fn transmit(&mut self) {
        if !self.outgoing.is_empty() {
            let now = (self.clock)();
            self.sent_at = Some(now);
            self.port.tx(&mut self.pool, &mut self.outgoing, now);
        }
    }

    /// The flow whose reply came from `source` to `destination`.
    #[inline]
    fn flow_of(&self, source: SocketAddr, destination: SocketAddr) -> Option<u32> {
        let address = self.config.sources.position(destination.ip())?;
        let port = u32::from(destination.port().checked_sub(self.config.first_port)?);
        let is_ours = source == self.config.target
            && address < self.spread.addresses
            && port < self.spread.ports;
        is_ours.then(|| self.spread.flow(address, port))
    }

    #[cfg(test)]
    fn parts(&mut self) -> (&mut P, &mut FramePool) {
        (&mut self.port, &mut self.pool)
    }
}

impl<P: Port> Transport for Packets<P> {
    #[inline]
    fn group(&self, requests: &[Request]) -> usize {
        requests.len().min(GROUP_MAX)
    }

    fn send(&mut self, requests: &[Request]) -> usize {
        // What an earlier call could not send goes first.
        self.transmit();
        let mut taken = 0;
        for request in requests.iter().take(self.outgoing.remaining_capacity()) {
            let Some(mut frame) = self.pool.take() else { break };
            let (address, port) = self.spread.of_flow(request.flow);
            request.write(&mut self.payload);
            let source_port = self.config.first_port.wrapping_add(port as u16);
            let packet = UdpPacket {
                source_mac: self.config.source_mac,
                destination_mac: self.config.next_hop_mac,
                source: (self.config.sources.nth(address), source_port).into(),
                destination: self.config.target,
                payload: &self.payload,
                vlan: None,
            };
            taken += 1;
            let written = frame.set_len(packet.len()) && packet.write(frame.bytes_mut()).is_some();
            if !written {
                self.pool.give(frame);
                self.counters.send_errors += 1;
                continue;
            }
            self.outgoing.push(frame);
        }
        if taken == 0 {
            self.counters.send_full += 1;
        }
        self.transmit();
        taken
    }

    #[inline]
    fn sent_at(&self) -> Option<Nanos> {
        self.sent_at
    }

    fn receive(&mut self, mut sink: impl FnMut(&Reply<'_>)) -> usize {
        let mut count = 0;
        self.transmit();
        for _ in 0..BATCHES_PER_TURN {
            let now = (self.clock)();
            if self.port.rx(&mut self.pool, &mut self.incoming, now) == 0 {
                break;
            }
            let at = Some((self.clock)());
            let mut frames = std::mem::take(&mut self.incoming);
            for mut frame in frames.drain(..) {
                match classify(frame.bytes()) {
                    Outcome::Flow(flow) if flow.key.protocol() == Protocol::Udp => {
                        let number = self.flow_of(flow.key.source(), flow.key.destination());
                        let start = usize::from(flow.payload_offset);
                        let end = start + usize::from(flow.payload_len);
                        match (number, frame.bytes().get(start..end)) {
                            (Some(number), Some(payload)) => {
                                count += 1;
                                let answer = Answer::Copy(payload);
                                sink(&Reply { flow: Some(number), answer, at });
                            }
                            _ => self.counters.strangers += 1,
                        }
                    }
                    Outcome::NotOurs(NotOurs::Arp) => {
                        let (sources, mac) = (self.config.sources, self.config.source_mac);
                        let is_ours = |address| sources.position(IpAddr::V4(address)).is_some();
                        let answer = arp::answer(frame.bytes_mut(), is_ours, mac);
                        if let Some(length) = answer
                            && frame.set_len(length)
                            && !self.outgoing.is_full()
                        {
                            self.outgoing.push(frame);
                            continue;
                        }
                    }
                    _ => self.counters.strangers += 1,
                }
                self.pool.give(frame);
            }
            self.incoming = frames;
        }
        self.transmit();
        count
    }

    fn wait(&mut self, timeout: Nanos) {
        self.port.prepare_wait(&mut self.pool);
        let until_port = self.port.next_deadline().since((self.clock)());
        let timeout = timeout.min(until_port);
        match self.port.poll_fd() {
            Some(fd) => {
                sys::poll::wait_readable(fd, timeout);
            }
            // A port without the kernel cannot wake anybody: look again soon.
            None => std::thread::sleep(timeout.min(Nanos::from_micros(20)).into()),
        }
    }

    fn counters(&self) -> TransportCounters {
        let port = self.port.counters();
        let failed = port.tx_oversize + port.tx_refused + port.tx_errors;
        TransportCounters { send_errors: self.counters.send_errors + failed, ..self.counters }
    }

    fn describe(&self) -> String {
        let is = self.port.capabilities();
        let Spread { addresses, ports } = self.spread;
        format!(
            "port {}:{} ({}), {addresses} source address(es) x {ports} port(s) from {}",
            is.kind, is.name, is.mode, self.config.sources
        )
    }
}

impl<P: Port> Drop for Packets<P> {
    fn drop(&mut self) {
        for frame in self.outgoing.drain(..).chain(self.incoming.drain(..)) {
            self.pool.give(frame);
        }
        self.port.close(&mut self.pool);
    }
}

#[cfg(test)]
mod tests;
