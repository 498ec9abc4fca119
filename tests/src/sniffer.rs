//! Every packet that passes an interface of a namespace, as tcpdump(8) would see it.

use std::os::fd::OwnedFd;
use std::path::Path;

use base::Nanos;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with, sockopt,
};
use testbed::Side;

/// A packet socket that hears all interfaces of its namespace.
#[derive(Debug)]
pub struct Sniffer {
    socket: OwnedFd,
}

impl Sniffer {
    /// Listens from now on.
    ///
    /// # Panics
    /// The kernel gives no packet socket: this needs root.
    pub fn new(side: &Side) -> Self {
        let open = || {
            socket_with(
                AddressFamily::PACKET,
                SocketType::RAW,
                SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
                Some(eth::ALL),
            )
        };
        let socket = side.enter(open).expect("the namespace is there");
        Self { socket: socket.expect("this test needs root") }
    }

    /// One that keeps up to that many bytes for who asks late.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn with_buffer(side: &Side, bytes: usize) -> Self {
        let sniffer = Self::new(side);
        let is_set = sockopt::set_socket_recv_buffer_size_force(&sniffer.socket, bytes);
        is_set.expect("this test needs root");
        sniffer
    }

    /// What was heard since it was asked last.
    pub fn packets(&self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut bytes = vec![0; 1 << 16];
        while let Ok((len, _)) = recv(&self.socket, &mut bytes[..], RecvFlags::empty()) {
            packets.push(bytes[..len].to_vec());
        }
        packets
    }
}

/// Writes packets to a capture file, a microsecond apart.
///
/// # Panics
/// The file cannot be written.
pub fn write_capture(path: &Path, packets: &[Vec<u8>]) {
    let file = std::fs::File::create(path).expect("the folder is ours");
    let mut writer = port::pcap::PcapWriter::new(std::io::BufWriter::new(file))
        .expect("there is room for a header");
    for (packet, at) in packets.iter().zip(1..) {
        writer.write(Nanos::from_micros(at), packet).expect("there is room");
    }
    writer.flush().expect("there is room");
}
