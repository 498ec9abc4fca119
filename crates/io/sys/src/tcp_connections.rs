//! Which TCP connections the kernel has: asked of SOCK_DIAG (linux/inet_diag.h).

use rustix::io::Errno;
use rustix::net::netlink;

use crate::SysError;
use crate::netlink::{NLM_F_DUMP, Request};

/// States of include/net/tcp_states.h in which a socket is no connection, or one that neither end
/// has anything more to say in: TIME-WAIT, closed, listening, bound only.
const NO_CONNECTION: u32 = 1 << 6 | 1 << 7 | 1 << 10 | 1 << 13;

/// How many connections the kernel has at a local port, in the calling thread's network namespace:
/// half-open ones, those that nobody has accepted yet and those that are closing count. The kernel
/// walks its whole table for it: some milliseconds where that is large.
///
/// # Errors
/// The kernel does not tell: it may lack CONFIG_INET_DIAG.
pub fn count_at(port: u16) -> Result<usize, SysError> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    let mut count = 0;
    for family in [libc::AF_INET, libc::AF_INET6] {
        // struct inet_diag_req_v2: family, protocol, no extensions, states; source port; any
        // other port, addresses, interface and cookie.
        let mut fixed = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
        fixed.extend((!NO_CONNECTION).to_ne_bytes());
        fixed.extend(port.to_be_bytes());
        fixed.resize(56, 0);
        let request = Request::new(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &fixed);
        let asked = request.send_to(Some(netlink::SOCK_DIAG), |kind, _| {
            count += usize::from(kind == SOCK_DIAG_BY_FAMILY);
        });
        asked.map_err(|errno: Errno| {
            let advice = "the kernel may lack CONFIG_INET_DIAG";
            SysError::new(format!("ask which connections port {port} has"), errno, advice)
        })?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::testing::{in_fresh_namespace, ip};

    #[test]
    fn connections_of_a_port_count_until_both_ends_are_through_and_listeners_do_not() {
        in_fresh_namespace(|| {
            ip("link set lo up");
            for (at, port) in [("127.0.0.1:8000", 8000), ("[::1]:8001", 8001)] {
                let listener = TcpListener::bind(at).expect("nobody is here");
                let count = || count_at(port).expect("it tells");
                assert_eq!(count(), 0, "{at}: a listener");
                let client = TcpStream::connect(at).expect("it listens");
                let other = TcpStream::connect(at).expect("it listens");
                assert_eq!(count(), 2, "{at}: nobody has accepted them");
                let accepted = listener.accept().expect("it has come").0;
                // The end that closes first is the one that stays in TIME-WAIT.
                drop(accepted);
                assert_eq!(count(), 2, "{at}: one end is not through");
                drop(client);
                assert_eq!(count(), 1, "{at}: TIME-WAIT is no connection");
                drop((listener, other));
            }
        });
    }
}
