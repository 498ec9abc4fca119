//! Long segments beside the rings of AF_XDP, over a veth pair in namespaces of our own. Needs root.

use std::sync::Arc;

use crate::common::*;
use base::{NO_FRAGMENT, PortId, QueueId, TxChecksum};
use port::Port;
use port::af_packet::{AfPacketOptions, AfPacketPort};
use port::xdp::{AttachMode, Take, Umem, XdpInterface, XdpOptions, XdpPort};
use shm::{Batch, Frame, FramePool};
use testbed::{Testbed, TestbedConfig};

const LINK: usize = 14;
const L4: usize = LINK + 20;
const HEADERS: usize = L4 + 20;

/// Adds 16-bit words as RFC 1071 says.
fn sum(words: impl IntoIterator<Item = u16>) -> u16 {
    let sum: u32 = words.into_iter().map(u32::from).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
}

/// Headers of a segment of that many bytes from server to client, its checksum left open.
fn headers(bed: &Testbed, number: u32, payload_bytes: usize) -> Vec<u8> {
    let (from, to) = (bed.server().ipv4().octets(), bed.client().ipv4().octets());
    let total = (40 + payload_bytes) as u16;
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0].to_vec();
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip.extend(from.into_iter().chain(to));
    let ip_sum = !sum(words(&ip));
    ip[10..12].copy_from_slice(&ip_sum.to_be_bytes());
    let mut tcp = [0, 7, 0x13, 0x88].to_vec();
    tcp.extend(number.to_be_bytes());
    tcp.extend([0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let pseudo = words(&from).chain(words(&to)).chain([6, (20 + payload_bytes) as u16]);
    let open = sum(pseudo.collect::<Vec<_>>());
    tcp[16..18].copy_from_slice(&open.to_be_bytes());
    [&bed.client().mac()[..], &bed.server().mac()[..], &[8, 0], &ip[..], &tcp[..]].concat()
}

/// A frame with these bytes, its checksum to be completed.
fn frame(pool: &mut FramePool, bytes: &[u8]) -> Frame {
    let mut frame = pool.take().expect("there are enough");
    assert!(frame.fill(bytes));
    let meta = frame.meta_mut();
    meta.tx_checksum = TxChecksum::Partial;
    (meta.tx_checksum_start, meta.tx_checksum_offset) = (L4 as u16, 16);
    (meta.l3_offset, meta.l4_offset) = (LINK as u16, L4 as u16);
    frame
}

fn plain(bed: &Testbed, pool: &mut FramePool, number: u32, payload: &[u8]) -> Frame {
    let bytes = [headers(bed, number, payload.len()), payload.to_vec()].concat();
    frame(pool, &bytes)
}

/// A segment that is to be cut into pieces of `piece_bytes`, in as many frames as it takes.
fn long(
    bed: &Testbed,
    pool: &mut FramePool,
    number: u32,
    payload: &[u8],
    piece_bytes: u16,
) -> Vec<Frame> {
    let bytes = [headers(bed, number, payload.len()), payload.to_vec()].concat();
    let mut frames: Vec<Frame> = bytes.chunks(1500).map(|part| frame(pool, part)).collect();
    frames[0].meta_mut().tx_segment_bytes = piece_bytes;
    let next: Vec<u32> = frames.iter().skip(1).map(|frame| frame.desc().offset).collect();
    for (frame, next) in frames.iter_mut().zip(next.into_iter().chain([NO_FRAGMENT])) {
        frame.meta_mut().next_fragment = next;
    }
    frames
}

/// Whether a segment's checksum is right.
fn is_whole(packet: &[u8]) -> bool {
    let (ip, segment) = (&packet[LINK..L4], &packet[L4..]);
    let pseudo = words(&ip[12..20]).chain([6, segment.len() as u16]);
    sum(pseudo.chain(words(segment)).collect::<Vec<_>>()) == 0xffff
}

fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[L4 + 4..L4 + 8].try_into().expect("four bytes"))
}

fn ports(bed: &Testbed) -> (FramePool, XdpPort, FramePool, AfPacketPort) {
    let mut pool = pool();
    let interface = inside(bed.server(), || {
        XdpInterface::attach(bed.server().interface(), AttachMode::Native, Take::Ours)
    });
    let interface = Arc::new(interface.unwrap_or_else(|error| panic!("{error}")));
    let (umem, options) = (Umem::new(&pool), XdpOptions::default());
    let port = XdpPort::open(&interface, PortId(0), QueueId(0), &umem, &mut pool, &options);
    let hearing = crate::common::pool();
    let heard = inside(bed.client(), || {
        let options = AfPacketOptions::default();
        AfPacketPort::open(bed.client().interface(), PortId(1), QueueId(0), &hearing, &options)
    });
    let heard = heard.unwrap_or_else(|error| panic!("{error}"));
    (pool, port.unwrap_or_else(|error| panic!("{error}")), hearing, heard)
}

#[test]
fn a_long_segment_in_several_frames_is_cut_by_the_kernel_and_keeps_its_place() {
    let bed = bed(TestbedConfig::default());
    let (mut pool, mut port, mut hearing, mut heard) = ports(&bed);
    assert!(port.capabilities().cuts_segments, "nothing queues before a veth");
    let before = pool.outstanding();
    let payload: Vec<u8> = (0..4000).map(|at| (at % 251) as u8).collect();
    let mut batch = Batch::new();
    batch.push(plain(&bed, &mut pool, 1, b"before"));
    batch.extend(long(&bed, &mut pool, 7, &payload, 1448));
    batch.push(plain(&bed, &mut pool, 4007, b"after"));
    transmit(&mut port, &mut pool, &mut batch);
    let mut packets = receive(&mut heard, &mut hearing, 5);
    let numbers: Vec<u32> = packets.iter().map(|frame| number(frame.bytes())).collect();
    assert_eq!(numbers, [1, 7, 7 + 1448, 7 + 2 * 1448, 4007]);
    assert!(packets.iter().all(|frame| is_whole(frame.bytes())), "a checksum is wrong");
    let middle: Vec<u8> =
        packets[1..4].iter().flat_map(|frame| frame.bytes()[HEADERS..].to_vec()).collect();
    assert_eq!(middle, payload);
    assert_eq!((port.counters().tx_packets, port.counters().tx_refused), (5, 0));
    give_all(&mut hearing, &mut packets);
    port.flush(&mut pool, sys::clock::now());
    assert_eq!(pool.outstanding(), before, "every frame has come home");
    port.close(&mut pool);
}

#[test]
fn a_wish_to_cut_that_makes_no_sense_is_refused_and_counted() {
    let bed = bed(TestbedConfig::default());
    let (mut pool, mut port, ..) = ports(&bed);
    let mut batch = Batch::new();
    for wrong in 0..6 {
        let mut frames = long(&bed, &mut pool, 7, &[5; 2000], 1448);
        let head = &mut frames[0];
        match wrong {
            0 => head.meta_mut().tx_checksum = TxChecksum::Complete,
            1 => head.bytes_mut()[LINK] = 0x75,
            2 => head.meta_mut().tx_checksum_start = 60_000,
            3 => head.meta_mut().vlan_tci = 5,
            // Its end is missing, and its beginning.
            4 => frames.pop().map_or((), |frame| pool.give(frame)),
            _ => {
                pool.give(frames.remove(0));
                frames[0].meta_mut().tx_segment_bytes = 1448;
                frames[0].meta_mut().tx_checksum = TxChecksum::Complete;
            }
        }
        batch.extend(frames);
        transmit(&mut port, &mut pool, &mut batch);
        assert_eq!(port.counters().tx_refused, wrong + 1, "case {wrong}");
    }
    assert_eq!(port.counters().tx_packets, 0);
    port.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn where_packets_queue_before_the_device_long_segments_are_not_offered() {
    let bed = bed(TestbedConfig::default());
    let veth = bed.server().interface().to_owned();
    let mut tc = bed.server().command("tc");
    let done = tc.args(["qdisc", "replace", "dev", &veth, "root", "pfifo"]).output();
    let done = done.expect("tc is installed with ip");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (mut pool, mut port, ..) = ports(&bed);
    assert!(!port.capabilities().cuts_segments);
    port.close(&mut pool);
}
