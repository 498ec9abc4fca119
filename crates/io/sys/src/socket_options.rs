//! What was set on a socket that only the kernel can honour, and what counts from a socket's first
//! packet on.
//!
//! For sockets that somebody else made and we only hold a copy of: whoever serves one beside the
//! kernel must not do what its options forbid, and cannot do what they ask for.

mod copy;

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::SysError;
use crate::error::last_errno;
use crate::socket::get_int;

pub use copy::{copy, copy_linger};

/// Such an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelOnly {
    /// It takes packets of one device only (SO_BINDTODEVICE, SO_BINDTOIFINDEX, a link-local address
    /// with a scope), or sends through one only (IP_UNICAST_IF, IPV6_UNICAST_IF).
    Device,
    /// It may have addresses that are not this host's (IP_TRANSPARENT, IPV6_TRANSPARENT).
    Transparent,
    /// A program looks at each of its packets first (SO_ATTACH_FILTER, SO_ATTACH_BPF).
    Filter,
    /// A protocol lies on top of TCP in the kernel (TCP_ULP).
    UpperProtocol,
    /// Another option, whose effect is the kernel's alone: a mark that rules of routing ask for
    /// (SO_MARK), a least TTL (IP_MINTTL, IPV6_MINHOPCOUNT), keys (TCP_AO) or encapsulation
    /// (UDP_ENCAP).
    Other,
}

/// SO_BINDTOIFINDEX of Linux 5.0, IP_UNICAST_IF, IPV6_UNICAST_IF, IPV6_TRANSPARENT,
/// IPV6_MINHOPCOUNT, TCP_AO_INFO of Linux 6.7 and UDP_ENCAP, for which libc has no names; the same
/// on every architecture that we run on.
const SO_BINDTOIFINDEX: c_int = 62;
const IP_UNICAST_IF: c_int = 50;
const IPV6_UNICAST_IF: c_int = 76;
const IPV6_TRANSPARENT: c_int = 75;
const IPV6_MINHOPCOUNT: c_int = 73;
const TCP_AO_INFO: c_int = 40;
const UDP_ENCAP: c_int = 100;

/// Options of any IP socket that are zero unless somebody has set them.
const OF_ALL: &[(c_int, c_int, KernelOnly)] = &[
    (libc::SOL_SOCKET, SO_BINDTOIFINDEX, KernelOnly::Device),
    (libc::IPPROTO_IP, IP_UNICAST_IF, KernelOnly::Device),
    (libc::IPPROTO_IP, libc::IP_TRANSPARENT, KernelOnly::Transparent),
    (libc::SOL_SOCKET, libc::SO_MARK, KernelOnly::Other),
    (libc::IPPROTO_IP, libc::IP_MINTTL, KernelOnly::Other),
];

/// The same of IPv6 sockets.
const OF_V6: &[(c_int, c_int, KernelOnly)] = &[
    (libc::IPPROTO_IPV6, IPV6_UNICAST_IF, KernelOnly::Device),
    (libc::IPPROTO_IPV6, IPV6_TRANSPARENT, KernelOnly::Transparent),
    (libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT, KernelOnly::Other),
];

/// The same of UDP sockets.
const OF_UDP: &[(c_int, c_int, KernelOnly)] = &[
    (libc::IPPROTO_UDP, UDP_ENCAP, KernelOnly::Other),
    (libc::SOL_SOCKET, libc::SO_BROADCAST, KernelOnly::Other),
];

/// The first option of a TCP or UDP socket that only the kernel can honour, if one is set. What
/// cannot be read at all and so cannot be found: TCP_MD5SIG, IP_XFRM_POLICY.
///
/// # Errors
/// It is no socket. An option that this kernel does not have is not set.
pub fn kernel_only(socket: BorrowedFd<'_>) -> Result<Option<KernelOnly>, SysError> {
    let kind = crate::socket::kind_of(socket)?;
    let failed = |errno| SysError::new("read a socket's options", errno, "");
    let tables = [(true, OF_ALL), (kind.is_ipv6(), OF_V6), (kind.is_udp(), OF_UDP)];
    let meant = tables.into_iter().filter(|(is_meant, _)| *is_meant);
    for &(level, name, what) in meant.flat_map(|(_, table)| table) {
        match get_int(socket, level, name) {
            Ok(0) | Err(Errno::NOPROTOOPT | Errno::OPNOTSUPP) => {}
            Ok(_) => return Ok(Some(what)),
            Err(errno) => return Err(failed(errno)),
        }
    }
    if has_filter(socket).map_err(failed)? {
        return Ok(Some(KernelOnly::Filter));
    }
    if !kind.is_tcp() {
        return Ok(None);
    }
    if length_of(socket, libc::IPPROTO_TCP, libc::TCP_ULP).is_ok_and(|length| length > 0) {
        return Ok(Some(KernelOnly::UpperProtocol));
    }
    // It answers with an error unless there are keys.
    let has_keys = length_of(socket, libc::IPPROTO_TCP, TCP_AO_INFO).is_ok();
    Ok(has_keys.then_some(KernelOnly::Other))
}

/// Settings of a socket that count from its first packet on; zero: what every socket has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstOptions {
    /// IP_TOS.
    pub type_of_service: u32,
    /// IP_TTL.
    pub time_to_live: u32,
    /// IPV6_TCLASS.
    pub traffic_class: u32,
    /// IPV6_UNICAST_HOPS.
    pub hop_limit: u32,
    /// TCP_MAXSEG. Linux tells who has set nothing of 536 bytes, so that this says nothing.
    pub max_segment: u32,
    /// TCP_SYNCNT, if it is not as the host's other sockets have it.
    pub syn_count: u32,
    /// TCP_DEFER_ACCEPT in seconds.
    pub defer_accept: u32,
    /// SO_MAX_PACING_RATE in bytes a second, of TCP.
    pub rate_max: u32,
}

/// What TCP_MAXSEG says of a socket without a connection on which it was not set (TCP_MSS_DEFAULT
/// of Linux, RFC 9293 section 3.7.1).
const MSS_UNSET: c_int = 536;

/// The settings of a TCP or UDP socket that is not connected.
///
/// # Errors
/// It is no socket.
pub fn first_options(socket: BorrowedFd<'_>) -> Result<FirstOptions, SysError> {
    let kind = crate::socket::kind_of(socket)?;
    let get = |level, name| get_int(socket, level, name).map_or(0, c_int::cast_unsigned);
    let mut options = FirstOptions {
        type_of_service: get(libc::IPPROTO_IP, libc::IP_TOS),
        time_to_live: get(libc::IPPROTO_IP, libc::IP_TTL),
        ..FirstOptions::default()
    };
    if kind.is_ipv6() {
        options.traffic_class = get(libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
        options.hop_limit = get(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS);
    }
    if kind.is_tcp() {
        let but = |value: u32, usual: u32| if value == usual { 0 } else { value };
        let max_segment = get(libc::IPPROTO_TCP, libc::TCP_MAXSEG);
        options.max_segment = but(max_segment, MSS_UNSET.cast_unsigned());
        options.syn_count = but(get(libc::IPPROTO_TCP, libc::TCP_SYNCNT), usual_syn_count());
        options.defer_accept = get(libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
        options.rate_max = but(get(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE), u32::MAX);
    }
    Ok(options)
}

/// TCP_SYNCNT of a new socket.
fn usual_syn_count() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
        let made = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None);
        let count =
            made.and_then(|made| get_int(made.as_fd(), libc::IPPROTO_TCP, libc::TCP_SYNCNT));
        count.map_or(0, c_int::cast_unsigned)
    })
}

/// Whether a filter is attached. The kernel gives out classic ones, and of others says only that
/// there is one.
fn has_filter(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    /// Of asm-generic/socket.h: SO_ATTACH_FILTER, read.
    const SO_GET_FILTER: c_int = 26;
    let mut instructions: libc::socklen_t = 0;
    // SAFETY: with a length of zero nothing is written but the length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_GET_FILTER,
            std::ptr::null_mut(),
            &raw mut instructions,
        )
    };
    match result {
        0 => Ok(instructions > 0),
        _ => match last_errno() {
            Errno::ACCESS => Ok(true),
            errno => Err(errno),
        },
    }
}

/// How many bytes an option has, of 256 at most.
fn length_of(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> Result<usize, Errno> {
    let mut value = [0_u8; 256];
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: `value` has room for `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(length as usize) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests;
