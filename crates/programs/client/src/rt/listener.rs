//! An address that the application listens on, and the packets for it at each worker.

use std::net::SocketAddr;

use crate::rt::inbox::Inbox;
use crate::rt::packet::Packet;

/// One of the addresses asked for when attaching.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    /// By worker.
    pub(crate) inboxes: Box<[Inbox<Packet>]>,
}

impl Listener {
    pub(crate) fn new(address: SocketAddr, workers: usize, queue_packets: usize) -> Self {
        Self { address, inboxes: (0..workers).map(|_| Inbox::new(queue_packets)).collect() }
    }

    /// Whether packets to `destination` are for it: an unspecified address means every one, port
    /// zero every port, as the daemon reads them.
    pub(crate) fn covers(&self, destination: SocketAddr) -> bool {
        let (ours, theirs) = (self.address.ip(), destination.ip());
        let port = self.address.port();
        (port == destination.port() || port == 0)
            && (ours == theirs || ours.is_unspecified() && ours.is_ipv4() == theirs.is_ipv4())
    }
}

/// The address of a UDP listener as it is written in [`crate::AttachOptions::listen`]; nothing when
/// it is none.
pub(crate) fn parse(text: &str) -> Option<SocketAddr> {
    text.strip_prefix("udp:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_covers_what_the_daemon_gives_it() {
        for (listens, destination, covers) in [
            ("udp:10.0.0.2:7", "10.0.0.2:7", true),
            ("udp:10.0.0.2:7", "10.0.0.2:8", false),
            ("udp:10.0.0.2:7", "10.0.0.3:7", false),
            ("udp:10.0.0.2:0", "10.0.0.2:9", true),
            ("udp:0.0.0.0:53", "10.0.0.9:53", true),
            ("udp:0.0.0.0:53", "[fd00::1]:53", false),
            ("udp:[::]:53", "[fd00::1]:53", true),
        ] {
            let listener = Listener::new(parse(listens).expect("well formed"), 1, 1);
            let destination = destination.parse().expect("well formed");
            assert_eq!(listener.covers(destination), covers, "{listens} {destination}");
        }
        assert_eq!((parse("tcp:10.0.0.2:7"), parse("10.0.0.2:7")), (None, None));
    }
}
