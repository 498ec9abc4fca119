//! A packet socket as a port: a TPACKET_V3 ring to receive, sendmmsg to transmit.
//!
//! Received packets are copied from the kernel's blocks into frames, transmitted ones are copied
//! by the kernel, so frames never stay with it. A block is handed over when it is full or after a
//! millisecond: that is the latency of a quiet link.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use base::{BURST, ChecksumState, FrameMeta, Nanos, PortId, QueueId};
use rustix::io::Errno;
use shm::{Batch, Frame, FramePool};
use sys::{ethtool, interface};

use super::block::{BlockRing, Packet};
use super::filter;
use super::open::{BLOCK_BYTES, BLOCKS, ETH_P_ALL, bind, failed, open_receive, open_transmit};
use super::options::AfPacketOptions;
use crate::finish::{finish, insert_tag};
use crate::mapping::Mapping;
use crate::{
    Capabilities, Fault, Filter, Judge, LinkChecksums, OpenError, Port, PortCounters, Queues,
    sockopt,
};

const FAULT_CHECK_INTERVAL: Nanos = Nanos::from_millis(100);

/// `struct tpacket_stats_v3`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Statistics {
    packets: u32,
    drops: u32,
    freezes: u32,
}
// SAFETY: numbers only.
unsafe impl sockopt::Plain for Statistics {}

/// A packet socket on one interface.
pub struct AfPacketPort {
    /// Before the sockets: a mapped ring keeps its socket's memory.
    ring: Option<BlockRing>,
    receive: OwnedFd,
    transmit: OwnedFd,
    id: PortId,
    fault: Option<Fault>,
    fault_checked_at: Nanos,
    /// Reading the kernel's count of drops resets it: the sum of what was read.
    kernel_drops: Cell<u64>,
    counters: PortCounters,
    capabilities: Capabilities,
}

impl AfPacketPort {
    /// Opens a packet socket on the interface called `name` in the calling thread's namespace.
    ///
    /// # Errors
    /// No such interface, CAP_NET_RAW is missing, or an MTU that does not fit into the frames.
    pub fn open(
        name: &str,
        id: PortId,
        queue: QueueId,
        pool: &FramePool,
        options: &AfPacketOptions,
    ) -> Result<Self, OpenError> {
        let interface = interface::by_name(name)?;
        let chunk_bytes = pool.config().chunk_bytes;
        let max = chunk_bytes - shm::pool::HEADROOM_BYTES - 22;
        if interface.mtu > max && interface.mtu != LOOPBACK_MTU {
            let (interface, mtu) = (name.to_owned(), interface.mtu);
            return Err(OpenError::MtuTooLarge { interface, mtu, max, chunk_bytes });
        }
        let index = interface.index;
        let receive = open_receive(name)?;
        let transmit = open_transmit(name, index, options)?;
        let memory = Mapping::new(receive.as_fd(), 0, BLOCK_BYTES * BLOCKS)
            .map_err(|errno| failed(name, errno))?;
        // Bound last, so that nothing arrives before the ring is there.
        bind(receive.as_fd(), index, ETH_P_ALL).map_err(|errno| failed(name, errno))?;
        if let Some((group, mode)) = options.fanout {
            let request =
                i32::from_ne_bytes((u32::from(group) | (mode as u32) << 16).to_ne_bytes());
            sockopt::set(receive.as_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, &request)
                .map_err(|errno| {
                    let doing = format!("join fanout group {group} on {name}");
                    OpenError::of(doing, errno, &[], "is the group used in another mode?")
                })?;
        }
        let mtu = interface.mtu.min(max);
        let capabilities = Capabilities {
            kind: "af_packet",
            name: name.to_owned(),
            mode: "TPACKET_V3, copy, blocks of 1 ms; the kernel sees every packet too".to_owned(),
            frame_bytes_max: mtu + 22,
            mtu,
            cuts_segments: false,
            zero_copy: false,
            queues: match options.fanout {
                Some(_) => Queues::One { queue, of: ethtool::channels(name)?.rx },
                None => Queues::All(ethtool::channels(name)?.rx),
            },
            needs_wakeup: true,
            kernel_answers_arp: false,
            checksums: match options.trust_link {
                true => LinkChecksums::Trusted,
                // The kernel says of each packet whether its checksum is open.
                false => LinkChecksums::Complete,
            },
            mac: Some(interface.mac),
            hears_others: true,
        };
        Ok(Self {
            ring: Some(BlockRing::new(memory, BLOCK_BYTES, BLOCKS)),
            receive,
            transmit,
            id,
            fault: None,
            fault_checked_at: Nanos::ZERO,
            kernel_drops: Cell::new(0),
            counters: PortCounters::default(),
            capabilities,
        })
    }

    /// Looks whether a quiet interface is down or gone.
    #[cold]
    fn check_fault(&mut self, now: Nanos) {
        self.fault_checked_at = now;
        let error: libc::c_int =
            sockopt::get(self.receive.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
        if error == libc::ENETDOWN || self.fault == Some(Fault::Down) {
            self.fault = state(self.transmit.as_fd());
        }
    }
}

/// What is wrong with the interface of a packet socket. Nothing is looked up, so that a thread may
/// ask that has given up everything else.
fn state(socket: BorrowedFd<'_>) -> Option<Fault> {
    // The kernel looks at the interface before it refuses a packet without any bytes (packet_snd of
    // net/packet/af_packet.c).
    match rustix::net::send(socket, &[], rustix::net::SendFlags::DONTWAIT) {
        Err(Errno::NETDOWN) => Some(Fault::Down),
        Err(Errno::NXIO | Errno::NODEV) => Some(Fault::Vanished),
        _ => None,
    }
}

/// The loopback interface's MTU is larger than any frame; its senders are local and few.
const LOOPBACK_MTU: u32 = 65536;

impl Port for AfPacketPort {
    fn rx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        let Some(ring) = &mut self.ring else { return 0 };
        let counters = &mut self.counters;
        let template = FrameMeta {
            received_at: now,
            port: self.id,
            queue: self.capabilities.queues.first(),
            ..FrameMeta::UNKNOWN
        };
        let before = batch.len();
        while !batch.is_full() {
            let mut oversize = false;
            let used = ring.next(|packet| {
                let Some(mut frame) = pool.take() else {
                    // It stays in its block: the kernel's drops, not ours, tell of the shortage.
                    counters.rx_no_frame += 1;
                    return false;
                };
                *frame.meta_mut() = template;
                if fill(&mut frame, packet) {
                    counters.rx_bytes += frame.len() as u64;
                    batch.push(frame);
                } else {
                    pool.give(frame);
                    oversize = true;
                }
                true
            });
            counters.rx_oversize += u64::from(oversize);
            if !used {
                break;
            }
        }
        let received = batch.len() - before;
        self.counters.rx_packets += received as u64;
        if received > 0 {
            if self.fault == Some(Fault::Down) {
                self.fault = None;
            }
        } else if now.since(self.fault_checked_at) >= FAULT_CHECK_INTERVAL {
            self.check_fault(now);
        }
        received
    }

    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, _now: Nanos) -> usize {
        if self.ring.is_none() || batch.is_empty() {
            return 0;
        }
        let offered = batch.len();
        let mut index = 0;
        while index < batch.len() {
            if finish(&mut batch[index], self.capabilities.frame_bytes_max, &mut self.counters) {
                index += 1;
            } else {
                pool.give(batch.remove(index));
            }
        }
        while !batch.is_empty() {
            self.counters.kicks += 1;
            match send(self.transmit.as_fd(), batch) {
                Ok(sent) => {
                    self.counters.tx_packets += sent as u64;
                    for frame in batch.drain(..sent) {
                        self.counters.tx_bytes += frame.len() as u64;
                        pool.give(frame);
                    }
                    if self.fault == Some(Fault::Down) {
                        self.fault = None;
                    }
                    // What is left met an error: the next turn says which.
                }
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::BUSY | Errno::INTR) => {
                    self.counters.kicks_busy += 1;
                    self.counters.tx_full += 1;
                    break;
                }
                Err(Errno::NETDOWN) => {
                    self.fault = Some(Fault::Down);
                    break;
                }
                Err(Errno::NXIO | Errno::NODEV) => {
                    self.fault = Some(Fault::Vanished);
                    break;
                }
                Err(_) => {
                    // The kernel does not want this one (too long for it, say): go on after it.
                    self.counters.tx_errors += 1;
                    pool.give(batch.remove(0));
                }
            }
        }
        offered - batch.len()
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<Judge, OpenError> {
        filter::set(self.receive.as_fd(), filter)
            .map_err(|errno| failed(&self.capabilities.name, errno))
    }

    fn flush(&mut self, _pool: &mut FramePool, _now: Nanos) {}

    fn prepare_wait(&mut self, _pool: &mut FramePool) {}

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref().map(|_| self.receive.as_fd())
    }

    fn next_deadline(&self) -> Nanos {
        let ready = self.ring.as_ref().is_some_and(BlockRing::is_ready);
        if ready { Nanos::ZERO } else { Nanos::FAR_FUTURE }
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.counters;
        let read: Result<Statistics, _> =
            sockopt::get(self.receive.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS);
        if let Ok(statistics) = read {
            self.kernel_drops.set(self.kernel_drops.get() + u64::from(statistics.drops));
        }
        counters.rx_ring_full = self.kernel_drops.get();
        counters.rx_invalid += self.ring.as_ref().map_or(0, BlockRing::broken);
        counters
    }

    fn close(&mut self, _pool: &mut FramePool) {
        self.counters.rx_invalid = self.counters().rx_invalid;
        // Frames never stay with the kernel. An unbound socket receives nothing more.
        self.ring = None;
        let _ = bind(self.receive.as_fd(), 0, 0);
    }
}

/// Copies a packet in; false when it does not fit, or was cut already.
fn fill(frame: &mut Frame, packet: &Packet<'_>) -> bool {
    if packet.bytes.len() < packet.wire_bytes as usize || !frame.fill(packet.bytes) {
        return false;
    }
    match packet.vlan {
        Some((0x8100, control)) => frame.meta_mut().vlan_tci = control,
        // The meta knows of 802.1Q tags only: put another kind back where it was.
        Some((protocol, control)) if !insert_tag(frame, protocol, control) => return false,
        _ => {}
    }
    frame.meta_mut().checksum = match packet {
        Packet { checksum_verified: true, .. } => ChecksumState::Verified,
        // The kernel of this machine made the packet: it never was on a wire that could harm it.
        Packet { checksum_open: true, .. } => ChecksumState::Partial,
        _ => ChecksumState::Unknown,
    };
    true
}

/// Sends from the front of `batch`; how many the kernel took before it met an error.
fn send(socket: BorrowedFd<'_>, batch: &Batch) -> Result<usize, Errno> {
    let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BURST];
    // SAFETY: all-zero bytes are a valid mmsghdr: no address, no pieces, no control data.
    let mut messages: [libc::mmsghdr; BURST] = unsafe { std::mem::zeroed() };
    for ((piece, message), frame) in pieces.iter_mut().zip(&mut messages).zip(batch) {
        let bytes = frame.bytes();
        // The kernel only reads through the pointer.
        piece.iov_base = bytes.as_ptr().cast_mut().cast();
        piece.iov_len = bytes.len();
        message.msg_hdr.msg_iov = piece;
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `batch.len() <= BURST` messages each lead to one piece, and each piece to
    // the bytes of a frame that `batch` holds during the call.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            batch.len() as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).map_err(|_| sockopt::last_errno())
}
