//! What stands beside the bytes of a datagram: control messages, cmsg(3), and the options of a
//! socket that ask for them.

use calisto_client::sockets::SocketOption;
use libc::c_int;

use crate::entry::file::File;
use crate::system::kernel_socket;

/// What came with a datagram, as control messages.
mod arrived;
/// How a datagram is to leave, by its control messages.
mod leaving;
/// Beside the bytes of a connection.
mod on_stream;

pub(crate) use arrived::{Parts, Place};
pub(crate) use leaving::leaving;
pub(crate) use on_stream::is_right_on_stream;

/// Of asm-generic/socket.h, linux/in.h, linux/in6.h and linux/udp.h; not all of them have names.
const IP_RECVORIGDSTADDR: c_int = 20;
const IPV6_RECVORIGDSTADDR: c_int = 74;
const UDP_SEGMENT: c_int = 103;
const UDP_GRO: c_int = 104;

/// What a socket tells with each datagram, in the order in which Linux does: the bits of
/// [`SocketOption::Beside`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tells {
    Time,
    TimeNs,
    SegmentBytes,
    InfoV6,
    InfoV4,
    TimeToLive,
    Class,
    OriginalV4,
    HopLimit,
    ClassV6,
    OriginalV6,
}

const TELLS: &[(c_int, c_int, Tells)] = &[
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP, Tells::Time),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, Tells::TimeNs),
    (libc::IPPROTO_UDP, UDP_GRO, Tells::SegmentBytes),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, Tells::InfoV6),
    (libc::IPPROTO_IP, libc::IP_PKTINFO, Tells::InfoV4),
    (libc::IPPROTO_IP, libc::IP_RECVTTL, Tells::TimeToLive),
    (libc::IPPROTO_IP, libc::IP_RECVTOS, Tells::Class),
    (libc::IPPROTO_IP, IP_RECVORIGDSTADDR, Tells::OriginalV4),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, Tells::HopLimit),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, Tells::ClassV6),
    (libc::IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, Tells::OriginalV6),
];

impl Tells {
    fn bit(self) -> u32 {
        1 << self as u32
    }

    fn is_asked_of(self, file: &File) -> bool {
        file.socket.option(SocketOption::Beside) & self.bit() != 0
    }
}

/// Options of which [`follow`] reads the value for another reason.
const OTHERS: [(c_int, c_int); 4] = [
    (libc::IPPROTO_UDP, UDP_SEGMENT),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
];

/// Whether an option is about what [`follow`] reads.
pub(crate) fn is_about_it(level: c_int, name: c_int) -> bool {
    TELLS.iter().any(|&(l, n, _)| (l, n) == (level, name)) || OTHERS.contains(&(level, name))
}

/// Has ours do what the program has told the kernel's half of a UDP socket.
pub(crate) fn follow(fd: c_int, file: &File) {
    let bits = TELLS.iter().filter(|&&(level, name, _)| {
        kernel_socket::number(fd, level, name).is_some_and(|value| value != 0)
    });
    let bits = bits.fold(0, |bits, (.., tells)| bits | tells.bit());
    let segment = kernel_socket::number(fd, libc::IPPROTO_UDP, UDP_SEGMENT).unwrap_or(0);
    if segment > 0 {
        file.socket.expect_segments();
    }
    let discovers = kernel_socket::number(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
    // Values of linux/in.h: with these, packets are not forbidden to be cut.
    const DONT: c_int = 0;
    const INTERFACE: c_int = 4;
    const OMIT: c_int = 5;
    let may_be_cut = matches!(discovers, Some(DONT | INTERFACE | OMIT));
    let queues = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
    let tells_errors = queues
        .iter()
        .any(|&(level, name)| kernel_socket::number(fd, level, name).is_some_and(|on| on != 0));
    for (option, value) in [
        (SocketOption::TellsErrors, u32::from(tells_errors)),
        (SocketOption::Beside, bits),
        (SocketOption::SegmentBytes, segment.cast_unsigned()),
        (SocketOption::MayBeCut, u32::from(may_be_cut)),
    ] {
        if file.socket.option(option) != value {
            file.socket.set_option(option, value);
        }
    }
}

/// Bytes that a datagram which is received may have together with those behind it: UDP_GRO.
pub(crate) fn join_bytes(file: &File, room: usize) -> usize {
    if Tells::SegmentBytes.is_asked_of(file) { room } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_a_bit_of_its_own_and_is_said_in_the_order_of_the_list() {
        let bits: Vec<u32> = TELLS.iter().map(|(.., tells)| tells.bit()).collect();
        assert!(bits.is_sorted_by(|a, b| a < b), "{bits:?}");
        assert!(is_about_it(libc::IPPROTO_IP, libc::IP_PKTINFO));
        assert!(!is_about_it(libc::IPPROTO_IP, libc::IP_TOS));
    }
}
