//! Two gateways of one tunnel, and the packets that go through it.

use std::net::SocketAddr;
use std::sync::Arc;

use base::{ChecksumState, Nanos, PortId};
use calisto_nf::esp::{Algorithm, Association, Esp, EspCounters, Gateway, Others, Secret, Tunnel};
use calisto_nf::{Function, Verdict, Verdicts};
use crypto::IpsecMb;
use shm::{Batch, FramePool, PoolConfig};
use wire::build::UdpPacket;

pub(crate) const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0a];
pub(crate) const GATEWAY_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];
/// The port that everything comes in by.
pub(crate) const PORT: PortId = PortId(3);

/// Both ends of a tunnel, to be changed before they are made.
pub(crate) struct Plan {
    pub(crate) algorithm: Algorithm,
    pub(crate) ends: [&'static str; 2],
    pub(crate) networks: [&'static [&'static str]; 2],
    pub(crate) mtu: u16,
    pub(crate) is_extended: bool,
    pub(crate) others: Others,
    pub(crate) window: u32,
}

impl Plan {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            ends: ["192.0.2.1", "192.0.2.2"],
            networks: [&["10.1.0.0/16", "fd01::/16"], &["10.2.0.0/16", "fd02::/16"]],
            mtu: 1500,
            is_extended: false,
            others: Others::Drop,
            window: 64,
        }
    }

    pub(crate) fn over_ipv6(self) -> Self {
        Self { ends: ["2001:db8::1", "2001:db8::2"], ..self }
    }

    /// End 0 or 1 of the tunnel.
    pub(crate) fn tunnel(&self, own: usize) -> Tunnel {
        let other = 1 - own;
        let [near, far] = [own, other].map(|end| self.ends[end].parse().expect("an address"));
        let networks = |end: usize| {
            self.networks[end].iter().map(|text| text.parse().expect("a network")).collect()
        };
        Tunnel {
            name: "test".to_owned(),
            local: near,
            remote: far,
            local_networks: networks(own),
            remote_networks: networks(other),
            outbound: association(self.algorithm, own),
            inbound: association(self.algorithm, other),
            mtu: self.mtu,
            replay_window: self.window,
            is_extended: self.is_extended,
            address_ipv4: None,
            address_ipv6: Some("fd01::1".parse().expect("an address")),
        }
    }

    pub(crate) fn end(&self, own: usize) -> End {
        let gateway = Gateway::new(vec![self.tunnel(own)], Nanos::from_secs(1_700_000_000));
        End::of(Arc::new(gateway.expect("the plan is right")), self.others)
    }

    pub(crate) fn both(&self) -> [End; 2] {
        [self.end(0), self.end(1)]
    }
}

pub(crate) fn key(algorithm: Algorithm, sender: usize) -> [Vec<u8>; 2] {
    let drawn = |len: usize, salt: usize| -> Vec<u8> {
        (0..len).map(|at| (at * at * 7 + at + salt + sender * 91) as u8).collect()
    };
    [drawn(algorithm.key_bytes(), 3), drawn(algorithm.auth_bytes(), 57)]
}

pub(crate) fn association(algorithm: Algorithm, sender: usize) -> Association {
    let [key, auth] = key(algorithm, sender);
    let secret = Secret::new(algorithm, &key, &auth).expect("these keys will do for a test");
    Association { spi: 0x1001 + sender as u32, secret }
}

/// One gateway, and the frames that it works on.
pub(crate) struct End {
    pub(crate) esp: Esp<IpsecMb>,
    pool: FramePool,
    pub(crate) now: Nanos,
    /// What the port knows of checksums.
    pub(crate) checksum: ChecksumState,
}

impl End {
    pub(crate) fn of(gateway: Arc<Gateway>, others: Others) -> Self {
        let cipher = IpsecMb::open().expect("apt-get install libipsec-mb1");
        let config = PoolConfig { frames: 128, chunk_bytes: 2048, ..PoolConfig::default() };
        let pool = FramePool::new(config).expect("a small pool");
        Self {
            esp: Esp::new(gateway, others, cipher),
            pool,
            now: Nanos::from_secs(1),
            checksum: ChecksumState::Unknown,
        }
    }

    /// What becomes of frames that come in one batch.
    pub(crate) fn process(&mut self, packets: &[Vec<u8>]) -> Vec<(Verdict, Vec<u8>)> {
        let frame = |packet: &Vec<u8>| {
            let mut frame = self.pool.take().expect("frames are given back");
            assert!(frame.fill(packet), "{} bytes do not fit", packet.len());
            frame.meta_mut().port = PORT;
            frame.meta_mut().checksum = self.checksum;
            frame
        };
        let mut batch: Batch = packets.iter().map(frame).collect();
        let mut verdicts = Verdicts::new();
        self.esp.process(&mut batch, &mut verdicts, self.now);
        let done = verdicts.of(batch.len()).to_vec();
        let mut out = Vec::new();
        for (frame, verdict) in batch.into_iter().zip(done) {
            out.push((verdict, frame.bytes().to_vec()));
            self.pool.give(frame);
        }
        out
    }

    /// What one packet becomes that goes on; nothing when it is dropped.
    pub(crate) fn pass(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let mut out = self.process(&[packet.to_vec()]);
        let (verdict, packet) = out.pop()?;
        (verdict == Verdict::Next).then_some(packet)
    }

    pub(crate) fn counts(&self) -> EspCounters {
        *self.esp.counts()
    }

    /// Asserts that a packet is dropped, and that nothing but this counter moved.
    #[track_caller]
    pub(crate) fn drops(&mut self, packet: &[u8], counter: fn(&mut EspCounters) -> &mut u64) {
        let mut expected = self.counts();
        *counter(&mut expected) += 1;
        assert_eq!(self.pass(packet), None);
        assert_eq!(self.counts(), expected);
    }
}

/// A UDP packet between two hosts.
pub(crate) fn udp(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let end = |text: &str| -> SocketAddr { text.parse().expect("an address and a port") };
    let packet = UdpPacket {
        source_mac: HOST_MAC,
        destination_mac: GATEWAY_MAC,
        source: end(source),
        destination: end(destination),
        payload,
        vlan: None,
    };
    let mut frame = vec![0; packet.len()];
    assert_eq!(packet.write(&mut frame), Some(frame.len()));
    frame
}

/// One from the first network to the second, whose packets are `len` bytes of IPv4.
pub(crate) fn ipv4(len: usize) -> Vec<u8> {
    udp("10.1.0.5:1000", "10.2.0.6:2000", &vec![0x5a; len - 28])
}

/// The same of IPv6.
pub(crate) fn ipv6(len: usize) -> Vec<u8> {
    udp("[fd01::5]:1000", "[fd02::6]:2000", &vec![0x5a; len - 48])
}

/// The packet as it is after one more router.
pub(crate) fn forwarded(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[14] >> 4 == 6 {
        frame[14 + 7] -= 1;
        return frame;
    }
    frame[14 + 8] -= 1;
    sum_ipv4(&mut frame);
    frame
}

/// Writes the checksum of an IPv4 header without options.
pub(crate) fn sum_ipv4(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = wire::checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}
