//! Clients of the least kind: they know what to send next on each flow, and no more.

use base::{FlowHash, Nanos};
use tcp::{Config, Incoming};
use wire::checksum::Sum;
use wire::{FlowKey, Protocol, Toeplitz, tcp as header};

pub(crate) const REQUEST: usize = 64;
pub(crate) const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 7);
const FIRST: u32 = 1_000_000;

/// A segment on the wire.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) bytes: [u8; 192],
    pub(crate) len: usize,
    pub(crate) key: Option<FlowKey>,
    pub(crate) hash: FlowHash,
    /// Number of its flow.
    pub(crate) flow: u32,
}

impl Frame {
    pub(crate) const EMPTY: Self =
        Self { bytes: [0; 192], len: 0, key: None, hash: FlowHash(0), flow: u32::MAX };

    pub(crate) fn incoming(&self) -> Incoming<'_> {
        let nobody = || FlowKey::new(Protocol::Tcp, SERVER.into(), SERVER.into());
        Incoming {
            key: self.key.or_else(nobody).expect("both are IPv4"),
            hash: self.hash,
            segment: &self.bytes[..self.len],
            ecn: 0,
            is_verified: false,
            route: self.flow,
        }
    }
}

#[derive(Clone, Copy)]
struct Peer {
    key: FlowKey,
    hash: FlowHash,
    /// Next numbers to send and to expect.
    nxt: u32,
    ack: u32,
    /// The server's clock as last seen.
    stamp: u32,
    /// When it was last drawn, in rounds.
    drawn: u32,
}

pub(crate) struct Client {
    peers: Vec<Peer>,
    random: u64,
    round: u32,
    pub(crate) responses: u64,
}

impl Client {
    pub(crate) fn new(flows: u32) -> Self {
        let toeplitz = Toeplitz::new(Config::default().hash_key);
        let peer = |flow: u32| {
            let [_, a, b, c] = flow.to_be_bytes();
            let end = ([10, 1 + a, b, c], 40_000).into();
            let key = FlowKey::new(Protocol::Tcp, end, SERVER.into()).expect("both are IPv4");
            Peer { key, hash: toeplitz.hash(&key), nxt: FIRST, ack: 0, stamp: 0, drawn: 0 }
        };
        Self { peers: (0..flows).map(peer).collect(), random: 1, round: 0, responses: 0 }
    }

    pub(crate) fn syn(&mut self, flow: u32) -> Frame {
        let options = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        self.frame(flow, header::SYN, &options, 0)
    }

    pub(crate) fn handshake_ack(&mut self, flow: u32, now: Nanos) -> Frame {
        let options = self.stamps(flow, now);
        self.frame(flow, header::ACK, &options, 0)
    }

    /// The next request, of a flow that has none in this round yet.
    pub(crate) fn request(&mut self, is_first: bool, now: Nanos) -> Frame {
        self.round += u32::from(is_first);
        let flow = loop {
            // SplitMix64.
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let word = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32;
            let flow = ((word * self.peers.len() as u64) >> 32) as u32;
            if self.peers[flow as usize].drawn != self.round {
                break flow;
            }
        };
        self.peers[flow as usize].drawn = self.round;
        let options = self.stamps(flow, now);
        self.frame(flow, header::ACK | header::PSH, &options, REQUEST)
    }

    fn stamps(&self, flow: u32, now: Nanos) -> [u8; 12] {
        let [a, b, c, d] = ((now.0 / 1_000_000) as u32).to_be_bytes();
        let [e, f, g, h] = self.peers[flow as usize].stamp.to_be_bytes();
        [1, 1, 8, 10, a, b, c, d, e, f, g, h]
    }

    fn frame(&mut self, flow: u32, flags: u8, options: &[u8], payload: usize) -> Frame {
        let peer = &mut self.peers[flow as usize];
        let mut frame = Frame { key: Some(peer.key), hash: peer.hash, flow, ..Frame::EMPTY };
        let header_bytes = 20 + options.len();
        frame.len = header_bytes + payload;
        let bytes = &mut frame.bytes;
        bytes[0..2].copy_from_slice(&peer.key.source().port().to_be_bytes());
        bytes[2..4].copy_from_slice(&SERVER.1.to_be_bytes());
        bytes[4..8].copy_from_slice(&peer.nxt.to_be_bytes());
        bytes[8..12].copy_from_slice(&peer.ack.to_be_bytes());
        bytes[12] = (header_bytes * 4) as u8;
        bytes[13] = flags;
        bytes[14..16].copy_from_slice(&[2, 0]);
        bytes[20..header_bytes].copy_from_slice(options);
        bytes[header_bytes..frame.len].fill(b'?');
        peer.nxt += payload as u32 + u32::from(flags & header::SYN != 0);
        let std::net::IpAddr::V4(address) = peer.key.source().ip() else { return frame };
        let sum =
            Sum::ZERO.pseudo_ipv4(address.octets(), SERVER.0, 6, frame.len as u16).bytes(bytes);
        bytes[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
        frame
    }

    /// Takes an answer in.
    pub(crate) fn take(&mut self, frame: &Frame) {
        let segment = &frame.bytes[..frame.len];
        let header = header::Header::parse(segment).expect("the server sends headers");
        let peer = &mut self.peers[frame.flow as usize];
        let payload = frame.len - usize::from(header.header_bytes);
        let numbers = payload as u32 + u32::from(header.flags & header::SYN != 0);
        peer.ack = header.sequence.wrapping_add(numbers);
        self.responses += (payload / REQUEST) as u64;
        for option in header.options(segment) {
            if let header::TcpOption::Timestamps { value, .. } = option {
                peer.stamp = value;
            }
        }
    }
}
