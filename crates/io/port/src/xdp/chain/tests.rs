//! Chains of frames as a kernel fills them, and some as none does.

use base::{Nanos, PortId};
use shm::PoolConfig;
use wire::build::{TcpSegment, UdpPacket};
use wire::{Outcome, classify, tcp};

use super::*;

const CHUNK: u32 = 2048;
const ROOM: usize = 1792;
const LINK: Link = Link { mtu: 1500, is_trusted: false };

struct Bench {
    pool: FramePool,
    chain: Chain,
    batch: Batch,
    counters: PortCounters,
}

impl Bench {
    fn new(frames: u32) -> Self {
        let config = PoolConfig { frames, chunk_bytes: CHUNK, ..PoolConfig::default() };
        let pool = FramePool::new(config).expect("a small pool");
        let chain = Chain::new(ROOM as u32);
        Self { pool, chain, batch: Batch::new(), counters: PortCounters::default() }
    }

    /// The packet comes in as many frames as it needs.
    fn add(&mut self, packet: &[u8]) {
        let parts = packet.chunks(ROOM);
        let count = parts.len();
        for (number, part) in parts.enumerate() {
            let mut frame = self.pool.take().expect("the pool is large enough");
            assert!(frame.fill(part));
            let is_last = number + 1 == count;
            self.chain.add(frame, is_last, LINK, &mut self.pool, &mut self.counters);
        }
    }

    /// One batch of pieces.
    fn cut(&mut self) -> Vec<Vec<u8>> {
        let meta = FrameMeta { port: PortId(3), received_at: Nanos(9), ..FrameMeta::UNKNOWN };
        let count = self.chain.cut_into(&mut self.batch, meta, &mut self.pool, &mut self.counters);
        assert_eq!(count, self.batch.len());
        let mut pieces = Vec::new();
        while let Some(frame) = self.batch.pop() {
            assert_eq!((frame.meta().port, frame.meta().received_at), (PortId(3), Nanos(9)));
            assert_eq!(frame.meta().checksum, ChecksumState::Verified);
            pieces.push(frame.bytes().to_vec());
            self.pool.give(frame);
        }
        // A batch is popped from its end.
        pieces.reverse();
        pieces
    }

    fn is_over(&self) {
        assert!(self.chain.is_empty() && !self.chain.is_cut());
        assert_eq!(self.pool.outstanding(), 0, "every frame is back");
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

fn segment(payload: &[u8]) -> Vec<u8> {
    let segment = TcpSegment {
        source_mac: [2; 6],
        destination_mac: [4; 6],
        source: "10.0.0.1:5000".parse().expect("an address"),
        destination: "10.0.0.2:7".parse().expect("an address"),
        sequence: 0xffff_ff00,
        acknowledgement: 7,
        flags: tcp::ACK | tcp::PSH,
        window: 100,
        payload,
        vlan: None,
    };
    let mut packet = vec![0; segment.len()];
    assert_eq!(segment.write(&mut packet), Some(packet.len()));
    packet
}

/// What the pieces carry.
fn payload(pieces: &[Vec<u8>]) -> Vec<u8> {
    let parts = pieces.iter().map(|piece| {
        let Outcome::Flow(flow) = classify(piece) else { panic!("it is a flow") };
        assert!(wire::checksum::verify(piece, &flow));
        assert!(piece.len() <= 1514);
        piece[usize::from(flow.payload_offset)..].to_vec()
    });
    parts.collect::<Vec<_>>().concat()
}

#[test]
fn a_segment_of_any_length_comes_out_in_packets_of_the_link_with_every_byte() {
    for len in [1, 1460, 1461, 1738, 1739, 3000, 20_000, 56_042, 65_480] {
        let mut bench = Bench::new(128);
        bench.add(&segment(&bytes(len)));
        assert_eq!(payload(&bench.cut()), bytes(len), "{len}");
        bench.is_over();
        assert_eq!(bench.counters.rx_cut, 1);
    }
}

#[test]
fn pieces_that_found_the_batch_full_come_with_the_next_one() {
    let mut bench = Bench::new(256);
    let filler = BURST - 3;
    bench.add(&segment(&bytes(10_000)));
    for _ in 0..filler {
        let mut frame = bench.pool.take().expect("it is large enough");
        frame.meta_mut().checksum = ChecksumState::Verified;
        (frame.meta_mut().port, frame.meta_mut().received_at) = (PortId(3), Nanos(9));
        bench.batch.push(frame);
    }
    let meta = FrameMeta { port: PortId(3), received_at: Nanos(9), ..FrameMeta::UNKNOWN };
    let Bench { pool, chain, batch, counters } = &mut bench;
    assert_eq!(chain.cut_into(batch, meta, pool, counters), 3);
    assert!(chain.is_cut() && !chain.is_empty());
    let mut pieces = Vec::new();
    while let Some(frame) = batch.pop() {
        if !frame.is_empty() {
            pieces.push(frame.bytes().to_vec());
        }
        pool.give(frame);
    }
    pieces.extend(bench.cut());
    // The numbers begin before they wrap.
    let number = |piece: &Vec<u8>| u32::from_be_bytes([piece[38], piece[39], piece[40], piece[41]]);
    pieces.sort_by_key(|piece| number(piece).wrapping_add(0x100));
    assert_eq!(payload(&pieces), bytes(10_000));
    bench.is_over();
}

#[test]
fn what_cannot_be_cut_is_dropped_and_counted_and_what_follows_is_whole() {
    let mut bench = Bench::new(128);
    let datagram = UdpPacket {
        source_mac: [2; 6],
        destination_mac: [4; 6],
        source: "10.0.0.1:5000".parse().expect("an address"),
        destination: "10.0.0.2:7".parse().expect("an address"),
        payload: &bytes(5000),
        vlan: None,
    };
    let mut packet = vec![0; datagram.len()];
    assert_eq!(datagram.write(&mut packet), Some(packet.len()));
    bench.add(&packet);
    assert_eq!(bench.counters.rx_oversize, 1);
    bench.is_over();
    let mut damaged = segment(&bytes(5000));
    damaged[3000] ^= 1;
    bench.add(&damaged);
    assert_eq!(bench.counters.rx_bad_checksum, 1);
    bench.is_over();
    // Longer than any packet: all of it is dropped, and no more.
    bench.add(&bytes(ROOM * 100));
    assert_eq!(bench.counters.rx_oversize, 2);
    bench.is_over();
    bench.add(&segment(&bytes(4000)));
    assert_eq!(payload(&bench.cut()), bytes(4000));
    bench.is_over();
}

#[test]
fn a_pool_that_has_no_frame_left_loses_the_rest_of_a_segment_and_no_frame() {
    // The packet takes eleven of twelve.
    let mut bench = Bench::new(12);
    bench.add(&segment(&bytes(ROOM * 10)));
    assert_eq!(bench.cut().len(), 1);
    assert_eq!(bench.counters.rx_no_frame, 1);
    bench.is_over();
}
