//! Which addresses and ports are served here, and the answer to "who has that address?".
//!
//! With AF_XDP the program in the kernel has sorted already and this is a second look; a packet
//! socket or a TAP sees everything, and here is where the rest is left.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use shm::Frame;
use wire::{FlowKey, NotOurs, Protocol, arp, icmp};

/// One address and port that is served. An unspecified address means every one of the host's; port
/// zero means every port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Destination address and port of packets.
    pub address: SocketAddr,
}

/// Listeners at once, at most: they are looked through one by one.
pub const LISTENERS_MAX: usize = 64;

/// Everything that is served.
#[derive(Clone, Debug, Default)]
pub struct Listeners {
    listeners: Vec<Listener>,
}

impl Listeners {
    /// The listeners.
    ///
    /// # Panics
    /// Above [`LISTENERS_MAX`]: configuration is checked before.
    pub fn new(listeners: Vec<Listener>) -> Self {
        assert!(listeners.len() <= LISTENERS_MAX, "at most {LISTENERS_MAX} listeners");
        Self { listeners }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter()
    }

    /// Whether a packet of this flow is for somebody here.
    #[inline]
    pub fn serves(&self, key: &FlowKey) -> bool {
        let destination = key.destination();
        self.listeners.iter().any(|listener| {
            listener.protocol == key.protocol()
                && (listener.address.port() == destination.port() || listener.address.port() == 0)
                && covers(listener.address.ip(), destination.ip())
        })
    }

    /// Turns a question for the link address of one of ours into its answer; false when it is none.
    pub(crate) fn answer(&self, frame: &mut Frame, reason: NotOurs, mac: [u8; 6]) -> bool {
        let ours =
            |asked: IpAddr| self.listeners.iter().any(|listener| listener.address.ip() == asked);
        let length = match reason {
            NotOurs::Arp => arp::answer(frame.bytes_mut(), |asked| ours(IpAddr::V4(asked)), mac),
            NotOurs::NeighbourSolicitation => {
                // The answer carries an option that the question may not have had.
                let asked_len = frame.len();
                if !frame.set_len((asked_len + 32).min(frame.room())) {
                    return false;
                }
                let length = icmp::answer_solicitation(
                    frame.bytes_mut(),
                    |asked| ours(IpAddr::V6(asked)),
                    mac,
                );
                if length.is_none() {
                    let shrunk = frame.set_len(asked_len);
                    debug_assert!(shrunk, "it was that long before");
                }
                length
            }
            _ => None,
        };
        length.is_some_and(|length| frame.set_len(length))
    }
}

/// Whether a listener at `listening` takes packets for `destination`.
fn covers(listening: IpAddr, destination: IpAddr) -> bool {
    listening == destination
        || (listening.is_unspecified() && listening.is_ipv4() == destination.is_ipv4())
}

impl FromStr for Listener {
    type Err = ListenerError;

    fn from_str(text: &str) -> Result<Self, ListenerError> {
        let wrong = || ListenerError(text.to_owned());
        let (protocol, address) = text.split_once(':').ok_or_else(wrong)?;
        Ok(Self {
            protocol: protocol.parse().map_err(|_| wrong())?,
            address: address.parse().map_err(|_| wrong())?,
        })
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.protocol.name(), self.address)
    }
}

/// A text names no listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerError(String);

impl fmt::Display for ListenerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is no listener: write protocol, address and port, as in udp:10.0.0.2:7 or \
             udp:[fd00::2]:7 (port 0: every port)",
            self.0
        )
    }
}

impl std::error::Error for ListenerError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(protocol: Protocol, destination: &str) -> FlowKey {
        let destination: SocketAddr = destination.parse().expect("the test writes an address");
        let source = if destination.is_ipv4() { "10.0.0.1:5000" } else { "[fd00::1]:5000" };
        let source = source.parse().expect("the test writes an address");
        FlowKey::new(protocol, source, destination).expect("one family")
    }

    #[test]
    fn only_what_is_listened_for_is_served() {
        let parse = |text: &str| text.parse().expect("the test writes a listener");
        let listeners = ["udp:10.0.0.2:7", "tcp:[fd00::2]:80", "udp:0.0.0.0:53", "udp:10.0.0.9:0"];
        let listeners = Listeners::new(listeners.into_iter().map(parse).collect());
        for (protocol, destination, served) in [
            (Protocol::Udp, "10.0.0.2:7", true),
            (Protocol::Udp, "10.0.0.2:8", false),
            (Protocol::Udp, "10.0.0.3:7", false),
            (Protocol::Tcp, "10.0.0.2:7", false),
            (Protocol::Tcp, "[fd00::2]:80", true),
            (Protocol::Udp, "192.0.2.1:53", true),
            (Protocol::Udp, "[fd00::2]:53", false),
            (Protocol::Udp, "10.0.0.9:4242", true),
        ] {
            assert_eq!(listeners.serves(&key(protocol, destination)), served, "{destination}");
        }
    }

    #[test]
    fn a_listener_is_written_as_it_is_read() {
        for text in ["udp:10.0.0.2:7", "tcp:[fd00::2]:80"] {
            let listener: Listener = text.parse().expect("well formed");
            assert_eq!(listener.to_string(), text);
        }
        for text in ["", "udp", "udp:10.0.0.2", "icmp:10.0.0.2:7", "udp:10.0.0.2:70000"] {
            let error = text.parse::<Listener>().expect_err(text).to_string();
            assert!(error.contains("udp:10.0.0.2:7"), "{error}");
        }
    }
}
