//! What the kernel tells of one of its TCP connections (TCP_INFO of tcp(7)).

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::SysError;

/// Segments that the kernel has sent again so far.
///
/// # Errors
/// It is no TCP socket.
pub fn sent_again(socket: BorrowedFd<'_>) -> Result<u32, SysError> {
    read(socket).map(|info| info.tcpi_total_retrans)
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
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
        assert!(sent_again(datagrams.as_fd()).is_err());
    }
}
