//! Segments that the kernel does not send by itself, for connections that it has just been given.
//!
//! Two kinds. A FIN of the peer's, to this host: the peer was told that it has come, and sends no
//! other. And to the peer what was sent and may never have left: the kernel believes that it has,
//! knows no round trip, and would send it again after a second.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use sys::SysError;
use tcp::Repair;
use wire::build::TcpSegment;
use wire::{ethernet, tcp as header};

/// The kernel takes a packet to itself at once, unless its CPU is busy with others.
const TAKEN_WITHIN: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// As many segments as a connection may begin with (RFC 6928): the kernel sends the rest when it
/// hears that these have come.
const SENT_AGAIN_MAX: usize = 10;

/// Two NOPs, kind, length, and both timestamps (RFC 7323).
const TIMESTAMPS_BYTES: usize = 12;

/// The longest header of IP and TCP that is written here, with a link's.
const HEADERS_BYTES: usize = 14 + 40 + 20;

/// The way of packets that are sent with their headers.
#[derive(Debug)]
pub(crate) struct RawSegments {
    /// Of IPv4 and of IPv6; without CAP_NET_RAW there are none.
    senders: [Option<OwnedFd>; 2],
}

impl RawSegments {
    /// Opens the sockets for that, in this thread's network namespace.
    pub(crate) fn open() -> Self {
        // Such a socket sends packets with their headers, and receives nothing.
        let protocol = Some(rustix::net::ipproto::RAW);
        let open = |family| {
            let made =
                rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol);
            made.ok()
        };
        Self { senders: [AddressFamily::INET, AddressFamily::INET6].map(open) }
    }

    /// Says once more that a peer has closed its side, to the socket that has the connection's name
    /// by now. It is taken a moment later: see [`Self::await_ends`].
    ///
    /// # Errors
    /// There is no way: the connection would wait for an end for ever.
    pub(crate) fn tell_end(&self, repair: &Repair) -> Result<(), SysError> {
        let failed = |errno| {
            let advice = if errno == Errno::PERM { "CAP_NET_RAW is needed" } else { "" };
            SysError::new("tell the kernel that a peer has closed its side", errno, advice)
        };
        let fin = TcpSegment {
            source_mac: [0; 6],
            destination_mac: [0; 6],
            source: repair.key.source(),
            destination: repair.key.destination(),
            sequence: next_of_peer(repair),
            acknowledgement: repair.send_first.0,
            flags: header::FIN | header::ACK,
            // Said again as it was, or less by what the shift does not show.
            window: u16::try_from(repair.window.snd_wnd >> repair.shifts[0]).unwrap_or(u16::MAX),
            payload: &[],
            vlan: None,
        };
        let mut frame = [0; HEADERS_BYTES];
        let length = fin.write(&mut frame).ok_or_else(|| failed(Errno::INVAL))?;
        self.send(&frame[..length], fin.destination).map_err(failed)
    }

    /// Waits a moment until all of these sockets, which were [told](Self::tell_end), have heard.
    pub(crate) fn await_ends<'a>(told: impl Iterator<Item = BorrowedFd<'a>> + Clone) {
        let begun = Instant::now();
        while !told.clone().all(sys::tcp_repair::has_heard_end) && begun.elapsed() < TAKEN_WITHIN {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Sends the peer once more the first of what was `sent` and not acknowledged, as far as its
    /// window goes. What had come is acknowledged by the peer at once, and does no harm.
    pub(crate) fn send_again(&self, repair: &Repair, sent: &[u8]) {
        for (sequence, part) in segments(repair, sent) {
            let Some(frame) = frame_of(repair, sequence, part) else { return };
            // One that cannot be sent is sent by the kernel after a second.
            let _ = self.send(&frame, repair.key.source());
        }
    }

    /// Sends the packet in a frame.
    fn send(&self, frame: &[u8], to: SocketAddr) -> Result<(), Errno> {
        let sender = self.senders[usize::from(to.is_ipv6())].as_ref().ok_or(Errno::PERM)?;
        let packet = &frame[usize::from(ethernet::HEADER_BYTES)..];
        // The port of a raw socket's address is a protocol's number, or zero.
        let to = SocketAddr::new(to.ip(), 0);
        rustix::net::sendto(sender.as_fd(), packet, SendFlags::DONTWAIT, &to).map(drop)
    }
}

/// The number that is expected of the peer next, but for a FIN.
fn next_of_peer(repair: &Repair) -> u32 {
    (repair.receive_first + repair.unread.bytes).0
}

/// The first segments of what was sent, each with the number of its first byte.
fn segments<'a>(repair: &Repair, sent: &'a [u8]) -> impl Iterator<Item = (u32, &'a [u8])> {
    let room = sent.len().min(repair.window.snd_wnd as usize);
    let options = if repair.timestamp.is_some() { TIMESTAMPS_BYTES } else { 0 };
    let most = usize::from(repair.mss).saturating_sub(options).max(1);
    let first = repair.send_first;
    let parts = sent[..room].chunks(most).take(SENT_AGAIN_MAX).enumerate();
    parts.map(move |(at, part)| ((first + (at * most) as u32).0, part))
}

/// A segment of ours with `part` of what was sent, as it was sent.
fn frame_of(repair: &Repair, sequence: u32, part: &[u8]) -> Option<Vec<u8>> {
    let acknowledgement = next_of_peer(repair);
    let right_edge = (repair.window.rcv_wup + repair.window.rcv_wnd).0;
    let room = right_edge.wrapping_sub(acknowledgement).cast_signed().max(0).cast_unsigned();
    let window = room >> repair.shifts[1];
    let options = timestamps(repair);
    let segment = TcpSegment {
        source_mac: [0; 6],
        destination_mac: [0; 6],
        source: repair.key.destination(),
        destination: repair.key.source(),
        sequence,
        acknowledgement,
        flags: header::PSH | header::ACK,
        window: u16::try_from(window).unwrap_or(u16::MAX),
        payload: &[&options, part].concat(),
        vlan: None,
    };
    let mut frame = vec![0; segment.len()];
    segment.write(&mut frame)?;
    let tcp = frame.len() - part.len() - options.len() - usize::from(header::MIN_HEADER_BYTES);
    lengthen_header(&mut frame[tcp..], options.len());
    Some(frame)
}

/// Now, where timestamps were agreed on: at least what was said last, and no later than what the
/// kernel says next. Of the peer's nothing is known; Linux takes zero for that.
fn timestamps(repair: &Repair) -> Vec<u8> {
    let Some(now) = repair.timestamp else { return Vec::new() };
    let mut options = vec![1, 1, 8, 10];
    options.extend((now.wrapping_add(now & 1)).to_be_bytes());
    options.extend([0; 4]);
    options
}

/// Makes options of the first bytes behind a header without any: its length changes, and the
/// checksum with it (RFC 1624).
fn lengthen_header(tcp: &mut [u8], options: usize) {
    let words = (options / 4) as u8;
    tcp[12] += words << 4;
    let checksum = u16::from_be_bytes([tcp[16], tcp[17]]);
    let sum = u32::from(!checksum) + (u32::from(words) << 12);
    let folded = (sum & 0xffff) + (sum >> 16);
    [tcp[16], tcp[17]] = (!(folded as u16)).to_be_bytes();
}

#[cfg(test)]
mod tests;
