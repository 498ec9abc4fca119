//! socket(2).

use libc::c_int;

use crate::calls::{renew, stdio};
use crate::entry::descriptors;
use crate::system::{fork, real};

/// socket(2): the kernel's, always. It becomes ours when it listens or connects, or for
/// UDP when it gets a port.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: plain numbers.
    let fd = unsafe { real::socket(domain, kind, protocol) };
    descriptors::is_new(fd);
    renew::say();
    let is_inet = domain == libc::AF_INET || domain == libc::AF_INET6;
    let is_datagram = kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) == libc::SOCK_DGRAM;
    let is_udp = is_datagram && (protocol == 0 || protocol == libc::IPPROTO_UDP);
    if fd >= 0 && is_inet && is_udp && !fork::is_borrowed() {
        descriptors::set_fresh(fd);
    }
    if is_inet {
        stdio::stand_in(fd);
    }
    fd
}
