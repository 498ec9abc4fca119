//! Sockets with the calls of std's, over the daemon's half of the shared memory and beside the
//! kernel.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::time::Duration;

use crate::streams::{Daemon, LOCAL_PORTS};
use calisto_client::sockets::{Session, TcpListener, TcpStream, UdpSocket};

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn pair(session: &Session, address: SocketAddr) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(session, address).expect("the port is free");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(session, address).expect("it listens");
    let (server, from) = listener.accept().expect("it has connected");
    assert_eq!(from, client.local_addr().expect("it is connected"));
    (client, server)
}

/// Bytes whose order matters.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn a_megabyte_goes_both_ways_at_once_and_arrives_whole() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    for port in [0, LOCAL_PORTS.start + 10] {
        let (client, server) = pair(&session, SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        assert!(client.is_accelerated() && server.is_accelerated());
        let bytes = content(1 << 20);
        std::thread::scope(|scope| {
            for end in [&client, &server] {
                let bytes = &bytes;
                scope.spawn(move || {
                    let mut writer = end.try_clone().expect("nothing is needed");
                    writer.write_all(bytes).expect("the other reads");
                    writer.shutdown(Shutdown::Write).expect("it is connected");
                });
                scope.spawn(move || {
                    let mut read = Vec::new();
                    end.try_clone()
                        .expect("nothing is needed")
                        .read_to_end(&mut read)
                        .expect("the other writes");
                    assert!(read == *bytes);
                });
            }
        });
    }
}

#[test]
fn a_listener_accepts_what_comes_by_the_kernel_too() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let listener = TcpListener::bind(&session, any_port()).expect("the port is free");
    assert!(listener.is_accelerated());
    let address = listener.local_addr().expect("it is bound");
    std::thread::scope(|scope| {
        let acceptor = scope.spawn(|| listener.incoming().take(2).collect::<Vec<_>>());
        let mut by_kernel = std::net::TcpStream::connect(address).expect("it listens");
        by_kernel.write_all(b"k").expect("there is room");
        let mut by_us = TcpStream::connect(&session, address).expect("it listens");
        by_us.write_all(b"u").expect("there is room");
        let mut texts: Vec<(bool, u8)> = acceptor
            .join()
            .expect("it does not panic")
            .into_iter()
            .map(|stream| {
                let mut stream = stream.expect("it was accepted");
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("it was sent");
                (stream.is_accelerated(), byte[0])
            })
            .collect();
        texts.sort_unstable();
        assert_eq!(texts, [(false, b'k'), (true, b'u')]);
    });
    listener.set_nonblocking(true).expect("it can be");
    assert_eq!(listener.accept().expect_err("nobody").kind(), ErrorKind::WouldBlock);
}

#[test]
fn timeouts_and_modes_are_kept() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (mut client, mut server) = pair(&session, any_port());
    client.set_read_timeout(Some(Duration::from_millis(3))).expect("it is not zero");
    assert_eq!(client.read(&mut [0]).expect_err("nothing comes").kind(), ErrorKind::WouldBlock);
    assert!(client.set_read_timeout(Some(Duration::ZERO)).is_err());
    client.set_nonblocking(true).expect("it can be");
    assert_eq!(client.read(&mut [0]).expect_err("nothing comes").kind(), ErrorKind::WouldBlock);
    client.set_nonblocking(false).expect("it can be");
    client.set_read_timeout(None).expect("it can be");
    client.set_nodelay(true).expect("it can be");
    assert!(client.nodelay().expect("it is known"));
    server.write_all(b"abc").expect("there is room");
    let mut bytes = [0; 3];
    assert!(client.peek(&mut bytes).expect("they come") > 0);
    client.read_exact(&mut bytes).expect("they are there");
    assert_eq!(&bytes, b"abc");
    drop(client);
    assert_eq!(server.read(&mut bytes).expect("the end"), 0);
    assert!(server.take_error().expect("it is known").is_none());
}

#[test]
fn a_connection_that_nobody_answers_ends_in_its_time_and_a_refused_one_at_once() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let silent = SocketAddr::from((Ipv4Addr::LOCALHOST, crate::streams::SILENT_PORT));
    let error = TcpStream::connect_timeout(&session, silent, Duration::from_millis(3));
    assert_eq!(error.expect_err("nobody answers").kind(), ErrorKind::TimedOut);
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 2));
    let error = TcpStream::connect(&session, nobody).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_program_goes_on_with_the_kernel_when_the_daemon_is_gone() {
    let mut daemon = Daemon::start();
    let session = daemon.attach();
    let listener = TcpListener::bind(&session, any_port()).expect("the port is free");
    let address = listener.local_addr().expect("it is bound");
    let (mut client, _server) = pair(&session, any_port());
    std::thread::scope(|scope| {
        let acceptor = scope.spawn(|| listener.accept());
        let reader = scope.spawn(move || client.read(&mut [0]));
        daemon.kill();
        let error = reader.join().expect("it does not panic").expect_err("the daemon is gone");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let mut late = TcpStream::connect(&session, address).expect("the kernel listens");
        assert!(!late.is_accelerated());
        let (mut accepted, _) = acceptor.join().expect("it does not panic").expect("accepted");
        accepted.write_all(b"hello").expect("there is room");
        let mut bytes = [0; 5];
        late.read_exact(&mut bytes).expect("they were sent");
        assert_eq!(&bytes, b"hello");
    });
}

#[test]
fn datagrams_of_loopback_go_through_the_kernel() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let one = UdpSocket::bind(&session, any_port()).expect("the port is free");
    let two = UdpSocket::bind(&session, any_port()).expect("the port is free");
    assert!(one.is_accelerated());
    let address = two.local_addr().expect("it is bound");
    let mut bytes = [0; 9];
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| two.recv_from(&mut bytes));
        assert_eq!(one.send_to(b"hello", address).expect("there is room"), 5);
        let received = receiver.join().expect("it does not panic").expect("it was sent");
        assert_eq!(received, (5, one.local_addr().expect("it is bound")));
    });
    two.set_read_timeout(Some(Duration::from_millis(3))).expect("it is not zero");
    assert_eq!(two.recv(&mut [0]).expect_err("nothing comes").kind(), ErrorKind::WouldBlock);
}
