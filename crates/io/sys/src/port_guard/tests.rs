//! Guards against what else asks for their ports, in namespaces of our own.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

use base::Nanos;
use rustix::io::Errno;

use super::*;
use crate::clock;
use crate::testing::{in_fresh_namespace, ip};

fn tcp(address: SocketAddr, shares: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let fd = rustix::net::socket(family, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&fd, shares)?;
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

fn errno(result: Result<PortGuard, SysError>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

/// What `try_it` brings, once a port that was let go is free: another test that starts a program at
/// that moment has a copy of the socket until the program runs.
fn soon<T, E: std::fmt::Debug>(try_it: impl Fn() -> Result<T, E>) -> T {
    let end = clock::now() + Nanos::from_secs(10);
    loop {
        match try_it() {
            Ok(found) => return found,
            Err(error) => assert!(clock::now() < end, "it is free again: {error:?}"),
        }
    }
}

/// The two ports that a namespace may choose from, so that a guarded one would be chosen soon.
fn narrow_range() -> [u16; 2] {
    ip("link set lo up");
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40001").expect("root may");
    [40000, 40001]
}

#[test]
fn a_guarded_port_is_refused_to_who_does_not_share_and_free_once_it_is_let_go() {
    in_fresh_namespace(|| {
        ip("link set lo up");
        for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            let address = SocketAddr::new(address, 5000);
            let guard = PortGuard::hold(address).expect("nobody is there");
            assert_eq!(guard.address(), address);
            assert_eq!(tcp(address, false).err(), Some(Errno::ADDRINUSE));
            drop(guard);
            soon(|| tcp(address, false));
        }
    });
}

#[test]
fn a_server_that_shares_starts_again_on_a_guarded_port_as_it_does_on_one_in_time_wait() {
    in_fresh_namespace(|| {
        ip("link set lo up");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 5000));
        let _guard = PortGuard::hold(address).expect("nobody is there");
        // The standard library's listeners share.
        let listener = TcpListener::bind(address).expect("the guard allows it");
        TcpStream::connect(address).expect("it listens");
        listener.accept().expect("one has connected");
        assert_eq!(errno(PortGuard::hold(address)), Some(Errno::ADDRINUSE), "it listens");
    });
}

#[test]
fn a_guard_stands_beside_a_bound_socket_and_outlives_it() {
    in_fresh_namespace(|| {
        ip("link set lo up");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 5000));
        for shares in [false, true] {
            let socket = soon(|| tcp(address, shares));
            let guard = PortGuard::beside(socket.as_fd()).expect("it does not listen");
            assert_eq!(guard.address(), address);
            assert_eq!(sockopt::socket_reuseaddr(&socket), Ok(shares), "as it was");
            drop(socket);
            assert_eq!(tcp(address, false).err(), Some(Errno::ADDRINUSE));
        }
        let unbound = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)
            .expect("descriptors are left");
        assert_eq!(errno(PortGuard::beside(unbound.as_fd())), Some(Errno::INVAL));
    });
}

#[test]
fn a_guard_of_an_ipv6_socket_at_an_ipv4_address_is_one_of_ipv4() {
    in_fresh_namespace(|| {
        ip("link set lo up");
        let mapped = SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 5000));
        let socket = tcp(mapped, false).expect("nobody is there");
        let guard = PortGuard::beside(socket.as_fd()).expect("it does not listen");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 5000));
        assert_eq!(guard.address(), address);
        drop(socket);
        assert_eq!(tcp(address, false).err(), Some(Errno::ADDRINUSE));
    });
}

#[test]
fn the_kernel_chooses_a_guarded_port_for_nobody() {
    in_fresh_namespace(|| {
        let [guarded, free] = narrow_range();
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, 5000));
        let other = SocketAddr::from((Ipv4Addr::LOCALHOST, 5001));
        let _listeners = [server, other].map(|at| TcpListener::bind(at).expect("it is free"));
        let guard = PortGuard::hold((Ipv4Addr::LOCALHOST, guarded).into());
        let guard = guard.expect("nobody is there");
        // The connections stay open: each peer can be reached from a port once.
        let one = TcpStream::connect(server).expect("there is a port");
        assert_eq!(one.local_addr().expect("connected").port(), free);
        let two = TcpStream::connect(other).expect("another peer: the same port again");
        assert_eq!(two.local_addr().expect("connected").port(), free);
        let three = TcpStream::connect(server).expect_err("both ports are in use to there");
        assert_eq!(three.raw_os_error(), Some(Errno::ADDRNOTAVAIL.raw_os_error()));
        for shares in [false, true] {
            let bound = tcp((Ipv4Addr::LOCALHOST, 0).into(), shares);
            assert_eq!(bound.err(), Some(Errno::ADDRINUSE), "port 0 finds none either");
        }
        drop(guard);
        let three = soon(|| TcpStream::connect(server));
        assert_eq!(three.local_addr().expect("connected").port(), guarded);
    });
}

#[test]
fn nobodys_address_and_no_port_are_refused() {
    in_fresh_namespace(|| {
        ip("link set lo up");
        let nobodys = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 5000));
        assert_eq!(errno(PortGuard::hold(nobodys)), Some(Errno::ADDRNOTAVAIL));
        let none = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        assert_eq!(errno(PortGuard::hold(none)), Some(Errno::INVAL));
    });
}
