//! Sockets that get packets, and some that have lost the right to.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, Shutdown, SocketType, sockopt};

use super::*;
use crate::socket::cookie_of;
use crate::testing::{in_fresh_namespace, ip};

const LOOPBACK: u32 = 1;

/// With loopback up.
fn in_namespace(work: impl FnOnce() + Send + 'static) {
    in_fresh_namespace(|| {
        ip("link set lo up");
        work();
    });
}

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

#[test]
fn a_listener_owns_its_port_until_it_is_shut_down() {
    in_namespace(|| {
        let one = TcpListener::bind("0.0.0.0:8000").expect("nobody is here");
        let cookie = cookie_of(one.as_fd()).expect("a socket");
        let of = |at| of_address(Transport::Tcp, at, LOOPBACK).expect("it tells");
        let own = Some(Owner { cookie, uid: 0, is_listener: true });
        assert_eq!(of(at("127.0.0.1", 8000)), own);
        assert_eq!(of(at("10.1.2.3", 8000)), own, "any address");
        assert_eq!(of(at("127.0.0.1", 8001)), None);
        assert_eq!(of(at("::1", 8000)), None, "IPv4 only");
        rustix::net::shutdown(&one, Shutdown::Both).expect("it listens");
        assert_eq!(of(at("127.0.0.1", 8000)), None, "it has no right to its port any more");
    });
}

#[test]
fn a_listener_of_both_families_owns_both() {
    in_namespace(|| {
        let both = TcpListener::bind("[::]:8000").expect("nobody is here");
        let cookie = cookie_of(both.as_fd()).expect("a socket");
        for address in ["127.0.0.1", "::1"] {
            let found = of_address(Transport::Tcp, at(address, 8000), LOOPBACK);
            assert_eq!(found.expect("it tells").map(|owner| owner.cookie), Some(cookie));
        }
    });
}

#[test]
fn a_socket_of_another_device_owns_nothing_here() {
    in_namespace(|| {
        ip("link add veth7 type veth peer name veth8");
        let other = crate::interface::index_of("veth7").expect("it was made");
        let bound = |index: u32, kind| {
            // A child that another test starts must not keep it open.
            let flags = rustix::net::SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(AddressFamily::INET, kind, flags, None);
            let socket = socket.expect("descriptors are left");
            crate::socket::bind_to_interface(socket.as_fd(), index).expect("root may");
            crate::socket::bind(socket.as_fd(), at("0.0.0.0", 8000)).expect("one device each");
            if kind == SocketType::STREAM {
                rustix::net::listen(&socket, 1).expect("it is bound");
            }
            socket
        };
        for (kind, transport) in
            [(SocketType::STREAM, Transport::Tcp), (SocketType::DGRAM, Transport::Udp)]
        {
            let (_there, here) = (bound(other, kind), bound(LOOPBACK, kind));
            let found = of_address(transport, at("127.0.0.1", 8000), LOOPBACK);
            let found = found.expect("it tells").expect("it is bound here").cookie;
            assert_eq!(found, cookie_of(here.as_fd()).expect("a socket"));
            drop(here);
            let found = of_address(transport, at("127.0.0.1", 8000), LOOPBACK);
            assert_eq!(found, Ok(None), "{transport:?}");
        }
    });
}

#[test]
fn a_udp_socket_owns_its_port_unless_it_has_one_peer() {
    in_namespace(|| {
        let one = UdpSocket::bind("127.0.0.1:5300").expect("nobody is here");
        let of = || of_address(Transport::Udp, at("127.0.0.1", 5300), LOOPBACK);
        let cookie = cookie_of(one.as_fd()).expect("a socket");
        assert_eq!(of().expect("it tells").map(|owner| owner.cookie), Some(cookie));
        one.connect("127.0.0.1:9").expect("there is a route");
        assert_eq!(of(), Ok(None), "what a stranger sends is not for it");
    });
}

#[test]
fn a_connection_is_told_from_the_listener_that_it_came_from() {
    in_namespace(|| {
        let listener = TcpListener::bind("127.0.0.1:8000").expect("nobody is here");
        let client = TcpStream::connect("127.0.0.1:8000").expect("it listens");
        let (accepted, from) = listener.accept().expect("it has come");
        let of = |remote| {
            let found = of_ends(Transport::Tcp, at("127.0.0.1", 8000), remote, LOOPBACK);
            found.expect("it tells").expect("somebody has it")
        };
        let found = of(from);
        assert_eq!(found.cookie, cookie_of(accepted.as_fd()).expect("a socket"));
        assert!(!found.is_listener);
        assert!(of(at("127.0.0.1", 1)).is_listener);
        drop(client);
    });
}

#[test]
fn one_of_those_that_share_a_port_is_told() {
    in_namespace(|| {
        let make = || {
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
            let socket = socket.expect("descriptors are left");
            sockopt::set_socket_reuseport(&socket, true).expect("a socket");
            crate::socket::bind(socket.as_fd(), at("0.0.0.0", 8000)).expect("they share");
            rustix::net::listen(&socket, 1).expect("it is bound");
            socket
        };
        let all = [make(), make(), make()];
        let found = of_address(Transport::Tcp, at("127.0.0.1", 8000), LOOPBACK);
        let found = found.expect("it tells").expect("three listen").cookie;
        let is_one = |socket: &OwnedFd| cookie_of(socket.as_fd()).is_ok_and(|is| is == found);
        assert!(all.iter().any(is_one));
    });
}

#[test]
fn sockets_that_are_connected_are_found_with_their_ports_and_others_are_not() {
    in_namespace(|| {
        let bound = |address: SocketAddr| {
            let family = match address.is_ipv4() {
                true => AddressFamily::INET,
                false => AddressFamily::INET6,
            };
            let socket = rustix::net::socket(family, SocketType::DGRAM, None).expect("descriptors");
            sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
            rustix::net::bind(&socket, &address).expect("all of them share it");
            UdpSocket::from(socket)
        };
        let _waits = bound(at("0.0.0.0", 5000));
        let elsewhere = bound(at("127.0.0.1", 5001));
        elsewhere.connect(at("127.0.0.1", 9)).expect("loopback is up");
        let found = || {
            let mut found = Vec::new();
            let tell = |at, owner: Owner| found.push((at, owner.cookie));
            let told = each_connected(Transport::Udp, 0..=u16::MAX, Nanos::FAR_FUTURE, tell);
            assert_eq!(told, Ok(true));
            found.sort_unstable();
            found
        };
        let cookie = |socket: &UdpSocket| cookie_of(socket.as_fd()).expect("a socket");
        assert_eq!(found(), [(at("127.0.0.1", 5001), cookie(&elsewhere))]);
        let connected = [("127.0.0.1", "127.0.0.1"), ("::1", "::1")].map(|(own, to)| {
            let socket = bound(at(own, 5000));
            socket.connect(at(to, 9)).expect("loopback is up");
            (at(own, 5000), socket)
        });
        let mapped = bound(at("::", 5000));
        mapped.connect(at("::ffff:127.0.0.1", 10)).expect("loopback is up");
        let all = connected.iter().map(|(own, socket)| (*own, socket));
        let beside = [(at("127.0.0.1", 5000), &mapped), (at("127.0.0.1", 5001), &elsewhere)];
        let all = all.chain(beside);
        let mut expected: Vec<_> = all.map(|(own, one)| (own, cookie(one))).collect();
        expected.sort_unstable();
        assert_eq!(found(), expected);
    });
}

/// Makes that many sockets at one port, or at a port each, connected to one peer.
fn connect(count: usize, port: impl Fn(usize) -> u16) -> Vec<UdpSocket> {
    let make = |number: usize| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
        let socket = socket.expect("descriptors are left");
        sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
        let own = SocketAddr::from(([127, 0, (number >> 8) as u8, number as u8], port(number)));
        rustix::net::bind(&socket, &own).expect("all of them share it");
        let socket = UdpSocket::from(socket);
        socket.connect(at("127.0.0.1", 9)).expect("loopback is up");
        socket
    };
    (0..count).map(make).collect()
}

#[test]
fn only_sockets_of_the_ports_that_are_asked_about_are_told() {
    in_namespace(|| {
        let _sockets = connect(10, |number| 5000 + number as u16);
        let listener = TcpListener::bind("127.0.0.1:8000").expect("nobody is here");
        let client = TcpStream::connect("127.0.0.1:8000").expect("it listens");
        let (_accepted, from) = listener.accept().expect("it has come");
        let ports = |transport, asked: RangeInclusive<u16>| {
            let mut ports = Vec::new();
            let tell = |at: SocketAddr, _| ports.push(at.port());
            assert_eq!(each_connected(transport, asked, Nanos::FAR_FUTURE, tell), Ok(true));
            ports.sort_unstable();
            ports
        };
        assert_eq!(ports(Transport::Udp, 5003..=5005), [5003, 5004, 5005]);
        assert_eq!(ports(Transport::Udp, 5009..=u16::MAX), [5009]);
        assert_eq!(ports(Transport::Udp, 0..=5000), [5000]);
        assert_eq!(ports(Transport::Udp, 5010..=6000), []);
        assert_eq!(ports(Transport::Tcp, 8000..=8000), [8000], "a listener has no peer");
        assert_eq!(ports(Transport::Tcp, 8001..=u16::MAX), [from.port()]);
        drop(client);
    });
}

#[test]
fn more_sockets_than_can_be_told_in_time_are_told_in_part() {
    in_namespace(|| {
        let sockets = connect(1000, |_| 5000);
        let mut count = 0;
        let told = each_connected(Transport::Udp, 0..=u16::MAX, Nanos::ZERO, |_, _| count += 1);
        assert_eq!(told, Ok(false));
        assert!(0 < count && count < sockets.len(), "{count}");
        // What does not have to be told takes no second message.
        let told = each_connected(Transport::Udp, 5001..=5001, Nanos::ZERO, |_, _| ());
        assert_eq!(told, Ok(true));
    });
}

#[test]
fn sockets_to_which_anybody_may_send_are_told_and_no_others() {
    in_namespace(|| {
        let _connected = connect(3, |_| 5000);
        let _bound = UdpSocket::bind("127.0.0.1:5001").expect("nobody is here");
        let listener = TcpListener::bind("[::]:8000").expect("nobody is here");
        let client = TcpStream::connect("127.0.0.1:8000").expect("it listens");
        let open = |transport| {
            let mut open = Vec::new();
            let told = each_open(transport, Nanos::FAR_FUTURE, |at, owner| {
                open.push((at, owner.uid, owner.is_listener));
            });
            assert_eq!(told, Ok(true));
            open
        };
        assert_eq!(open(Transport::Udp), [(at("127.0.0.1", 5001), 0, false)]);
        assert_eq!(open(Transport::Tcp), [(at("::", 8000), 0, true)]);
        drop((listener, client));
    });
}

#[test]
fn a_connection_that_its_program_has_closed_is_nobodys_though_the_kernel_still_ends_it() {
    in_namespace(|| {
        let listener = TcpListener::bind("127.0.0.1:8000").expect("nobody is here");
        let one = TcpStream::connect("127.0.0.1:8000").expect("it listens");
        let port = one.local_addr().expect("it is connected").port();
        let (other, _) = listener.accept().expect("it is connected");
        let found = || {
            let mut found = Vec::new();
            let each = |at: SocketAddr, _: Owner| found.push(at.port());
            let told = each_connected(Transport::Tcp, port..=port, Nanos::from_secs(60), each);
            assert_eq!(told, Ok(true));
            found
        };
        assert_eq!(found(), [port]);
        // FIN-WAIT-2 for as long as the other does not close.
        drop(one);
        assert_eq!(found(), []);
        drop(other);
    });
}
