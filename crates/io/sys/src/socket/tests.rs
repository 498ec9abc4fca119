//! What sockets say of themselves.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType};

use super::*;
use crate::testing::{in_fresh_namespace, ip};

fn made(family: AddressFamily, kind: SocketType) -> OwnedFd {
    rustix::net::socket(family, kind, None).expect("descriptors are left")
}

#[test]
fn copies_of_a_socket_have_its_cookie_and_its_inode_and_others_have_not() {
    let one = made(AddressFamily::INET, SocketType::STREAM);
    let copy = one.try_clone().expect("descriptors are left");
    let other = made(AddressFamily::INET, SocketType::STREAM);
    let identity = |fd: &OwnedFd| {
        (cookie_of(fd.as_fd()).expect("a socket"), inode_of(fd.as_fd()).expect("a socket"))
    };
    assert_eq!(identity(&one), identity(&copy));
    assert_ne!(identity(&one).0, identity(&other).0);
    assert_ne!(identity(&one).1, identity(&other).1);
}

#[test]
fn a_socket_tells_in_which_namespace_it_was_made() {
    let here = || {
        let socket = made(AddressFamily::INET, SocketType::DGRAM);
        netns_cookie_of(socket.as_fd()).expect("Linux 5.14 or later")
    };
    assert_eq!(here(), here());
    assert_ne!(here(), in_fresh_namespace(here));
}

#[test]
fn a_socket_tells_what_it_is() {
    let kind = |family, kind| kind_of(made(family, kind).as_fd()).expect("a socket");
    let tcp = kind(AddressFamily::INET, SocketType::STREAM);
    assert!(tcp.is_tcp() && !tcp.is_udp() && !tcp.is_ipv6(), "{tcp:?}");
    let udp = kind(AddressFamily::INET6, SocketType::DGRAM);
    assert!(udp.is_udp() && !udp.is_tcp() && udp.is_ipv6(), "{udp:?}");
    let unix = kind(AddressFamily::UNIX, SocketType::STREAM);
    assert!(!unix.is_ip() && !unix.is_tcp(), "{unix:?}");
    // IPPROTO_MPTCP: streams, and is not TCP to its user.
    let mptcp = Kind { protocol: 262, ..tcp };
    assert!(!mptcp.is_tcp());
}

#[test]
fn what_is_no_socket_is_an_error() {
    let file = std::fs::File::open("/dev/null").expect("it is there");
    let fd = file.as_fd();
    assert_eq!(cookie_of(fd).map_err(|error| error.errno()), Err(Errno::NOTSOCK));
    assert_eq!(kind_of(fd).map_err(|error| error.errno()), Err(Errno::NOTSOCK));
    assert_eq!(netns_cookie_of(fd).map_err(|error| error.errno()), Err(Errno::NOTSOCK));
    assert_eq!(local_address(fd).map_err(|error| error.errno()), Err(Errno::NOTSOCK));
}

#[test]
fn a_socket_is_nowhere_until_it_is_bound() {
    let socket = made(AddressFamily::INET, SocketType::STREAM);
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    assert_eq!(local_address(socket.as_fd()), Ok(nowhere));
    let place = bind(socket.as_fd(), (Ipv4Addr::LOCALHOST, 0).into()).expect("a port is left");
    assert!(place.port() != 0 && place.ip() == Ipv4Addr::LOCALHOST);
    assert_eq!(local_address(socket.as_fd()), Ok(place));
    let again = bind(socket.as_fd(), (Ipv4Addr::LOCALHOST, 0).into());
    assert_eq!(again.map_err(|error| error.errno()), Err(Errno::INVAL));
}

#[test]
fn a_port_is_chosen_at_once_even_if_the_program_wanted_that_to_wait() {
    let socket = made(AddressFamily::INET, SocketType::STREAM);
    let fd = socket.as_fd();
    set_int(fd, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1).expect("Linux 4.2 or later");
    let place = bind(fd, (Ipv4Addr::LOCALHOST, 0).into()).expect("a port is left");
    assert_ne!(place.port(), 0);
    assert_eq!(get_int(fd, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT), Ok(1), "set back");
}

#[test]
fn an_ipv6_socket_is_bound_to_an_ipv4_address_as_a_mapped_one() {
    in_fresh_namespace(|| {
        ip("link set lo up");
        let socket = made(AddressFamily::INET6, SocketType::STREAM);
        assert_eq!(is_ipv6_only(socket.as_fd()), Ok(false));
        let place = bind(socket.as_fd(), (Ipv4Addr::LOCALHOST, 0).into()).expect("a port is left");
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert_eq!(place, SocketAddr::from((mapped, place.port())));
        assert_eq!(canonical(place), SocketAddr::from((Ipv4Addr::LOCALHOST, place.port())));
        let six = SocketAddr::from((Ipv6Addr::LOCALHOST, 7));
        assert_eq!(canonical(six), six);
        let only = made(AddressFamily::INET6, SocketType::STREAM);
        sockopt::set_ipv6_v6only(&only, true).expect("it is of IPv6");
        assert_eq!(is_ipv6_only(only.as_fd()), Ok(true));
        assert!(bind(only.as_fd(), (Ipv4Addr::LOCALHOST, 0).into()).is_err());
    });
}

#[test]
fn a_taken_port_is_the_kernels_own_error() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is left");
    let taken = listener.local_addr().expect("it is bound");
    let socket = made(AddressFamily::INET, SocketType::STREAM);
    let error = bind(socket.as_fd(), taken).expect_err("it listens there");
    assert_eq!(error.errno(), Errno::ADDRINUSE);
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
}
