//! The two packet sockets of a port, opened and bound: one to receive, one to transmit.

/// `TPACKET_V3` of linux/if_packet.h.
pub(super) const TPACKET_V3: libc::c_int = 2;

pub(super) const ETH_P_ALL: u16 = 3;

/// `struct tpacket_req3`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct RingRequest {
    block_bytes: u32,
    blocks: u32,
    frame_bytes: u32,
    frames: u32,
    block_timeout_millis: u32,
    private_bytes: u32,
    features: u32,
}

// SAFETY: numbers only.
unsafe impl sockopt::Plain for RingRequest {}

use super::options::AfPacketOptions;
use crate::{OpenError, sockopt};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use sys::capability::Capability;

/// Bytes of a block. Full packets of 1.5 kB come 40 to a block.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// Blocks of a ring: 4 MiB, 27 ms of full 1.2 Gb/s.
pub(super) const BLOCKS: usize = 64;

/// How long a block that is not full may wait. The kernel takes whole milliseconds.
pub(super) const BLOCK_TIMEOUT_MILLIS: u32 = 1;

pub(super) fn failed(name: &str, errno: Errno) -> OpenError {
    let doing = format!("open a packet socket on {name}");
    OpenError::of(doing, errno, &[Capability::NetRaw], "use smaller frames or another port")
}

pub(super) fn packet_socket(name: &str) -> Result<OwnedFd, OpenError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0: nothing is received until it is bound.
    rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .map_err(|errno| failed(name, errno))
}

pub(super) fn open_receive(name: &str) -> Result<OwnedFd, OpenError> {
    let socket = packet_socket(name)?;
    let set = |option, value: &libc::c_int| {
        sockopt::set(socket.as_fd(), libc::SOL_PACKET, option, value)
            .map_err(|errno| failed(name, errno))
    };
    set(libc::PACKET_VERSION, &TPACKET_V3)?;
    // What we and the kernel send here is not received.
    set(PACKET_IGNORE_OUTGOING, &1)?;
    let request = RingRequest {
        block_bytes: BLOCK_BYTES as u32,
        blocks: BLOCKS as u32,
        // Version 3 packs packets as they come; frames only have to divide a block.
        frame_bytes: 2048,
        frames: (BLOCK_BYTES / 2048 * BLOCKS) as u32,
        block_timeout_millis: BLOCK_TIMEOUT_MILLIS,
        ..RingRequest::default()
    };
    sockopt::set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
        .map_err(|errno| failed(name, errno))?;
    Ok(socket)
}

/// `PACKET_IGNORE_OUTGOING` of linux/if_packet.h, since Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

pub(super) fn open_transmit(
    name: &str,
    ifindex: u32,
    options: &AfPacketOptions,
) -> Result<OwnedFd, OpenError> {
    let socket = packet_socket(name)?;
    let bypass = libc::c_int::from(options.qdisc_bypass);
    sockopt::set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &bypass)
        .and_then(|()| bind(socket.as_fd(), ifindex, 0))
        .map_err(|errno| failed(name, errno))?;
    Ok(socket)
}

pub(super) fn bind(socket: BorrowedFd<'_>, ifindex: u32, protocol: u16) -> Result<(), Errno> {
    // SAFETY: all-zero bytes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex as libc::c_int;
    // SAFETY: a valid address of the length given, only read.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(sockopt::last_errno()) }
}
