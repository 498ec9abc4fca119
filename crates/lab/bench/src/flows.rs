//! Flows: random 5-tuples, their hashes, and their packets as differences to one template.

use std::net::{Ipv4Addr, SocketAddr};

use base::FlowHash;
use datapath::{Listener, Listeners};
use shm::Frame;
use wire::build::UdpPacket;
use wire::{FlowKey, Protocol, Toeplitz};

/// The flows of the papers.
pub(crate) const FLOWS: usize = 700_000;

/// The seed of everything random here; a round adds its number.
pub(crate) const SEED: u64 = 0x00ca_1150;

/// SplitMix64 (Steele, Lea, Flood, 2014).
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    /// The next 64 random bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

/// Where the flows go.
pub(crate) const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 77, 0, 2), 7);

/// The link address of a port in memory, and so of whoever serves behind it.
pub(crate) const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The key of the flow hash in every case.
pub(crate) fn hash_key() -> [u8; 40] {
    Toeplitz::key_from_seed(SEED)
}

/// Who is served.
pub(crate) fn listeners() -> Listeners {
    let address = SocketAddr::from(SERVER);
    Listeners::new(vec![Listener { protocol: Protocol::Udp, address }])
}

/// A random source in 10.0.0.0/8, with a port that clients use.
fn source(random: &mut SplitMix) -> SocketAddr {
    let bits = random.next();
    let [_, a, b, c, ..] = bits.to_be_bytes();
    let port = 1024 + ((bits & 0xffff) as u16 % 64_000);
    // Neither a network nor a broadcast address may send.
    SocketAddr::from((Ipv4Addr::new(10, a, b, c.clamp(1, 254)), port))
}

/// Hashes of `count` random 5-tuples.
pub(crate) fn hashes(count: usize, seed: u64) -> Vec<FlowHash> {
    let toeplitz = Toeplitz::new(hash_key());
    let mut random = SplitMix(seed);
    let flow = |_| {
        let key = FlowKey::new(Protocol::Udp, source(&mut random), SERVER.into());
        toeplitz.hash(&key.expect("both ends are IPv4"))
    };
    (0..count).map(flow).collect()
}

/// What tells a flow's packet from the template: 10 bytes.
#[derive(Clone, Copy)]
struct Patch {
    source: [u8; 4],
    port: [u8; 2],
    ip_checksum: [u8; 2],
    udp_checksum: [u8; 2],
}

/// Positions in an untagged Ethernet frame with an IPv4 header without options.
const IP_CHECKSUM: usize = 24;
const IP_SOURCE: usize = 26;
const UDP_SOURCE: usize = 34;
const UDP_CHECKSUM: usize = 40;
const PAYLOAD: usize = 42;

/// Packets of many flows.
pub(crate) struct Packets {
    template: Vec<u8>,
    patches: Vec<Patch>,
}

impl Packets {
    /// Packets of `count` random flows to [`SERVER`], each with `payload`; every checksum is right.
    pub(crate) fn new(count: usize, seed: u64, payload: &[u8]) -> Self {
        Self::to(SERVER.into(), count, seed, payload)
    }

    /// The same to another destination.
    pub(crate) fn to(destination: SocketAddr, count: usize, seed: u64, payload: &[u8]) -> Self {
        let mut random = SplitMix(seed);
        let mut bytes = [0; 2048];
        let mut write = |source| {
            let packet = UdpPacket {
                source_mac: [2, 0, 0, 0, 0, 1],
                destination_mac: SERVER_MAC,
                source,
                destination,
                payload,
                vlan: None,
            };
            let len = packet.write(&mut bytes).expect("the payload of a bench is short");
            let two = |at: usize| [bytes[at], bytes[at + 1]];
            let patch = Patch {
                source: [bytes[26], bytes[27], bytes[28], bytes[29]],
                port: two(UDP_SOURCE),
                ip_checksum: two(IP_CHECKSUM),
                udp_checksum: two(UDP_CHECKSUM),
            };
            (bytes[..len].to_vec(), patch)
        };
        let template = write(SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 1024))).0;
        let patches = (0..count).map(|_| write(source(&mut random)).1).collect();
        Self { template, patches }
    }

    /// How many flows.
    pub(crate) fn len(&self) -> usize {
        self.patches.len()
    }

    /// Writes the packet of a flow.
    #[inline]
    pub(crate) fn write(&self, flow: usize, frame: &mut Frame) {
        let filled = frame.fill(&self.template);
        debug_assert!(filled, "a template is shorter than a chunk");
        let patch = &self.patches[flow];
        let bytes = frame.bytes_mut();
        bytes[IP_CHECKSUM..IP_CHECKSUM + 2].copy_from_slice(&patch.ip_checksum);
        bytes[IP_SOURCE..IP_SOURCE + 4].copy_from_slice(&patch.source);
        bytes[UDP_SOURCE..UDP_SOURCE + 2].copy_from_slice(&patch.port);
        bytes[UDP_CHECKSUM..UDP_CHECKSUM + 2].copy_from_slice(&patch.udp_checksum);
    }

    /// Writes a packet of a flow that carries two numbers, and so no UDP checksum (RFC 768).
    #[inline]
    pub(crate) fn write_numbered(&self, flow: usize, number: u32, frame: &mut Frame) {
        self.write(flow, frame);
        let bytes = frame.bytes_mut();
        bytes[UDP_CHECKSUM..UDP_CHECKSUM + 2].copy_from_slice(&[0, 0]);
        bytes[PAYLOAD..PAYLOAD + 4].copy_from_slice(&(flow as u32).to_be_bytes());
        bytes[PAYLOAD + 4..PAYLOAD + 8].copy_from_slice(&number.to_be_bytes());
    }
}

/// The two numbers of a packet written by [`Packets::write_numbered`].
#[inline]
pub(crate) fn numbers(frame: &[u8]) -> Option<(u32, u32)> {
    let numbers = frame.get(PAYLOAD..)?.first_chunk::<8>()?;
    let [a, b, c, d, e, f, g, h] = *numbers;
    Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])))
}

#[cfg(test)]
mod tests {
    use shm::{FramePool, PoolConfig};
    use wire::Outcome;

    use super::*;

    #[test]
    fn a_packet_is_of_its_flow_and_its_checksums_are_right() {
        let config = PoolConfig { frames: 1, chunk_bytes: 2048, numa_node: None };
        let mut pool = FramePool::new(config).expect("a small pool");
        let mut frame = pool.take().expect("it has one");
        let packets = Packets::new(100, SEED, &[7; 16]);
        let hashes = hashes(100, SEED);
        let toeplitz = Toeplitz::new(hash_key());
        for (flow, &hash) in hashes.iter().enumerate() {
            packets.write(flow, &mut frame);
            let Outcome::Flow(found) = wire::classify(frame.bytes()) else {
                panic!("flow {flow} is none");
            };
            assert!(wire::checksum::verify(frame.bytes(), &found), "flow {flow}");
            assert_eq!(toeplitz.hash(&found.key), hash, "flow {flow}");
            packets.write_numbered(flow, 12, &mut frame);
            let Outcome::Flow(found) = wire::classify(frame.bytes()) else {
                panic!("flow {flow} is none");
            };
            assert!(wire::checksum::verify(frame.bytes(), &found), "numbered flow {flow}");
            assert_eq!(numbers(frame.bytes()), Some((flow as u32, 12)));
        }
        pool.give(frame);
    }
}
