//! A load for measuring: packets in memory through one end of a tunnel and out of the other.
//!
//! Takes no time itself: whoever measures reads a clock around [`Load::seal`] and [`Load::open`].
//! What has to be put back between two rounds ([`Load::refill`]) is only headers, so that a round
//! finds its packets in the caches as it would behind a NIC that writes into them, if there are few
//! enough.

use std::net::Ipv4Addr;
use std::sync::Arc;

use base::{BURST, Nanos};
use shm::{Batch, Frame, FramePool, PoolConfig};
use wire::build::UdpPacket;

use super::outbound::ESP_BYTES;
use super::{Algorithm, Association, Cipher, Esp, Gateway, Others, Secret, Tunnel};
use crate::{Function, Prefix, Verdict, Verdicts};

/// Batches of packets, and the gateways at both ends of their tunnel.
pub struct Load<C: Cipher> {
    near: Esp<C>,
    far: Esp<C>,
    /// What the frames' memory belongs to; they are given back to it in the end.
    pool: FramePool,
    batches: Vec<Batch>,
    /// Whose turn it is.
    next: usize,
    verdicts: Verdicts,
    plain: Vec<u8>,
    /// How much earlier a sealed packet begins.
    front: usize,
}

/// What a load needs more than one of.
const MTU: u16 = 9000;

impl<C: Cipher> Load<C> {
    /// `batches` full batches of packets of which `text_bytes` are encrypted each, trailer and all.
    /// Each end has a cipher.
    ///
    /// Nothing when `text_bytes` is no multiple of the algorithm's block, or too short or long for
    /// a packet.
    pub fn new(
        algorithm: Algorithm,
        text_bytes: usize,
        batches: usize,
        ciphers: [C; 2],
    ) -> Option<Self> {
        let fits =
            (64..=3500).contains(&text_bytes) && text_bytes.is_multiple_of(algorithm.block_bytes());
        if !fits {
            return None;
        }
        let gateway = |is_far| {
            let tunnel = tunnel(algorithm, is_far);
            Arc::new(
                Gateway::new(vec![tunnel], Nanos::ZERO).expect("the tunnel of a load is right"),
            )
        };
        let [near, far] = ciphers;
        let frames = u32::try_from(batches * BURST).ok()?;
        let pool = FramePool::new(PoolConfig { frames, ..PoolConfig::default() });
        let mut load = Self {
            near: Esp::new(gateway(false), Others::Drop, near),
            far: Esp::new(gateway(true), Others::Drop, far),
            pool: pool.ok()?,
            batches: Vec::new(),
            next: 0,
            verdicts: Verdicts::new(),
            plain: packet(text_bytes),
            front: OUTER_BYTES + ESP_BYTES + algorithm.iv_bytes(),
        };
        for _ in 0..batches {
            let mut batch = Batch::new();
            for _ in 0..BURST {
                let mut frame = load.pool.take()?;
                let is_filled = frame.fill(&load.plain);
                debug_assert!(is_filled, "a chunk holds it");
                batch.push(frame);
            }
            load.batches.push(batch);
        }
        Some(load)
    }

    /// Goes on to the next batch, and makes it packets in the clear again.
    pub fn refill(&mut self) {
        self.next = (self.next + 1) % self.batches.len();
        self.verdicts.reset();
        for frame in &mut self.batches[self.next] {
            restore(frame, &self.plain, self.front);
        }
    }

    /// Encrypts the batch; how many packets that were.
    #[inline(never)]
    pub fn seal(&mut self) -> usize {
        run(&mut self.near, &mut self.batches[self.next], &mut self.verdicts)
    }

    /// Decrypts the batch, which was sealed since it was last filled.
    #[inline(never)]
    pub fn open(&mut self) -> usize {
        run(&mut self.far, &mut self.batches[self.next], &mut self.verdicts)
    }
}

impl<C: Cipher> Drop for Load<C> {
    fn drop(&mut self) {
        for frame in self.batches.drain(..).flatten() {
            self.pool.give(frame);
        }
    }
}

fn run<C: Cipher>(esp: &mut Esp<C>, batch: &mut Batch, verdicts: &mut Verdicts) -> usize {
    esp.process(batch, verdicts, Nanos::ZERO);
    verdicts.of(batch.len()).iter().filter(|verdict| **verdict == Verdict::Next).count()
}

/// Headers only: what they stand before may be anything.
fn restore(frame: &mut Frame, plain: &[u8], front: usize) {
    let is_sealed = frame.len() > plain.len();
    let is_back = frame.pull_front(if is_sealed { front } else { 0 }) && frame.set_len(plain.len());
    debug_assert!(is_back, "it was longer");
    let headers = plain.len().min(HEADERS);
    frame.bytes_mut()[..headers].copy_from_slice(&plain[..headers]);
}

/// Of IPv4, around the packet.
const OUTER_BYTES: usize = 20;
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;
fn packet(text_bytes: usize) -> Vec<u8> {
    // Two bytes of the text are the trailer's.
    let payload = vec![0xa5; text_bytes - 2 - 28];
    let packet = UdpPacket {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        source: (Ipv4Addr::new(10, 1, 0, 1), 1).into(),
        destination: (Ipv4Addr::new(10, 2, 0, 1), 2).into(),
        payload: &payload,
        vlan: None,
    };
    let mut frame = vec![0; packet.len()];
    let len = packet.write(&mut frame);
    debug_assert_eq!(len, Some(frame.len()));
    frame
}

/// Keys of a load protect nothing.
fn tunnel(algorithm: Algorithm, is_far: bool) -> Tunnel {
    let association = |number: u8| {
        let drawn = |bytes: usize, salt: usize| -> Vec<u8> {
            (0..bytes).map(|at| (at * at * 7 + salt) as u8 ^ number).collect()
        };
        let key = drawn(algorithm.key_bytes(), 3);
        let secret = Secret::new(algorithm, &key, &drawn(algorithm.auth_bytes(), 99));
        let secret = secret.expect("bytes enough of all kinds");
        Association { spi: 256 + u32::from(number), secret }
    };
    let network = |second| {
        let address = Ipv4Addr::new(10, second, 0, 0).into();
        vec![Prefix::of(address, 16)]
    };
    let [local, remote] = [Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(192, 0, 2, 2).into()];
    let near = Tunnel {
        name: "load".to_owned(),
        local,
        remote,
        local_networks: network(1),
        remote_networks: network(2),
        outbound: association(1),
        inbound: association(2),
        mtu: MTU,
        replay_window: super::WINDOW_MIN,
        is_extended: false,
        address_ipv4: None,
        address_ipv6: None,
    };
    if !is_far {
        return near;
    }
    Tunnel {
        local: remote,
        remote: local,
        local_networks: network(2),
        remote_networks: network(1),
        outbound: association(2),
        inbound: association(1),
        ..near
    }
}
