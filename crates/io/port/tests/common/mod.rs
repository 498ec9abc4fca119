//! What the tests in namespaces share: a pool, packets, an echo loop with an end.

#![allow(dead_code, reason = "each test file is its own crate and uses its part")]

pub(crate) mod xdp;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use base::{ChecksumState, Nanos, TxChecksum};
use port::Port;
use shm::{Batch, Frame, FramePool, PoolConfig};
use testbed::{Side, Testbed, TestbedConfig};

/// The port that our side answers on.
pub(crate) const ECHO_PORT: u16 = 7000;

pub(crate) fn pool() -> FramePool {
    FramePool::new(PoolConfig { frames: 2048, ..PoolConfig::default() }).expect("8 MiB")
}

pub(crate) fn bed(config: TestbedConfig) -> Testbed {
    Testbed::new(config).unwrap_or_else(|error| panic!("these tests run as root: {error}"))
}

/// Runs `work` in the namespace of `side`.
pub(crate) fn inside<T: Send>(side: &Side, work: impl FnOnce() -> T + Send) -> T {
    side.enter(work).expect("the namespace is there")
}

/// Runs a line of ip(8) in the namespace of `side`.
pub(crate) fn ip(side: &Side, line: &str) {
    let output = side.command("ip").args(line.split(' ')).output().expect("ip is installed");
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The server's end is up again, and both may send.
pub(crate) fn up_again(bed: &Testbed) {
    ip(bed.server(), "link set dev veth0 up");
    for side in [bed.server(), bed.client()] {
        let wait = || sys::interface::wait_until_operational("veth0", Nanos::from_secs(20));
        inside(side, wait).expect("both ends are up");
    }
}

/// A kernel socket in the namespace of `side` that gives up after a few seconds.
pub(crate) fn socket(side: &Side, address: impl Into<SocketAddr> + Send) -> UdpSocket {
    let address = address.into();
    let socket = inside(side, || UdpSocket::bind(address)).expect("the address is there");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("five seconds are a time");
    socket
}

/// Whether nothing arrives at `socket` in a while.
pub(crate) fn is_quiet(socket: &UdpSocket) -> bool {
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
    let quiet = socket.recv(&mut [0; 2048]).is_err();
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
    quiet
}

/// Receives until `count` packets are there or five seconds have passed.
pub(crate) fn receive(port: &mut impl Port, pool: &mut FramePool, count: usize) -> Batch {
    let mut batch = Batch::new();
    let end = sys::clock::now() + Nanos::from_secs(5);
    while batch.len() < count && sys::clock::now() < end {
        port.rx(pool, &mut batch, sys::clock::now());
    }
    batch
}

/// What arrives until there is quiet for that long.
pub(crate) fn receive_for(port: &mut impl Port, pool: &mut FramePool, length: Nanos) -> Batch {
    let mut batch = Batch::new();
    let mut end = sys::clock::now() + length;
    loop {
        // Asked before the last look: whoever was held up looks once more.
        let is_last = sys::clock::now() >= end;
        if port.rx(pool, &mut batch, sys::clock::now()) > 0 {
            end = sys::clock::now() + length;
        } else if is_last {
            return batch;
        }
    }
}

/// Transmits all of `batch`, or gives up after five seconds.
pub(crate) fn transmit(port: &mut impl Port, pool: &mut FramePool, batch: &mut Batch) {
    let end = sys::clock::now() + Nanos::from_secs(5);
    while !batch.is_empty() && sys::clock::now() < end {
        port.tx(pool, batch, sys::clock::now());
    }
    assert!(batch.is_empty(), "{} frames could not leave", batch.len());
}

pub(crate) fn give_all(pool: &mut FramePool, batch: &mut Batch) {
    batch.drain(..).for_each(|frame| pool.give(frame));
}

/// Receives until `count` packets have been answered or five seconds have passed.
pub(crate) fn echo(port: &mut impl Port, pool: &mut FramePool, count: usize) {
    let mut done = 0;
    let end = sys::clock::now() + Nanos::from_secs(5);
    while done < count && sys::clock::now() < end {
        let mut batch = Batch::new();
        port.rx(pool, &mut batch, sys::clock::now());
        batch.iter_mut().for_each(turn_round);
        done += batch.len();
        transmit(port, pool, &mut batch);
    }
    assert_eq!(done, count, "{:?} {:?}", port.counters(), port.fault());
}

/// Makes a UDP packet its own answer. Swapping addresses and ports leaves all sums as they are.
pub(crate) fn turn_round(frame: &mut Frame) {
    let checksum = frame.meta().checksum;
    let bytes = frame.bytes_mut();
    swap(bytes, 0, 6, 6);
    let mut l3 = 14;
    while matches!(bytes[l3 - 2..l3], [0x81, 0] | [0x88, 0xa8]) {
        l3 += 4;
    }
    let l4 = if bytes[l3] >> 4 == 4 {
        swap(bytes, l3 + 12, l3 + 16, 4);
        l3 + usize::from(bytes[l3] & 15) * 4
    } else {
        swap(bytes, l3 + 8, l3 + 24, 16);
        l3 + 40
    };
    swap(bytes, l4, l4 + 2, 2);
    if checksum == ChecksumState::Partial {
        // The field holds the sum of the pseudo-header: the port is to finish it.
        let meta = frame.meta_mut();
        meta.tx_checksum = TxChecksum::Partial;
        meta.tx_checksum_start = l4 as u16;
        meta.tx_checksum_offset = 6;
    }
}

fn swap(bytes: &mut [u8], one: usize, other: usize, len: usize) {
    for index in 0..len {
        bytes.swap(one + index, other + index);
    }
}

/// An Ethernet frame with an IPv4 UDP packet without a checksum, between the ends of a bed.
pub(crate) fn udp_frame(
    from: &Side,
    to: &Side,
    tags: &[[u8; 4]],
    port: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = [to.mac(), from.mac()].concat();
    tags.iter().for_each(|tag| frame.extend_from_slice(tag));
    frame.extend_from_slice(&[8, 0]);
    frame.extend(udp_packet(from.ipv4(), to.ipv4(), port, payload));
    frame
}

pub(crate) fn udp_packet(from: Ipv4Addr, to: Ipv4Addr, port: u16, payload: &[u8]) -> Vec<u8> {
    let udp_len = (8 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&(20 + udp_len).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend_from_slice(&from.octets());
    packet.extend_from_slice(&to.octets());
    let sum: u32 =
        packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(&40_000u16.to_be_bytes());
    packet.extend_from_slice(&port.to_be_bytes());
    packet.extend_from_slice(&udp_len.to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(payload);
    packet
}

/// `frames` as a batch.
pub(crate) fn batch_of(pool: &mut FramePool, frames: &[Vec<u8>]) -> Batch {
    frames
        .iter()
        .map(|bytes| {
            let mut frame = pool.take().expect("the pool is large enough");
            assert!(frame.fill(bytes), "a test's packets fit");
            frame
        })
        .collect()
}
