//! UDP: datagrams and their addresses.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use shm::sockets::{PAYLOAD_MAX, Piece, SlotWords};

use super::receive::ReceiveFlags;
use super::socket::Socket;
use super::stretch::Nonsense;
use super::verdict::Verdict;

/// What came with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes that were taken; with [`ReceiveFlags::truncate`], the bytes that the datagram had.
    pub bytes: usize,
    /// Whether it had more bytes than were taken: MSG_TRUNC of recvmsg(2).
    pub is_cut: bool,
    /// The address that sent it.
    pub from: Option<SocketAddr>,
    /// The own address that it came to: IP_PKTINFO of ip(7).
    pub to: Option<IpAddr>,
    /// The number of the interface that it came by; 0: none is known.
    pub interface: u32,
    /// Its class with ECN's bits, and how many hops it had left: IP_TOS and IP_TTL.
    pub class: u8,
    /// See `class`.
    pub hop_limit: u8,
    /// When it came, in nanoseconds of CLOCK_MONOTONIC.
    pub came_at: u64,
    /// Several have come as one: bytes of each but the last.
    pub segment_bytes: Option<u16>,
}

impl Received {
    pub(super) const NOTHING: Self = Self {
        bytes: 0,
        is_cut: false,
        from: None,
        to: None,
        interface: 0,
        class: 0,
        hop_limit: 0,
        came_at: 0,
        segment_bytes: None,
    };
}

/// How a datagram leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// To whom; none: the peer that the socket is connected to.
    pub to: Option<SocketAddr>,
    /// The own address that it comes from; none: as the socket is bound, or the routes have it.
    pub from: Option<IpAddr>,
    /// Its class with ECN's bits; none: as IP_TOS or IPV6_TCLASS say.
    pub class: Option<u8>,
    /// Hops that it may go; none: as IP_TTL or IPV6_UNICAST_HOPS say.
    pub hop_limit: Option<u8>,
    /// Splits the payload into datagrams of this size; the last may be shorter (UDP_SEGMENT).
    pub segment_bytes: Option<NonZeroU16>,
}

impl Socket {
    /// Takes the oldest datagram: `copy` is given stretches of its payload, in order, and says how
    /// many bytes it took; what it leaves is lost. Once at least, with an empty stretch, for an
    /// empty datagram too.
    ///
    /// # Errors
    /// EAGAIN while there is none; the socket's error, once; and what `copy` returns (the datagram
    /// is lost then, as with Linux).
    pub fn receive_from_with(
        &self,
        flags: ReceiveFlags,
        mut copy: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<Received, Errno> {
        let slot = self.slot()?;
        let _lock = slot.hold(&slot.words.rx_lock)?;
        loop {
            match slot.datagram_view().receive() {
                Verdict::Copy => {}
                Verdict::Error => match slot.error_for(flags.after_some) {
                    Some(error) => return Err(error),
                    None => continue,
                },
                Verdict::Fail(error) => return Err(error),
                Verdict::End => return Ok(Received::NOTHING),
                Verdict::Wait => return Err(Errno::AGAIN),
            }
            match slot.next_datagram() {
                Ok((unread, record)) => {
                    return slot.take_datagram(&unread, &record, flags, &mut copy);
                }
                Err(Nonsense) => slot.break_off(Errno::NETDOWN),
            }
        }
    }

    /// Bytes of the longest datagram that fits into one packet. Longer ones are for the kernel
    /// socket, which has the same port and cuts them: sent here they are lost.
    pub fn payload_max(&self) -> usize {
        let words = self.slot().map(|slot| slot.words.payload_max.load(Ordering::Relaxed));
        words.unwrap_or_default() as usize
    }

    /// The same to the host at `to`: less, if a router on the way there has said in the last ten
    /// minutes that its next link takes less. The kernel's socket has heard so too, and cuts or
    /// refuses what is longer.
    pub fn payload_max_to(&self, to: IpAddr) -> usize {
        let most = self.payload_max();
        match self.path_mtu(to) {
            Some(mtu) => most.min(usize::from(mtu).saturating_sub(headers(to))),
            None => most,
        }
    }

    /// Bytes of the longest packet to the host at `to`, if a router on the way there has said so in
    /// the last ten minutes.
    pub fn path_mtu(&self, to: IpAddr) -> Option<u16> {
        let now = || sys::clock::now().0 / 1_000_000_000;
        self.slot().ok()?.region.memory.path_mtu(to, now)
    }

    /// Whether a datagram of that length to `to`, or to the peer that the socket is connected to,
    /// fits into one packet all the way there.
    #[inline]
    pub fn takes(&self, bytes: usize, to: Option<SocketAddr>) -> bool {
        if bytes <= PAYLOAD_OF_EVERY_PATH {
            return true;
        }
        match to.or_else(|| self.peer_address()) {
            Some(to) => bytes <= self.payload_max_to(to.ip()),
            None => bytes <= self.payload_max(),
        }
    }

    /// Whether the kernel's socket may have an error that comes before all else: once for each
    /// time that it was given one, or that [`Self::expect_kernel_error`] was called.
    #[inline]
    pub fn may_have_kernel_error(&self) -> bool {
        self.slot().is_ok_and(|slot| {
            let word = &slot.words.kernel_error;
            match word.load(Ordering::Acquire) {
                0 => false,
                SlotWords::BEING_GIVEN => true,
                // Another one may be given meanwhile.
                seen => {
                    _ = word.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed);
                    true
                }
            }
        })
    }

    /// The kernel's socket may have an error from now on: something was taken from its queue of
    /// errors, or it has sent something.
    pub fn expect_kernel_error(&self) {
        if let Ok(slot) = self.slot() {
            slot.words.kernel_error.store(1, Ordering::Release);
        }
    }

    /// Sends a datagram of `bytes` bytes to `to`, or to the peer that the socket is connected to:
    /// `copy` is given stretches of room for it and fills them.
    ///
    /// # Errors
    /// EAGAIN while there is no room; EMSGSIZE: it is too long; EDESTADDRREQ: no address is given,
    /// and the socket is not connected; EHOSTUNREACH: the address is this host's, and the kernel
    /// socket, which has the same port, leads there; EPIPE; the socket's error, once; and what
    /// `copy` returns.
    pub fn send_to_with(
        &self,
        bytes: usize,
        to: Option<SocketAddr>,
        copy: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        self.send_as_with(&Outgoing { to, ..Outgoing::default() }, bytes, copy)
    }

    /// The same, as `how` says. What is cut enters the ring together, or not at all.
    ///
    /// # Errors
    /// As for [`Self::send_to_with`], and ENOBUFS: what is to be cut does not fit into the ring,
    /// which will be longer soon. The kernel's socket can send it meanwhile.
    pub fn send_as_with(
        &self,
        how: &Outgoing,
        bytes: usize,
        mut copy: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let slot = self.slot()?;
        let to = how.to;
        if bytes > PAYLOAD_MAX {
            return Err(Errno::MSGSIZE);
        }
        if to.is_none() && slot.words.remote.get().is_none() {
            return Err(Errno::DESTADDRREQ);
        }
        if to.is_some_and(|to| slot.region.memory.is_host_address(to.ip())) {
            return Err(Errno::HOSTUNREACH);
        }
        let _lock = slot.hold(&slot.words.tx_lock)?;
        loop {
            match slot.datagram_view().send() {
                Verdict::Copy => {}
                Verdict::Error => match slot.take_error() {
                    Some(error) => return Err(error),
                    None => continue,
                },
                Verdict::Fail(error) => return Err(error),
                Verdict::End | Verdict::Wait => return Err(Errno::AGAIN),
            }
            return slot.put_datagrams(how, bytes, &mut copy);
        }
    }

    /// Has the send ring grow, if that is to be had, until what is cut
    /// ([`Outgoing::segment_bytes`]) has room at once, however much it is.
    pub fn expect_segments(&self) {
        let Ok(slot) = self.slot() else { return };
        // Of short ones half is headers.
        if slot.offered().bytes() < 2 * PAYLOAD_MAX as u64 {
            slot.wish_for(2 * PAYLOAD_MAX);
        }
    }

    /// Whether datagrams may leave from that own address by the data plane. What is not certain is
    /// for the kernel socket: the daemon drops what comes from an address that it has not allowed
    /// when the socket was bound.
    pub fn may_send_from(&self, address: IpAddr) -> bool {
        self.slot().is_ok_and(|slot| {
            let bound = slot.words.local.get().map(|local| local.ip().to_canonical());
            let version = slot.words.sources_version.load(Ordering::Relaxed);
            bound == Some(address)
                || bound.is_some_and(|bound| bound.is_unspecified())
                    && slot.region.memory.is_served_since(version, address)
        })
    }

    /// Takes the oldest datagram into a slice.
    ///
    /// # Errors
    /// As for [`Self::receive_from_with`].
    pub fn receive_from(&self, to: &mut [u8]) -> Result<Received, Errno> {
        let mut done = 0;
        self.receive_from_with(ReceiveFlags::default(), |piece| {
            let copied = piece.copy_out(&mut to[done..]);
            done += copied;
            Ok(copied)
        })
    }

    /// Sends a slice as one datagram.
    ///
    /// # Errors
    /// As for [`Self::send_to_with`].
    pub fn send_to(&self, from: &[u8], to: Option<SocketAddr>) -> Result<usize, Errno> {
        let mut done = 0;
        self.send_to_with(from.len(), to, |piece| {
            let copied = piece.copy_in(&from[done..]);
            done += copied;
            Ok(copied)
        })
    }

    /// Bytes of the datagram that is received next, 0 if there is none: FIONREAD of udp(7).
    pub fn next_datagram_bytes(&self) -> u64 {
        let next = self.slot().ok().and_then(|slot| slot.next_datagram().ok());
        next.map_or(0, |(_, record)| u64::from(record.payload))
    }
}

/// Payload of a datagram that no path is too narrow for: Linux believes no router that names less
/// than 552 bytes (`net.ipv4.route.min_pmtu`).
const PAYLOAD_OF_EVERY_PATH: usize = 552 - 28;

/// Bytes before the payload in a packet to that host: RFC 791 or 8200, and 768.
fn headers(to: IpAddr) -> usize {
    if to.to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 }
}
