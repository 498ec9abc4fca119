//! smoltcp as an echo server: the baseline among engines that do no input or output either.

use std::sync::atomic::{AtomicU32, Ordering};

use base::Nanos;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{self, CongestionControl};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use super::end::{PACKET_BYTES, Packet, REQUEST_BYTES};
use crate::error::{Error, OrNeeds};
use crate::flows::SERVER;

/// Milliseconds: smoltcp asks a plain function for the clock of its timestamps.
static CLOCK: AtomicU32 = AtomicU32::new(0);

/// Packets that an answer to one packet may take: one, or two while a connection begins.
const ROOM: usize = 4;

/// A wire in memory that holds one packet in, and a few out.
struct Wire {
    incoming: Option<Packet>,
    /// Whether that one was taken.
    is_taken: bool,
    outgoing: [([u8; PACKET_BYTES], usize); ROOM],
    used: usize,
}

struct Received<'a>(&'a Packet);

impl RxToken for Received<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0.bytes())
    }
}

struct Room<'a> {
    place: &'a mut ([u8; PACKET_BYTES], usize),
    used: &'a mut usize,
}

impl TxToken for Room<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        let Self { place: (packet, len), used } = self;
        // Its capabilities have told smoltcp how much fits.
        let result = write(&mut packet[..bytes]);
        *len = bytes;
        *used += 1;
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Room<'a>;

    #[inline]
    fn receive(&mut self, _now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let Self { incoming, is_taken, outgoing, used } = self;
        let packet = incoming.as_ref().filter(|_| !*is_taken)?;
        *is_taken = true;
        Some((Received(packet), Room { place: outgoing.get_mut(*used)?, used }))
    }

    #[inline]
    fn transmit(&mut self, _now: Instant) -> Option<Self::TxToken<'_>> {
        let Self { outgoing, used, .. } = self;
        let place = outgoing.get_mut(*used)?;
        Some(Room { place, used })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = PACKET_BYTES;
        capabilities
    }
}

/// The server.
pub(super) struct SmoltcpServer {
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl SmoltcpServer {
    /// One that listens at [`SERVER`] for one connection, with rings of `ring_bytes`.
    pub(super) fn new(ring_bytes: usize, congestion: CongestionControl) -> Result<Self, Error> {
        let outgoing = [([0; PACKET_BYTES], 0); ROOM];
        let mut wire = Wire { incoming: None, is_taken: true, outgoing, used: 0 };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = crate::flows::SEED;
        let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
        let [a, b, c, d] = SERVER.0.octets();
        let mut added = Ok(());
        interface.update_ip_addrs(|addresses| {
            added = addresses.push(IpCidr::new(IpAddress::v4(a, b, c, d), 24));
        });
        added.map_err(|_| "it has no room for an address").or_needs("interface of smoltcp")?;
        let ring = || tcp::SocketBuffer::new(vec![0; ring_bytes]);
        let mut socket = tcp::Socket::new(ring(), ring());
        socket.set_congestion_control(congestion);
        socket.set_nagle_enabled(false);
        socket.set_tsval_generator(Some(|| CLOCK.load(Ordering::Relaxed)));
        socket.listen(SERVER.1).or_needs("listener of smoltcp")?;
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        Ok(Self { wire, interface, sockets, socket })
    }

    /// Puts a packet onto the wire.
    pub(super) fn offer(&mut self, packet: &Packet) {
        (self.wire.incoming, self.wire.is_taken) = (Some(*packet), false);
    }

    /// Takes the packet that was offered, echoes what can be read, sends what is to be sent.
    #[inline]
    pub(super) fn serve(&mut self, now: Nanos) {
        let Self { wire, interface, sockets, socket } = self;
        let now = Instant::from_micros((now.0 / 1000) as i64);
        CLOCK.store(now.total_millis() as u32, Ordering::Relaxed);
        interface.poll_ingress_single(now, wire, sockets);
        let socket = sockets.get_mut::<tcp::Socket<'_>>(*socket);
        if socket.can_recv() {
            let mut bytes = [0; 2 * REQUEST_BYTES];
            if let Ok(count) = socket.recv_slice(&mut bytes) {
                // There is room: everything before was acknowledged.
                let sent = socket.send_slice(&bytes[..count]);
                debug_assert_eq!(sent, Ok(count));
            }
        }
        interface.poll_egress(now, wire, sockets);
    }

    /// What it has sent since it was asked last.
    pub(super) fn answers(&mut self) -> impl Iterator<Item = Packet> {
        let used = std::mem::take(&mut self.wire.used);
        self.wire.outgoing[..used]
            .iter()
            .filter_map(|(bytes, len)| Packet::with_ipv4(&bytes[..*len]))
    }
}
