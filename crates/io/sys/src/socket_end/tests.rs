//! Sockets that end in every way, in namespaces of our own.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use super::*;
use crate::testing::in_fresh_namespace;

fn tcp(family: AddressFamily) -> OwnedFd {
    rustix::net::socket(family, SocketType::STREAM, None).expect("descriptors are left")
}

fn cookie(socket: &impl AsFd) -> u64 {
    socket::cookie_of(socket.as_fd()).expect("sockets have one")
}

/// Whether nothing is told for a hundred times as long as the kernel needs to tell.
fn is_silent(ends: &mut SocketEnds) -> bool {
    let silent = !poll::wait_readable(ends.as_fd(), Nanos::from_millis(20));
    silent && ends.next() == SocketEnd::Nothing
}

/// The cookies of those that end, until `count` have or nothing came for five seconds.
fn ended(ends: &mut SocketEnds, count: usize) -> Vec<u64> {
    let mut cookies = Vec::new();
    while cookies.len() < count {
        match ends.next() {
            SocketEnd::Ended { cookie } => cookies.push(cookie),
            SocketEnd::Lost => panic!("there is room"),
            SocketEnd::Nothing if poll::wait_readable(ends.as_fd(), Nanos::from_secs(5)) => {}
            SocketEnd::Nothing => break,
        }
    }
    cookies
}

#[test]
fn each_socket_is_told_of_once_by_its_cookie_when_its_last_copy_is_closed() {
    in_fresh_namespace(|| {
        let mut ends = SocketEnds::watch().expect("this kernel tells");
        let sockets: Vec<OwnedFd> = vec![
            tcp(AddressFamily::INET),
            tcp(AddressFamily::INET6),
            TcpListener::bind("0.0.0.0:0").expect("a port is left").into(),
            UdpSocket::bind("0.0.0.0:0").expect("a port is left").into(),
            UdpSocket::bind("[::]:0").expect("a port is left").into(),
        ];
        let copies: Vec<OwnedFd> =
            sockets.iter().map(|fd| fd.try_clone().expect("descriptors are left")).collect();
        let mut expected: Vec<u64> = sockets.iter().map(cookie).collect();
        drop(sockets);
        assert!(is_silent(&mut ends), "the copies are open");
        drop(copies);
        let mut told = ended(&mut ends, expected.len());
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!(told, expected);
        assert!(is_silent(&mut ends));
    });
}

#[test]
fn a_process_that_is_killed_ends_its_sockets() {
    in_fresh_namespace(|| {
        let mut ends = SocketEnds::watch().expect("this kernel tells");
        let socket = tcp(AddressFamily::INET);
        let cookie = cookie(&socket);
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .stdin(socket)
            .spawn()
            .expect("sleep is everywhere");
        assert!(is_silent(&mut ends), "the child has it");
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
        assert_eq!(ended(&mut ends, 1), [cookie]);
    });
}

#[test]
fn sockets_of_another_namespace_are_not_told_of() {
    in_fresh_namespace(|| {
        let mut ends = SocketEnds::watch().expect("this kernel tells");
        let cookie = in_fresh_namespace(|| {
            let socket = tcp(AddressFamily::INET);
            cookie(&socket)
        });
        let ours = tcp(AddressFamily::INET);
        let expected = self::cookie(&ours);
        assert_ne!(cookie, expected);
        drop(ours);
        assert_eq!(ended(&mut ends, 1), [expected]);
    });
}

#[test]
fn more_ends_than_there_is_room_for_are_told_as_lost_and_later_ones_again() {
    in_fresh_namespace(|| {
        let mut ends = SocketEnds::watch().expect("this kernel tells");
        rustix::net::sockopt::set_socket_recv_buffer_size(&ends, 4096).expect("it is a socket");
        let end = clock::now() + Nanos::from_secs(10);
        let mut is_lost = false;
        while !is_lost && clock::now() < end {
            drop((0..100).map(|_| tcp(AddressFamily::INET)).collect::<Vec<_>>());
            // The kernel tells when it finds time for it; we do not look before it has told too
            // much.
            std::thread::sleep(std::time::Duration::from_millis(2));
            is_lost = ends.next() == SocketEnd::Lost;
        }
        assert!(is_lost);
        let mut is_told = false;
        while !is_told && clock::now() < end {
            while !is_silent(&mut ends) && clock::now() < end {
                while ends.next() != SocketEnd::Nothing {}
            }
            let last = tcp(AddressFamily::INET);
            let cookie = cookie(&last);
            drop(last);
            is_told = ended(&mut ends, 1) == [cookie];
        }
        assert!(is_told, "it hears again");
    });
}

#[test]
fn this_kernel_tells() {
    assert_eq!(SocketEnds::works(), Ok(true));
}

#[test]
fn a_message_that_is_short_or_of_another_kind_names_no_socket() {
    let mut body = [0; 72];
    body[44..52].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(cookie_of(20, &body), Some(0x0807_0605_0403_0201));
    assert_eq!(cookie_of(20, &body[..71]), None);
    assert_eq!(cookie_of(19, &body), None);
}
