//! Options that are set, and found again.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType, sockopt};

use super::*;
use crate::socket::set_int;
use crate::testing::in_fresh_namespace;

fn made(family: AddressFamily, kind: SocketType) -> OwnedFd {
    rustix::net::socket(family, kind, None).expect("descriptors are left")
}

const FAMILIES: [AddressFamily; 2] = [AddressFamily::INET, AddressFamily::INET6];

#[test]
fn a_socket_on_which_nothing_unusual_was_set_has_no_such_option() {
    for family in FAMILIES {
        for kind in [SocketType::STREAM, SocketType::DGRAM] {
            let socket = made(family, kind);
            sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
            sockopt::set_socket_reuseport(&socket, true).expect("a socket");
            sockopt::set_socket_keepalive(&socket, true).expect("a socket");
            assert_eq!(kernel_only(socket.as_fd()), Ok(None), "{family:?} {kind:?}");
        }
    }
}

#[test]
fn each_option_that_can_be_set_is_found() {
    in_fresh_namespace(|| {
        for family in FAMILIES {
            let is_v6 = family == AddressFamily::INET6;
            for kind in [SocketType::STREAM, SocketType::DGRAM] {
                let is_udp = kind == SocketType::DGRAM;
                let tables = [(true, OF_ALL), (is_v6, OF_V6), (is_udp, OF_UDP)];
                let meant = tables.into_iter().filter(|(is_meant, _)| *is_meant);
                for &(level, name, what) in meant.flat_map(|(_, table)| table) {
                    let socket = made(family, kind);
                    let value = match name {
                        // Interfaces; those of these two options are in network order. Loopback is
                        // the first.
                        IP_UNICAST_IF | IPV6_UNICAST_IF if what == KernelOnly::Device => {
                            1_i32.to_be()
                        }
                        // UDP_ENCAP_ESPINUDP of linux/udp.h.
                        UDP_ENCAP if level == libc::IPPROTO_UDP => 2,
                        _ => 1,
                    };
                    let set = set_int(socket.as_fd(), level, name, value);
                    if (level, name) == (libc::IPPROTO_UDP, UDP_ENCAP) && set.is_err() {
                        // A kernel without IPsec has no such thing.
                        continue;
                    }
                    set.unwrap_or_else(|errno| panic!("{level} {name}: {errno}"));
                    let found = kernel_only(socket.as_fd());
                    assert_eq!(found, Ok(Some(what)), "{level} {name} {family:?} {kind:?}");
                }
            }
        }
    });
}

#[test]
fn a_filter_is_found() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    // BPF_RET | BPF_K: nothing of any packet.
    let code = libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: (&raw const code).cast_mut() };
    // SAFETY: the program lives as long as the call, which copies it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
    assert_eq!(kernel_only(socket.as_fd()), Ok(Some(KernelOnly::Filter)));
}

#[test]
fn what_is_no_socket_has_no_options() {
    let file = std::fs::File::open("/dev/null").expect("it is there");
    assert!(kernel_only(file.as_fd()).is_err());
}
