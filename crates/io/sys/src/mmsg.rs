//! Many UDP datagrams by one system call: sendmmsg(2) and recvmmsg(2) without pointers.
//!
//! The buffers belong to the set and never move: every address that the kernel is given points into
//! memory that is allocated once, so that calls are safe and allocate nothing. Source addresses are
//! carried in control messages (IP_PKTINFO, ip(7); IPV6_PKTINFO, RFC 3542 section 6), which is how
//! one socket speaks for many addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Datagrams of one call, at most.
pub const DATAGRAMS_MAX: usize = 64;

/// Bytes for one control message of the largest kind in use: a header and `in6_pktinfo`.
const CONTROL_BYTES: usize = 40;

/// Control messages start where a `cmsghdr` may start.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Up to [`DATAGRAMS_MAX`] datagrams for connected or unconnected sockets.
pub struct Datagrams {
    bytes: Box<[u8]>,
    room: usize,
    lengths: Box<[usize]>,
    control: Box<[Control]>,
    control_lengths: Box<[usize]>,
    to: Option<rustix::net::SocketAddrAny>,
    count: usize,
    headers: Box<[libc::mmsghdr]>,
    pieces: Box<[libc::iovec]>,
}

// SAFETY: the pointers in `headers` and `pieces` are written and used within one call that holds
// `&mut self`; between calls nobody follows them.
unsafe impl Send for Datagrams {}

impl Datagrams {
    /// An empty set with room for `room` bytes in each datagram. Longer ones that arrive are cut.
    pub fn new(room: usize) -> Self {
        let room = room.max(1);
        // SAFETY: all-zero bytes are a valid `mmsghdr`: null pointers with zero lengths.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let piece = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Self {
            bytes: vec![0; room * DATAGRAMS_MAX].into(),
            room,
            lengths: vec![0; DATAGRAMS_MAX].into(),
            control: vec![Control([0; CONTROL_BYTES]); DATAGRAMS_MAX].into(),
            control_lengths: vec![0; DATAGRAMS_MAX].into(),
            to: None,
            count: 0,
            headers: vec![header; DATAGRAMS_MAX].into(),
            pieces: vec![piece; DATAGRAMS_MAX].into(),
        }
    }

    /// Where datagrams of an unconnected socket go; `None` for connected ones.
    pub fn set_destination(&mut self, to: Option<std::net::SocketAddr>) {
        self.to = to.map(Into::into);
    }

    /// Datagrams in the set.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// The `index`-th datagram; empty where there is none.
    #[inline]
    pub fn bytes(&self, index: usize) -> &[u8] {
        if index >= self.count {
            return &[];
        }
        let start = index * self.room;
        self.bytes.get(start..start + self.lengths[index]).unwrap_or_default()
    }

    /// Adds a datagram of `length` bytes, to be sent from `source` (`None`: as the socket is
    /// bound), and gives its bytes to be written; nothing when the set is full or the length too
    /// large.
    #[inline]
    pub fn add(&mut self, length: usize, source: Option<IpAddr>) -> Option<&mut [u8]> {
        let index = self.count;
        if index == DATAGRAMS_MAX || length > self.room {
            return None;
        }
        self.count += 1;
        self.lengths[index] = length;
        self.control_lengths[index] = match source {
            None => 0,
            Some(source) => write_source(&mut self.control[index].0, source),
        };
        let start = index * self.room;
        self.bytes.get_mut(start..start + length)
    }

    /// Hands the set from datagram `first` on to the kernel; how many it took.
    ///
    /// # Errors
    /// It took none: a full socket buffer (EAGAIN), or an error of the network (ECONNREFUSED,
    /// ENETUNREACH), which the kernel reports once.
    pub fn send(&mut self, socket: BorrowedFd<'_>, first: usize) -> Result<usize, Errno> {
        if first >= self.count {
            return Ok(0);
        }
        for index in first..self.count {
            self.point(index, self.lengths[index], self.control_lengths[index]);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let send = |headers: &mut [libc::mmsghdr]| {
            let count = headers.len() as libc::c_uint;
            // SAFETY: `point` filled each of the `count` headers with addresses of memory that
            // `self` owns and that is as long as stated; they live until the call returns.
            unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, flags as _) }
        };
        let to = self.to.clone();
        let headers = &mut self.headers[first..self.count];
        let sent = match &to {
            None => send(headers),
            Some(to) => {
                use rustix::net::addr::SocketAddrArg;
                // SAFETY: the closure only passes the address on to a call that reads
                // `msg_namelen` bytes of it, and it ends before `to` does.
                unsafe {
                    to.with_sockaddr(|address, length| {
                        for header in headers.iter_mut() {
                            header.msg_hdr.msg_name = address.cast_mut().cast();
                            header.msg_hdr.msg_namelen = length as _;
                        }
                        send(headers)
                    })
                }
            }
        };
        usize::try_from(sent).map_err(|_| crate::error::last_errno())
    }

    /// Replaces the set by what waits in the socket; how many. Does not block.
    ///
    /// # Errors
    /// Nothing waits (EAGAIN), or an error of the network that the kernel reports once.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        self.count = 0;
        for index in 0..DATAGRAMS_MAX {
            self.point(index, self.room, 0);
        }
        let (flags, count) = (libc::MSG_DONTWAIT, DATAGRAMS_MAX as libc::c_uint);
        let no_timeout = std::ptr::null_mut();
        let headers = self.headers.as_mut_ptr();
        // SAFETY: as for `sendmmsg` above; the kernel writes at most `room` bytes to each place.
        let received =
            unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, count, flags as _, no_timeout) };
        let received = usize::try_from(received).map_err(|_| crate::error::last_errno())?;
        self.count = received.min(DATAGRAMS_MAX);
        for index in 0..self.count {
            self.lengths[index] = (self.headers[index].msg_len as usize).min(self.room);
        }
        Ok(self.count)
    }

    /// Points the `index`-th header at its `length` bytes and its control message.
    #[inline]
    fn point(&mut self, index: usize, length: usize, control_length: usize) {
        let start = index * self.room;
        let bytes = &mut self.bytes[start..start + length];
        self.pieces[index] =
            libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let header = &mut self.headers[index].msg_hdr;
        header.msg_name = std::ptr::null_mut();
        header.msg_namelen = 0;
        header.msg_iov = &raw mut self.pieces[index];
        header.msg_iovlen = 1;
        header.msg_control = match control_length {
            0 => std::ptr::null_mut(),
            _ => self.control[index].0.as_mut_ptr().cast(),
        };
        header.msg_controllen = control_length as _;
        header.msg_flags = 0;
    }
}

/// Writes the control message "send from `source`"; its length. The layout is that of `cmsghdr`
/// (cmsg(3)): length, level, type, data; the interface index zero leaves the route alone.
fn write_source(control: &mut [u8; CONTROL_BYTES], source: IpAddr) -> usize {
    const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    *control = [0; CONTROL_BYTES];
    let (level, kind, data_bytes) = match source {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>()),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>()),
    };
    let length = HEADER_BYTES + data_bytes;
    let length_bytes = length.to_ne_bytes();
    control[..length_bytes.len()].copy_from_slice(&length_bytes);
    let at = HEADER_BYTES - 8;
    control[at..at + 4].copy_from_slice(&level.to_ne_bytes());
    control[at + 4..at + 8].copy_from_slice(&kind.to_ne_bytes());
    match source {
        // `in_pktinfo`: interface index, ipi_spec_dst (our end), ipi_addr (unused here).
        IpAddr::V4(address) => {
            let at = HEADER_BYTES + 4;
            control[at..at + 4].copy_from_slice(&Ipv4Addr::octets(&address));
        }
        // `in6_pktinfo`: address, interface index.
        IpAddr::V6(address) => {
            control[HEADER_BYTES..HEADER_BYTES + 16].copy_from_slice(&Ipv6Addr::octets(&address));
        }
    }
    // CMSG_SPACE: the next message would start at a multiple of a word.
    length.next_multiple_of(size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let a = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let b = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        (a, b)
    }

    #[test]
    fn datagrams_arrive_whole_and_in_order_from_the_address_that_was_asked_for() {
        let (_, to) = pair();
        let from = UdpSocket::bind("0.0.0.0:0").expect("loopback is there");
        let mut set = Datagrams::new(32);
        set.set_destination(Some(to.local_addr().expect("it is bound")));
        for number in 0..5_u8 {
            let source = IpAddr::from([127, 0, 3, number + 1]);
            let bytes = set.add(usize::from(number) + 1, Some(source)).expect("there is room");
            bytes.fill(number);
        }
        assert_eq!(set.send(from.as_fd(), 0), Ok(5));
        for number in 0..5_u8 {
            let mut bytes = [0; 32];
            let (length, source) = to.recv_from(&mut bytes).expect("it was sent");
            assert_eq!(bytes[..length], vec![number; usize::from(number) + 1]);
            assert_eq!(source.ip(), IpAddr::from([127, 0, 3, number + 1]));
        }
    }

    #[test]
    fn what_waits_is_received_by_one_call_and_a_longer_datagram_is_cut() {
        let (from, to) = pair();
        let address = to.local_addr().expect("it is bound");
        for bytes in [&[1_u8, 2, 3][..], &[9; 40]] {
            from.send_to(bytes, address).expect("loopback takes it");
        }
        let mut set = Datagrams::new(16);
        assert_eq!(set.receive(to.as_fd()), Ok(2));
        assert_eq!(set.bytes(0), [1, 2, 3]);
        assert_eq!(set.bytes(1), [9; 16]);
        assert_eq!(set.bytes(2), [0; 0]);
        assert_eq!(set.receive(to.as_fd()), Err(Errno::AGAIN));
        assert!(set.is_empty());
    }

    #[test]
    fn a_full_set_and_a_long_datagram_are_refused() {
        let mut set = Datagrams::new(8);
        assert!(set.add(9, None).is_none());
        for _ in 0..DATAGRAMS_MAX {
            assert!(set.add(8, None).is_some());
        }
        assert!(set.add(8, None).is_none());
        assert_eq!(set.len(), DATAGRAMS_MAX);
        set.clear();
        assert!(set.is_empty());
    }

    #[test]
    fn sources_of_both_ip_versions_are_laid_out_as_the_kernel_reads_them() {
        let mut control = [0xee; CONTROL_BYTES];
        assert_eq!(write_source(&mut control, IpAddr::from([10, 0, 0, 7])), 32);
        assert_eq!(control[20..24], [10, 0, 0, 7]);
        let (Ok(from), Ok(to)) = (UdpSocket::bind("[::]:0"), UdpSocket::bind("[::1]:0")) else {
            // A machine without IPv6 has nothing more to test here.
            return;
        };
        let mut set = Datagrams::new(8);
        set.set_destination(Some(to.local_addr().expect("it is bound")));
        set.add(1, Some(Ipv6Addr::LOCALHOST.into())).expect("there is room").fill(7);
        assert_eq!(set.send(from.as_fd(), 0), Ok(1));
    }
}
