//! Long TCP segments by a packet socket beside the rings: the kernel cuts them, late or in the
//! device.
//!
//! AF_XDP moves packets one by one, and each costs the kernel a buffer and a softirq of its own. A
//! run of one flow's segments is sent here as one, with a `virtio_net_hdr` that says how long the
//! pieces are to be (PACKET_VNET_HDR of packet(7)): the pieces then share the way through the
//! stack. Only where no queueing discipline stands before the device (veth, and whatever else is
//! "noqueue"): there both ways lead to the driver at once, so order is kept.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use base::TxChecksum;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use shm::Frame;

use crate::sockopt;

/// Frames of one long segment, at most: 64 KiB in frames of 4096 bytes.
pub const PIECES_MAX: usize = 17;

/// Bytes that may be on their way through the socket: a congestion window's worth.
const SEND_BUFFER_BYTES: libc::c_int = 8 << 20;

/// `struct virtio_net_hdr` without its last, optional field.
const VNET_HEADER_BYTES: usize = 10;
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;

/// What became of a long segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The kernel has copied it.
    Whole,
    /// There is no room at the moment.
    Full,
    /// The kernel will never take it.
    Refused,
}

/// A packet socket on one interface that receives nothing.
#[derive(Debug)]
pub(super) struct SegmentSocket {
    fd: OwnedFd,
}

impl SegmentSocket {
    /// Opens one on the interface with index `ifindex`; nothing when this kernel cannot, or we may
    /// not.
    pub(super) fn open(ifindex: u32) -> Option<Self> {
        let family = AddressFamily::from_raw(libc::AF_PACKET as u16);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol zero: not a packet comes in.
        let fd = rustix::net::socket_with(family, SocketType::RAW, flags, None).ok()?;
        let on: libc::c_int = 1;
        sockopt::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on).ok()?;
        let bytes = SEND_BUFFER_BYTES;
        // A smaller buffer is slower, no more.
        let _ = sockopt::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes);
        // SAFETY: all bytes zero is a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = i32::try_from(ifindex).ok()?;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is valid for `len` bytes and only read.
        let bound = unsafe {
            libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast::<libc::sockaddr>(), len)
        };
        (bound == 0).then_some(Self { fd })
    }

    /// Sends the packet that lies in `frames`, one after the other, in segments as the first one's
    /// meta says.
    pub(super) fn send(&self, frames: &[Frame]) -> Sent {
        let Some(mut header) = frames.first().and_then(vnet_header) else { return Sent::Refused };
        if frames.len() > PIECES_MAX {
            return Sent::Refused;
        }
        let piece = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut pieces = [piece(&[]); PIECES_MAX + 1];
        pieces[0] =
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: VNET_HEADER_BYTES };
        for (place, frame) in pieces[1..].iter_mut().zip(frames) {
            *place = piece(frame.bytes());
        }
        // SAFETY: all bytes zero is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = (frames.len() + 1) as _;
        // SAFETY: the message names `frames.len() + 1` pieces, each valid for its length, and
        // sending only reads them.
        let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &raw const message, 0) };
        if sent >= 0 {
            return Sent::Whole;
        }
        match sockopt::last_errno() {
            Errno::AGAIN | Errno::NOBUFS | Errno::INTR | Errno::NOMEM => Sent::Full,
            _ => Sent::Refused,
        }
    }
}

/// What is to be done to a packet whose first frame this is; nothing when that makes no sense.
fn vnet_header(head: &Frame) -> Option<[u8; VNET_HEADER_BYTES]> {
    let meta = head.meta();
    let l4 = usize::from(meta.tx_checksum_start);
    if meta.tx_checksum != TxChecksum::Partial || meta.tx_segment_bytes == 0 || meta.vlan_tci != 0 {
        return None;
    }
    let words = *head.bytes().get(l4 + 12)? >> 4;
    let header_bytes = u16::try_from(l4 + 4 * usize::from(words)).ok()?;
    let kind = match head.bytes().get(usize::from(meta.l3_offset))? >> 4 {
        4 => GSO_TCPV4,
        6 => GSO_TCPV6,
        _ => return None,
    };
    let mut header = [0; VNET_HEADER_BYTES];
    (header[0], header[1]) = (NEEDS_CSUM, kind);
    header[2..4].copy_from_slice(&header_bytes.to_ne_bytes());
    header[4..6].copy_from_slice(&meta.tx_segment_bytes.to_ne_bytes());
    header[6..8].copy_from_slice(&meta.tx_checksum_start.to_ne_bytes());
    header[8..10].copy_from_slice(&meta.tx_checksum_offset.to_ne_bytes());
    Some(header)
}
