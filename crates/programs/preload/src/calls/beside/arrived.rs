//! Control messages of what has come.

use std::net::{IpAddr, SocketAddr};

use calisto_client::sockets::Received;
use libc::{c_int, cmsghdr, msghdr};

use super::{TELLS, Tells, UDP_GRO};
use crate::entry::file::File;
use crate::system::{address, copy};

/// Where a program wants control messages.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
}

impl Place {
    /// There is none.
    pub(crate) const NOWHERE: Self = Self { start: std::ptr::null_mut(), bytes: 0 };

    pub(crate) fn of(header: &msghdr) -> Self {
        Self { start: header.msg_control.cast(), bytes: header.msg_controllen }
    }
}

/// Control messages that are being written, as the kernel writes them (`put_cmsg`).
pub(crate) struct Parts {
    place: Place,
    /// Bytes of those that stand there.
    pub(crate) bytes: usize,
    /// One did not fit: MSG_CTRUNC.
    pub(crate) is_cut: bool,
}

const HEADER: usize = size_of::<cmsghdr>();

impl Parts {
    pub(crate) fn at(place: Place) -> Self {
        Self { place, bytes: 0, is_cut: false }
    }

    /// Writes one more, as much of it as there is room for. One that cannot be written is left out,
    /// and nobody is told: as by Linux, for what it is about has been taken.
    ///
    /// # Safety
    /// Writing at the place is the program's wish.
    pub(crate) unsafe fn put(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let room = self.place.bytes - self.bytes;
        if room < HEADER || self.place.start.is_null() {
            self.is_cut = true;
            return;
        }
        let whole = HEADER + value.len();
        self.is_cut |= whole > room;
        // SAFETY: all zero is a valid header.
        let mut part = unsafe { std::mem::zeroed::<cmsghdr>() };
        part.cmsg_len = whole.min(room);
        (part.cmsg_level, part.cmsg_type) = (level, kind);
        let to = self.place.start.wrapping_add(self.bytes);
        // SAFETY: the caller's promise; there is room for both.
        let written = unsafe {
            copy::put(to.cast(), &part).and_then(|()| {
                copy::copy(to.wrapping_add(HEADER), value.as_ptr(), part.cmsg_len - HEADER)
            })
        };
        if written.is_ok() {
            self.bytes += (HEADER + value.len().next_multiple_of(size_of::<usize>())).min(room);
        }
    }

    /// Writes what the program has asked to be told of a datagram.
    ///
    /// # Safety
    /// Writing at the place is the program's wish.
    pub(crate) unsafe fn tell(&mut self, file: &File, got: &Received) {
        for &(level, name, tells) in TELLS {
            if !tells.is_asked_of(file) {
                continue;
            }
            let mut value = [0_u8; size_of::<libc::sockaddr_in6>()];
            if let Some((kind, bytes)) = value_of(tells, name, file, got, &mut value) {
                // SAFETY: the caller's promise.
                unsafe { self.put(level, kind, &value[..bytes]) };
            }
        }
    }
}

/// The kind of a control message, and how many bytes of `value` it has; nothing: it is not about
/// this datagram.
fn value_of(
    tells: Tells,
    name: c_int,
    file: &File,
    got: &Received,
    value: &mut [u8],
) -> Option<(c_int, usize)> {
    let to = got.to?;
    let is_v4 = to.is_ipv4();
    let mut fill = |bytes: &[u8]| {
        value[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    };
    let number = |value: c_int| value.to_ne_bytes();
    Some(match tells {
        Tells::Time => (name, fill(&stamp(got.came_at, 1000))),
        Tells::TimeNs => (name, fill(&stamp(got.came_at, 1))),
        Tells::SegmentBytes => (UDP_GRO, fill(&number(got.segment_bytes?.into()))),
        Tells::InfoV4 => {
            let IpAddr::V4(to) = to else { return None };
            // struct in_pktinfo: the interface, our address there, and whom the packet is for.
            let interface = got.interface.to_ne_bytes();
            let info = [interface, to.octets(), to.octets()];
            (libc::IP_PKTINFO, fill(info.as_flattened()))
        }
        Tells::InfoV6 => {
            let to = match to {
                IpAddr::V4(to) => to.to_ipv6_mapped(),
                IpAddr::V6(to) => to,
            };
            let mut info = [0; 20];
            info[..16].copy_from_slice(&to.octets());
            info[16..].copy_from_slice(&got.interface.to_ne_bytes());
            (libc::IPV6_PKTINFO, fill(&info))
        }
        Tells::TimeToLive if is_v4 => (libc::IP_TTL, fill(&number(got.hop_limit.into()))),
        Tells::HopLimit if !is_v4 => (libc::IPV6_HOPLIMIT, fill(&number(got.hop_limit.into()))),
        Tells::Class if is_v4 => (libc::IP_TOS, fill(&[got.class])),
        Tells::ClassV6 if !is_v4 => (libc::IPV6_TCLASS, fill(&number(got.class.into()))),
        Tells::OriginalV4 if is_v4 => (name, fill(&original(to, file, libc::AF_INET)?)),
        Tells::OriginalV6 if !is_v4 => (name, fill(&original(to, file, libc::AF_INET6)?)),
        _ => return None,
    })
}

/// The address that a datagram was sent to, as C has it.
fn original(to: IpAddr, file: &File, family: c_int) -> Option<Vec<u8>> {
    let port = file.socket.local_address()?.port();
    let (storage, bytes) = address::storage(SocketAddr::new(to, port), family);
    // SAFETY: it has that many bytes, and was zero before it was written.
    Some(unsafe { std::slice::from_raw_parts((&raw const storage).cast(), bytes) }.to_vec())
}

/// A point of CLOCK_MONOTONIC as one of the calendar: seconds, and the rest in units of this many
/// nanoseconds.
fn stamp(came_at: u64, unit: i64) -> [u8; 16] {
    const SECOND: i64 = 1_000_000_000;
    let now = |clock| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` has room for it.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        time.tv_sec.wrapping_mul(SECOND).wrapping_add(time.tv_nsec)
    };
    let ago = now(libc::CLOCK_MONOTONIC).wrapping_sub(came_at.cast_signed()).max(0);
    let time = now(libc::CLOCK_REALTIME).wrapping_sub(ago);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&time.div_euclid(SECOND).to_ne_bytes());
    bytes[8..].copy_from_slice(&(time.rem_euclid(SECOND) / unit).to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_message_that_does_not_fit_is_cut_and_said_to_be() {
        let mut bytes = [0_u8; 64];
        let place = |room| Place { start: bytes.as_mut_ptr(), bytes: room };
        let written = |place, values: &[&[u8]]| {
            let mut parts = Parts::at(place);
            for value in values {
                // SAFETY: the bytes are there.
                unsafe { parts.put(1, 2, value) };
            }
            (parts.bytes, parts.is_cut)
        };
        let mut place = place;
        assert_eq!(written(place(64), &[&[7]]), (24, false));
        assert_eq!(written(place(64), &[&[7; 4], &[8; 12]]), (24 + 32, false));
        assert_eq!(written(place(20), &[&[7; 4]]), (20, false));
        assert_eq!(written(place(18), &[&[7; 4]]), (18, true));
        assert_eq!(written(place(15), &[&[7; 4]]), (0, true));
        assert_eq!(written(Place::NOWHERE, &[&[7; 4]]), (0, true));
        crate::system::faults::watch();
        // Where nothing can be.
        let nowhere = Place { start: std::ptr::without_provenance_mut(8), bytes: 64 };
        assert_eq!(written(nowhere, &[&[7; 4], &[8; 12]]), (0, false), "and nothing fails");
    }
}
