//! Which addresses and ports are served here, and the answer to "who has that address?".
//!
//! With AF_XDP the program in the kernel has sorted already and this is a second look; a packet
//! socket or a TAP sees everything, and here is where the rest is left.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use shm::Frame;
use wire::{FlowKey, NotOurs, Protocol, arp, icmp};

use crate::app::AttachmentId;

/// One address and port that is served. An unspecified address means every one of the host's; port
/// zero means every port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Destination address and port of packets.
    pub address: SocketAddr,
}

/// Listeners at once, at most.
pub const LISTENERS_MAX: usize = 4096;

/// Everything that is served, and by whom.
///
/// A packet finds its listener by destination port, then by address: one read of a table of ports
/// (a cache miss at worst, on a line that its neighbours in the batch share) and a short chain,
/// however many there are.
#[derive(Clone, Debug)]
pub struct Listeners {
    listeners: Vec<Entry>,
    /// By protocol and port: the first of its listeners, or [`NONE`].
    by_port: [Box<[u16]>; 2],
    /// The first of those that serve every port.
    every_port: u16,
    /// The own workers serve what is nobody else's: the port takes in only what they asked it for.
    serve_rest: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    listener: Listener,
    app: AttachmentId,
    /// The next of the same chain.
    next: u16,
}

const NONE: u16 = u16::MAX;

impl Listeners {
    /// Listeners of the dispatcher's own workers.
    ///
    /// # Panics
    /// Above [`LISTENERS_MAX`] of them: configuration is checked before.
    pub fn new(listeners: Vec<Listener>) -> Self {
        assert!(listeners.len() <= LISTENERS_MAX, "at most {LISTENERS_MAX} listeners");
        let ports = || vec![NONE; 1 << 16].into_boxed_slice();
        let mut all = Self {
            listeners: Vec::new(),
            by_port: [ports(), ports()],
            every_port: NONE,
            serve_rest: false,
        };
        for listener in listeners {
            all.insert(listener, AttachmentId::OWN);
        }
        all
    }

    /// Packets without a listener are for the own workers from now on: for ports that take in
    /// nothing but what somebody here has asked for.
    pub fn serve_rest(&mut self) {
        self.serve_rest = true;
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().map(|entry| &entry.listener)
    }

    /// Adds what an application listens on: all of it or nothing.
    ///
    /// # Errors
    /// Somebody has one of them already, wholly or in part, or there are too many.
    pub fn add(&mut self, app: AttachmentId, listeners: &[Listener]) -> Result<(), Taken> {
        if self.listeners.len() + listeners.len() > LISTENERS_MAX {
            return Err(Taken::TooMany);
        }
        for (at, listener) in listeners.iter().enumerate() {
            let others = self.iter().chain(&listeners[..at]);
            if let Some(other) = others.into_iter().find(|other| other.overlaps(listener)) {
                return Err(Taken::By { wanted: *listener, other: *other });
            }
        }
        for listener in listeners {
            self.insert(*listener, app);
        }
        Ok(())
    }

    /// The dispatcher's own workers serve these from now on, and nothing else: or all stays as it
    /// is.
    ///
    /// # Errors
    /// An application has one of them, wholly or in part, or there are too many.
    pub fn replace_own(&mut self, listeners: &[Listener]) -> Result<(), Taken> {
        let mut replaced = self.clone();
        replaced.remove(AttachmentId::OWN);
        replaced.add(AttachmentId::OWN, listeners)?;
        *self = replaced;
        Ok(())
    }

    /// Forgets everything that an application listens on.
    pub fn remove(&mut self, app: AttachmentId) {
        let left = std::mem::take(&mut self.listeners);
        for ports in &mut self.by_port {
            for entry in &left {
                ports[usize::from(entry.listener.address.port())] = NONE;
            }
        }
        self.every_port = NONE;
        for entry in left.into_iter().filter(|entry| entry.app != app) {
            self.insert(entry.listener, entry.app);
        }
    }

    fn insert(&mut self, listener: Listener, app: AttachmentId) {
        let index = self.listeners.len() as u16;
        let port = listener.address.port();
        let first = match port {
            0 => &mut self.every_port,
            port => &mut self.by_port[which(listener.protocol)][usize::from(port)],
        };
        self.listeners.push(Entry { listener, app, next: *first });
        *first = index;
    }

    /// Who serves this flow, if anybody.
    #[inline]
    pub fn owner(&self, key: &FlowKey) -> Option<AttachmentId> {
        let destination = key.destination();
        let first = self.by_port[which(key.protocol())][usize::from(destination.port())];
        if let Some(app) = self.in_chain(first, key.protocol(), destination.ip()) {
            return Some(app);
        }
        let rest = self.serve_rest.then_some(AttachmentId::OWN);
        if self.every_port == NONE {
            return rest;
        }
        self.in_chain(self.every_port, key.protocol(), destination.ip()).or(rest)
    }

    #[inline]
    fn in_chain(
        &self,
        first: u16,
        protocol: Protocol,
        destination: IpAddr,
    ) -> Option<AttachmentId> {
        let mut index = first;
        while let Some(entry) = self.listeners.get(usize::from(index)) {
            if entry.listener.protocol == protocol
                && covers(entry.listener.address.ip(), destination)
            {
                return Some(entry.app);
            }
            index = entry.next;
        }
        None
    }

    /// Turns a question for the link address of one of ours into its answer; false when it is none.
    pub(crate) fn answer(&self, frame: &mut Frame, reason: NotOurs, mac: [u8; 6]) -> bool {
        let ours = |asked: IpAddr| self.iter().any(|listener| listener.address.ip() == asked);
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

impl Default for Listeners {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

fn which(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Tcp => 0,
        Protocol::Udp => 1,
    }
}

impl Listener {
    /// Whether some packet would be for both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.address, other.address);
        self.protocol == other.protocol
            && (ours.port() == theirs.port() || ours.port() == 0 || theirs.port() == 0)
            && (covers(ours.ip(), theirs.ip()) || covers(theirs.ip(), ours.ip()))
    }
}

/// An application cannot listen where it wants to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Somebody listens there already.
    By {
        /// What was asked for.
        wanted: Listener,
        /// What is there.
        other: Listener,
    },
    /// There are [`LISTENERS_MAX`].
    TooMany,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By { wanted, other } => write!(
                f,
                "{wanted} is in use: somebody listens on {other}; see `calisto apps` and the \
                 daemon's `listen`"
            ),
            Self::TooMany => {
                write!(f, "{LISTENERS_MAX} listeners are in use and no more are possible")
            }
        }
    }
}

impl std::error::Error for Taken {}

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
    use base::AppId;

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
            let owner = listeners.owner(&key(protocol, destination));
            assert_eq!(owner.is_some(), served, "{destination}");
        }
    }

    #[test]
    fn each_application_gets_only_its_own_and_what_it_leaves_is_free_again() {
        let parse = |text: &str| text.parse::<Listener>().expect("the test writes a listener");
        let [web, cache] = [1, 2].map(|app| AttachmentId { app: AppId(app), turn: 1 });
        let mut listeners = Listeners::new(vec![parse("udp:10.0.0.2:7")]);
        listeners.add(web, &[parse("tcp:10.0.0.2:80"), parse("udp:0.0.0.0:53")]).expect("free");
        listeners.add(cache, &[parse("tcp:10.0.0.2:6379")]).expect("free");
        let owner = |listeners: &Listeners, protocol, to| listeners.owner(&key(protocol, to));
        assert_eq!(owner(&listeners, Protocol::Tcp, "10.0.0.2:80"), Some(web));
        assert_eq!(owner(&listeners, Protocol::Tcp, "10.0.0.2:6379"), Some(cache));
        assert_eq!(owner(&listeners, Protocol::Udp, "10.9.9.9:53"), Some(web));
        assert_eq!(owner(&listeners, Protocol::Udp, "10.0.0.2:7"), Some(AttachmentId::OWN));
        for wanted in ["udp:10.0.0.2:7", "udp:10.0.0.2:53", "udp:10.0.0.2:0", "tcp:0.0.0.0:80"] {
            let error = listeners.add(cache, &[parse("udp:10.0.0.2:9"), parse(wanted)]);
            let error = error.expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{error}");
        }
        assert_eq!(owner(&listeners, Protocol::Udp, "10.0.0.2:9"), None, "all or nothing");
        let twice = [parse("udp:10.0.0.2:9"), parse("udp:0.0.0.0:9")];
        assert!(listeners.add(cache, &twice).is_err(), "it is in its own way");
        listeners.remove(web);
        assert_eq!(owner(&listeners, Protocol::Tcp, "10.0.0.2:80"), None);
        assert_eq!(owner(&listeners, Protocol::Tcp, "10.0.0.2:6379"), Some(cache));
        listeners.add(cache, &[parse("tcp:0.0.0.0:80")]).expect("free again");
        assert_eq!(owner(&listeners, Protocol::Tcp, "10.0.0.2:80"), Some(cache));
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
