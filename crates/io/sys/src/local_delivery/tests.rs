//! What a packet is to the host's stack that somebody else has received.

use std::ffi::c_int;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

/// "Port unreachable" from a router far away, about a datagram of `socket` to another host.
fn refused(socket: &UdpSocket, to: [u8; 4]) -> Vec<u8> {
    let port = socket.local_addr().expect("it is bound").port().to_be_bytes();
    let mut quoted = vec![0x45, 0, 0, 33, 0, 0, 0x40, 0, 60, 17, 0, 0, 127, 0, 0, 1];
    quoted.extend_from_slice(&to);
    quoted.extend_from_slice(&[port[0], port[1], 0, 53, 0, 13, 0, 0]);
    quoted.extend_from_slice(b"query");
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend(quoted);
    let sum = message.chunks(2).fold(0_u32, |sum, pair| {
        sum + u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
    });
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let total = (20 + message.len() as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, total[0], total[1], 0, 0, 0, 0, 60, 1, 0, 0];
    packet.extend_from_slice(&[192, 0, 2, 99, 127, 0, 0, 1]);
    packet.extend(message);
    packet
}

#[test]
fn an_error_that_came_by_another_way_is_in_the_queue_of_the_socket_that_it_is_about() {
    let delivery = LocalDelivery::new().expect("this test runs as root");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let (fd, yes): (_, c_int) = (socket.as_raw_fd(), 1);
    let bytes = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the number has that many bytes and lives as long as the call.
    let set = unsafe {
        libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_RECVERR, (&raw const yes).cast(), bytes)
    };
    assert_eq!(set, 0);
    let packet = refused(&socket, [192, 0, 2, 1]);
    assert!(delivery.give(&packet, IpAddr::from([127, 0, 0, 1])));
    let mut wait = [PollFd::new(&socket, PollFlags::IN)];
    let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(poll(&mut wait, Some(&limit)), Ok(1), "nothing came of it");
    assert!(wait[0].revents().contains(PollFlags::ERR));
    let error = socket.recv(&mut [0; 8]).expect_err("it is told");
    assert_eq!(error.raw_os_error(), Some(Errno::CONNREFUSED.raw_os_error()));
}
