//! What the kernel tells of one of its TCP connections (TCP_INFO of tcp(7)).

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::SysError;

/// States of include/net/tcp_states.h.
const TCP_CLOSE: u8 = 7;
const TCP_LISTEN: u8 = 10;

/// Segments that the kernel has sent again so far.
///
/// # Errors
/// It is no TCP socket.
pub fn sent_again(socket: BorrowedFd<'_>) -> Result<u32, SysError> {
    read(socket).map(|info| info.tcpi_total_retrans)
}

/// Whether it listens, and no connection waits to be accepted: closing it resets those, each in
/// turn.
///
/// # Errors
/// It is no TCP socket.
pub fn is_listening_unasked(socket: BorrowedFd<'_>) -> Result<bool, SysError> {
    // Of a listener that number is its accept queue's (`tcp_get_info` of net/ipv4/tcp.c).
    read(socket).map(|info| info.tcpi_state == TCP_LISTEN && info.tcpi_unacked == 0)
}

/// Whether it neither listens nor has, opens or ends a connection.
///
/// # Errors
/// It is no TCP socket.
pub fn is_closed(socket: BorrowedFd<'_>) -> Result<bool, SysError> {
    read(socket).map(|info| info.tcpi_state == TCP_CLOSE)
}

fn read(socket: BorrowedFd<'_>) -> Result<libc::tcp_info, SysError> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` has room for `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(SysError::last("ask about a connection", "it may be no TCP socket"));
    }
    // SAFETY: it was zero, and any bytes are numbers; an older kernel fills in fewer.
    Ok(unsafe { info.assume_init() })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_fresh_connection_has_sent_nothing_again_and_others_have_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
        let here = listener.local_addr().expect("it is bound");
        let stream = TcpStream::connect(here).expect("it listens");
        assert_eq!(sent_again(stream.as_fd()).ok(), Some(0));
        let states = [is_listening_unasked, is_closed].map(|is| is(stream.as_fd()).ok());
        assert_eq!(states, [Some(false), Some(false)]);
        let states = [is_listening_unasked, is_closed].map(|is| is(listener.as_fd()).ok());
        assert_eq!(states, [Some(false), Some(false)], "the stream waits");
        drop(listener.accept().expect("it waits"));
        assert_eq!(is_listening_unasked(listener.as_fd()).ok(), Some(true));
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
        assert!(sent_again(datagrams.as_fd()).is_err() && is_closed(datagrams.as_fd()).is_err());
    }
}
