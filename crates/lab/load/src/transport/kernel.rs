//! Through the UDP sockets of this kernel.
//!
//! One source address: a connected socket for each flow, up to [`SOCKETS_MAX`]. A prefix of source
//! addresses, all local to this kernel (`ip route add local PREFIX dev lo`): one socket for each
//! source port, which names the address packet by packet (IP_PKTINFO), so that 700,000 flows are a
//! few dozen sockets. Anything beyond needs [`super::packets`], which forges what it likes.

use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use base::Nanos;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use sys::mmsg::{DATAGRAMS_MAX, Datagrams};

use super::sources::{FIRST_PORT, Prefix, Spread};
use super::{Answer, Reply, Transport, TransportCounters};
use crate::{Error, Request};

/// Sockets of a run, at most: an address has 55,000 ports from [`FIRST_PORT`] on, and each socket
/// costs the kernel about 1.5 kB.
pub const SOCKETS_MAX: u32 = 50_000;

/// Descriptors that the rest of the process may need.
const SPARE_DESCRIPTORS: u64 = 256;

/// Up to this many sockets are each asked for packets; more are asked for by epoll.
const ASKED_DIRECTLY: usize = 2;

/// Sockets whose packets are taken in one turn, at most.
const SOCKETS_PER_TURN: usize = 64;

/// Bytes of receive buffer wanted for each socket, where there are few: 10 ms of 200,000 packets a
/// second (the kernel counts about 800 bytes for a small one). Less is no error.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Which sockets to open.
#[derive(Clone, Copy, Debug)]
pub struct KernelConfig {
    /// Where requests go.
    pub target: SocketAddr,
    /// Where they come from; `None`: what the kernel chooses.
    pub sources: Option<Prefix>,
    /// How many flows there are.
    pub flows: u32,
    /// Bytes of a request.
    pub payload_bytes: usize,
    /// The first source port to try.
    pub first_port: u16,
}

/// Many flows through kernel sockets; a handle, of which there can be two (see [`Self::split`]).
pub struct KernelUdp {
    sockets: Arc<Sockets>,
    outgoing: Datagrams,
    incoming: Datagrams,
    /// Sockets that may have packets.
    ready: Vec<usize>,
    payload_bytes: usize,
    counters: TransportCounters,
}

struct Sockets {
    all: Vec<UdpSocket>,
    epoll: OwnedFd,
    sources: Option<Prefix>,
    spread: Spread,
    target: SocketAddr,
}

impl KernelUdp {
    /// Opens the sockets, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Too many flows for one address, no such address here, no route, no descriptors.
    pub fn open(config: &KernelConfig) -> Result<Self, Error> {
        let KernelConfig { target, sources, flows, payload_bytes, first_port } = *config;
        let hosts = sources.map_or(1, |sources| sources.hosts());
        let spread = Spread::new(flows, hosts);
        if spread.ports > SOCKETS_MAX {
            let needed = flows.div_ceil(SOCKETS_MAX);
            return Err(Error::Setting(format!(
                "{flows} flows from {hosts} address(es) need {} sockets, and {SOCKETS_MAX} are \
                 possible: give --source-prefix with at least {needed} local addresses (make them \
                 local with `ip route add local PREFIX dev lo`), or send by a port (--transport \
                 af_packet:IFACE), which can be any number of flows",
                spread.ports
            )));
        }
        if sources.is_some_and(|sources| sources.nth(0).is_ipv4() != target.is_ipv4()) {
            return Err(Error::Setting(format!(
                "the source address and {target} are of different IP versions: use one of both"
            )));
        }
        raise_descriptor_limit(u64::from(spread.ports))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| Error::io("make an epoll set", &errno.into()))?;
        let mut all = Vec::with_capacity(spread.ports as usize);
        let mut port = first_port;
        for number in 0..spread.ports {
            let (socket, next) = bind(&sources, spread, target, port)?;
            port = next;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, &socket, epoll::EventData::new_u64(u64::from(number)), flags)
                .map_err(|errno| Error::io("watch a socket", &errno.into()))?;
            if spread.ports <= 16 {
                // The default holds 250 small packets; a refusal leaves it at that.
                let _ = rustix::net::sockopt::set_socket_recv_buffer_size(
                    &socket,
                    RECEIVE_BUFFER_BYTES,
                );
            }
            all.push(socket);
        }
        let sockets = Sockets { all, epoll, sources, spread, target };
        Ok(Self::handle(Arc::new(sockets), payload_bytes))
    }

    /// Another handle of the same sockets, so that one thread can send and another receive.
    #[must_use]
    pub fn split(&self) -> Self {
        Self::handle(Arc::clone(&self.sockets), self.payload_bytes)
    }

    fn handle(sockets: Arc<Sockets>, payload_bytes: usize) -> Self {
        let mut outgoing = Datagrams::new(payload_bytes);
        if sockets.spread.addresses > 1 {
            outgoing.set_destination(Some(sockets.target));
        }
        Self {
            outgoing,
            // A byte more than a reply may have: a longer one must show.
            incoming: Datagrams::new(payload_bytes + 1),
            ready: Vec::with_capacity(2 * SOCKETS_PER_TURN),
            payload_bytes,
            counters: TransportCounters::default(),
            sockets,
        }
    }

    /// Finds sockets that have packets.
    #[inline]
    fn look(&mut self) {
        if self.sockets.all.len() <= ASKED_DIRECTLY {
            self.ready.extend(0..self.sockets.all.len());
            return;
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [const { MaybeUninit::uninit() }; SOCKETS_PER_TURN];
        // EINTR and nothing ready are the same here: look again next turn.
        if let Ok((events, _)) = epoll::wait(&self.sockets.epoll, &mut events, Some(&zero)) {
            self.ready.extend(events.iter().map(|event| event.data.u64() as usize));
        }
    }
}

impl Transport for KernelUdp {
    #[inline]
    fn group(&self, requests: &[Request]) -> usize {
        let spread = self.sockets.spread;
        let first = requests.first().map(|request| spread.of_flow(request.flow).1);
        requests
            .iter()
            .take(DATAGRAMS_MAX)
            .take_while(|request| Some(spread.of_flow(request.flow).1) == first)
            .count()
    }

    fn send(&mut self, requests: &[Request]) -> usize {
        let Self { sockets, outgoing, payload_bytes, counters, .. } = self;
        let Some(first) = requests.first() else { return 0 };
        let (_, port) = sockets.spread.of_flow(first.flow);
        let Some(socket) = sockets.all.get(port as usize) else {
            debug_assert!(false, "the plan's flows are those the sockets were opened for");
            return 0;
        };
        outgoing.clear();
        for request in requests.iter().take(DATAGRAMS_MAX) {
            let (address, _) = sockets.spread.of_flow(request.flow);
            let source = (sockets.spread.addresses > 1)
                .then(|| sockets.sources.map(|sources| sources.nth(address)))
                .flatten();
            let bytes = outgoing.add(*payload_bytes, source);
            let Some(bytes) = bytes else { break };
            request.write(bytes);
        }
        // The second try: an error that an earlier packet met (ECONNREFUSED) is reported by the
        // next call, which has sent nothing then.
        for _ in 0..2 {
            match outgoing.send(socket.as_fd(), 0) {
                Ok(sent) => return sent,
                Err(Errno::CONNREFUSED) => counters.refused += 1,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {
                    counters.send_full += 1;
                    return 0;
                }
                Err(_) => break,
            }
        }
        counters.send_errors += 1;
        1
    }

    fn receive(&mut self, mut sink: impl FnMut(&Reply<'_>)) -> usize {
        if self.ready.is_empty() {
            self.look();
        }
        let one_address = self.sockets.spread.addresses == 1;
        let mut count = 0;
        for _ in 0..SOCKETS_PER_TURN {
            let Some(number) = self.ready.pop() else { break };
            let Some(socket) = self.sockets.all.get(number) else { continue };
            match self.incoming.receive(socket.as_fd()) {
                Ok(received) => {
                    // Edge-triggered: a socket that may have more will not be reported again.
                    if received == DATAGRAMS_MAX {
                        self.ready.push(number);
                    }
                    count += received;
                    let at = Some(sys::clock::now());
                    // One socket for many addresses does not say which one was meant, but is not
                    // connected either: the index says it all.
                    let flow = one_address.then_some(number as u32);
                    for index in 0..received {
                        let answer = Answer::Copy(self.incoming.bytes(index));
                        sink(&Reply { flow, answer, at });
                    }
                }
                Err(Errno::AGAIN) => {}
                Err(Errno::CONNREFUSED) => {
                    self.counters.refused += 1;
                    self.ready.push(number);
                }
                Err(_) => self.ready.push(number),
            }
        }
        count
    }

    fn wait(&mut self, timeout: Nanos) {
        if self.ready.is_empty() {
            sys::poll::wait_readable(self.sockets.epoll.as_fd(), timeout);
        }
    }

    fn counters(&self) -> TransportCounters {
        self.counters
    }

    fn describe(&self) -> String {
        let Spread { addresses, ports } = self.sockets.spread;
        let sources = self.sockets.sources.map_or(String::new(), |from| format!(" from {from}"));
        match addresses {
            1 => format!("{ports} connected kernel UDP socket(s){sources}"),
            _ => format!("{ports} kernel UDP socket(s), {addresses} source addresses{sources}"),
        }
    }
}

/// Binds the next free port at or after `port`; the socket, and the port to try next.
fn bind(
    sources: &Option<Prefix>,
    spread: Spread,
    target: SocketAddr,
    port: u16,
) -> Result<(UdpSocket, u16), Error> {
    let any = match target {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    // A socket that speaks for many addresses is bound to none of them.
    let many = spread.addresses > 1;
    let address = sources.filter(|_| !many).map_or(any, |sources| sources.nth(0));
    for port in port..u16::MAX {
        let socket = match UdpSocket::bind((address, port)) {
            Ok(socket) => socket,
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => continue,
            Err(error) => {
                let doing = format!(
                    "bind {} (it must be an address of this machine)",
                    SocketAddr::from((address, port))
                );
                return Err(Error::io(doing, &error));
            }
        };
        let doing = |what: &str| format!("{what} a UDP socket to {target}");
        socket.set_nonblocking(true).map_err(|error| Error::io(doing("prepare"), &error))?;
        if !many {
            socket.connect(target).map_err(|error| Error::io(doing("connect"), &error))?;
        }
        return Ok((socket, port + 1));
    }
    Err(Error::Failed(format!(
        "no UDP port of {address} from {FIRST_PORT} on is left: end what uses them, use fewer \
         flows, or give --source-prefix"
    )))
}

/// Allows that many sockets in this process.
pub(super) fn raise_descriptor_limit(sockets: u64) -> Result<(), Error> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let wanted = open + sockets + SPARE_DESCRIPTORS;
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    // Root may raise the upper limit too; others keep theirs.
    let raised = maximum.map(|maximum| maximum.max(wanted));
    let limit = Rlimit { current: Some(wanted), maximum: raised };
    rustix::process::setrlimit(Resource::Nofile, limit).map_err(|errno| {
        Error::Failed(format!(
            "{sockets} sockets need {wanted} descriptors and {} are allowed ({errno}): raise it \
             with `ulimit -n {wanted}`, or use fewer flows or --source-prefix",
            maximum.map_or("any number".to_owned(), |maximum| maximum.to_string())
        ))
    })
}

#[cfg(test)]
mod tests;
