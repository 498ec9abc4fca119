//! A socket that takes the place of another has what was set on that.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::SysError;
use crate::error::last_errno;
use crate::socket::{get_int, set_int};

/// Options of TCP sockets that are a number, and that tell what was set. Those that [`kernel_only`]
/// finds are not among them.
///
/// [`kernel_only`]: super::kernel_only
const NUMBERS: &[(c_int, c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_BUSY_POLL),
    (libc::SOL_SOCKET, libc::SO_DONTROUTE),
    (libc::SOL_SOCKET, libc::SO_INCOMING_CPU),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (libc::IPPROTO_IP, libc::IP_FREEBIND),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (libc::IPPROTO_IP, libc::IP_TOS),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, TCP_INQ),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
];

/// Those of IPv6 sockets.
const NUMBERS_V6: &[(c_int, c_int)] = &[
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    (libc::IPPROTO_IPV6, IPV6_FREEBIND),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
];

/// Options of other types: two limits of time, and a name, of this many bytes at most.
const OTHERS: &[(c_int, c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
];
const OTHERS_BYTES_MAX: usize = 16;

/// Of linux/tcp.h and linux/in6.h, for which libc has no names.
const TCP_INQ: c_int = 36;
const IPV6_FREEBIND: c_int = 78;
/// Of asm-generic/socket.h: which buffers the kernel no longer sizes itself.
const SO_BUF_LOCK: c_int = 72;
const SEND_LOCKED: c_int = 1;
const RECEIVE_LOCKED: c_int = 2;

/// Sets on a TCP socket what was set on another one of the same family, as far as it differs; how
/// long its last close waits ([`copy_linger`]) is not among it. What this kernel does not have is
/// set on neither.
///
/// # Errors
/// The kernel refuses one of them, for want of a right for example.
pub fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), SysError> {
    let failed = |errno| SysError::new("copy a socket's options", errno, "");
    let is_v6 = crate::socket::kind_of(from)?.is_ipv6();
    let v6 = NUMBERS_V6.iter().filter(|_| is_v6);
    for &(level, name) in NUMBERS.iter().chain(v6) {
        let values = [from, to].map(|socket| get_int(socket, level, name));
        if let [Ok(wanted), Ok(now)] = values
            && wanted != now
        {
            set_int(to, level, name, wanted).map_err(failed)?;
        }
    }
    for &other in OTHERS {
        copy_other(from, to, other).map_err(failed)?;
    }
    let locked = get_int(from, libc::SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0);
    for (bit, name, force) in [
        (SEND_LOCKED, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE),
        (RECEIVE_LOCKED, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
    ] {
        if locked & bit != 0 {
            // The kernel takes it twice.
            let bytes = get_int(from, libc::SOL_SOCKET, name).map_err(failed)? / 2;
            set_int(to, libc::SOL_SOCKET, force, bytes).map_err(failed)?;
        }
    }
    Ok(())
}

/// Sets SO_LINGER as it was set on another socket: from then on the last close may wait.
///
/// # Errors
/// One of them is no socket.
pub fn copy_linger(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), SysError> {
    copy_other(from, to, (libc::SOL_SOCKET, libc::SO_LINGER))
        .map_err(|errno| SysError::new("copy a socket's SO_LINGER", errno, ""))
}

fn copy_other(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    (level, name): (c_int, c_int),
) -> Result<(), Errno> {
    match (read(from, level, name), read(to, level, name)) {
        (Ok(wanted), Ok(now)) if wanted != now => write(to, level, name, &wanted),
        _ => Ok(()),
    }
}

fn read(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> Result<Vec<u8>, Errno> {
    let mut value = [0_u8; OTHERS_BYTES_MAX];
    let mut length = value.len() as libc::socklen_t;
    let to = value.as_mut_ptr().cast();
    // SAFETY: `value` has room for `length` bytes.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut length) };
    if result == 0 { Ok(value[..length as usize].to_vec()) } else { Err(last_errno()) }
}

fn write(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &[u8]) -> Result<(), Errno> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: the value is as long as is said, and lives as long as the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use rustix::net::{AddressFamily, SocketType, sockopt};

    use super::*;

    #[test]
    fn a_socket_in_anothers_place_has_what_was_set_on_that() {
        let [from, to] = [0, 1].map(|_| {
            rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None).expect("sockets")
        });
        sockopt::set_tcp_nodelay(&from, true).expect("TCP");
        sockopt::set_ip_tos(&from, 0x28).expect("IP");
        sockopt::set_socket_linger(&from, Some(Duration::from_secs(7))).expect("a socket");
        let limit = Some(Duration::from_secs(9));
        sockopt::set_socket_timeout(&from, sockopt::Timeout::Recv, limit).expect("a socket");
        sockopt::set_tcp_congestion(&from, "reno").expect("every kernel has it");
        sockopt::set_socket_recv_buffer_size(&from, 50_000).expect("a socket");
        copy(from.as_fd(), to.as_fd()).expect("nothing that needs a right");
        assert!(sockopt::tcp_nodelay(&to).expect("TCP"));
        assert_eq!(sockopt::ip_tos(&to), Ok(0x28));
        assert_eq!(sockopt::socket_linger(&to), Ok(None), "its close waits for nothing yet");
        copy_linger(from.as_fd(), to.as_fd()).expect("both are sockets");
        assert_eq!(sockopt::socket_linger(&to), Ok(Some(Duration::from_secs(7))));
        assert_eq!(sockopt::socket_timeout(&to, sockopt::Timeout::Recv), Ok(limit));
        assert_eq!(sockopt::tcp_congestion(&to).as_deref(), Ok("reno"));
        assert_eq!(sockopt::socket_recv_buffer_size(&to), Ok(100_000));
        assert_eq!(get_int(to.as_fd(), libc::SOL_SOCKET, SO_BUF_LOCK), Ok(RECEIVE_LOCKED));
    }
}
