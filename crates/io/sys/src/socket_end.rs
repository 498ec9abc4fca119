//! Which sockets have come to their end: the kernel says when the last copy of one was closed.
//!
//! A socket outlives the call that closes it here as long as another process, or a message on its
//! way, has a copy. SOCK_DIAG's groups (linux/sock_diag.h, Linux 4.2) tell the true end, whoever
//! brought it about, by the socket's cookie ([`crate::socket::cookie_of`]).

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use base::Nanos;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netlink};

use crate::netlink::{Groups, Heard, u32_at};
use crate::{SysError, clock, poll, socket};

/// Room for some ten thousand ends that were not read yet.
const BUFFER_BYTES: usize = 8 << 20;

/// The ends of all TCP and UDP sockets of one network namespace, from when this was made.
#[derive(Debug)]
pub struct SocketEnds {
    groups: Groups,
    /// Of the last datagram; one each, so far.
    cookies: VecDeque<u64>,
}

/// What one look at [`SocketEnds`] brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEnd {
    /// The last copy of this socket is gone.
    Ended {
        /// Its SO_COOKIE.
        cookie: u64,
    },
    /// More ended than there was room to tell: look for those that remain (see
    /// [`crate::process_sockets`]).
    Lost,
    /// Nothing more for now.
    Nothing,
}

impl SocketEnds {
    /// Hears of the sockets of the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// The kernel lacks CONFIG_INET_DIAG, or descriptors are short.
    pub fn watch() -> Result<Self, SysError> {
        /// SKNLGRP_INET_TCP_DESTROY, INET_UDP, INET6_TCP, INET6_UDP are groups 1 to 4.
        const DESTROYED: u32 = 0b1111;
        let groups = Groups::join(Some(netlink::SOCK_DIAG), DESTROYED, BUFFER_BYTES);
        let groups = groups.map_err(|errno| {
            let advice = match errno {
                Errno::PROTONOSUPPORT | Errno::NOENT => "the kernel lacks CONFIG_INET_DIAG",
                _ => "",
            };
            SysError::new("watch for sockets that end", errno, advice)
        })?;
        Ok(Self { groups, cookies: VecDeque::new() })
    }

    /// The next end; never waits.
    #[expect(clippy::should_implement_trait, reason = "it has not ended when it says `Nothing`")]
    pub fn next(&mut self) -> SocketEnd {
        loop {
            if let Some(cookie) = self.cookies.pop_front() {
                return SocketEnd::Ended { cookie };
            }
            let Self { groups, cookies } = self;
            match groups.next(|kind, body| cookies.extend(cookie_of(kind, body))) {
                Heard::Messages => {}
                Heard::Lost => return SocketEnd::Lost,
                Heard::Nothing => return SocketEnd::Nothing,
            }
        }
    }

    /// Whether this kernel does tell: tries it with a socket of our own, for at most a second.
    ///
    /// # Errors
    /// As [`Self::watch`], or there are no sockets.
    pub fn works() -> Result<bool, SysError> {
        let mut ends = Self::watch()?;
        let made = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        let made = made.map_err(|errno| SysError::new("make a socket", errno, ""))?;
        let wanted = SocketEnd::Ended { cookie: socket::cookie_of(made.as_fd())? };
        drop(made);
        let end = clock::now() + Nanos::from_secs(1);
        while clock::now() < end {
            match ends.next() {
                found if found == wanted => return Ok(true),
                SocketEnd::Nothing => {
                    let rest = end.since(clock::now());
                    poll::wait_readable(ends.as_fd(), rest);
                }
                _ => {}
            }
        }
        Ok(false)
    }
}

impl AsFd for SocketEnds {
    /// Readable when there may be an end to hear of.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.groups.as_fd()
    }
}

/// Reads a struct inet_diag_msg (linux/inet_diag.h).
fn cookie_of(kind: u16, body: &[u8]) -> Option<u64> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    /// Behind family, state, timer and retransmits comes the id: ports, addresses, interface,
    /// cookie.
    const COOKIE: usize = 4 + 4 + 32 + 4;
    const MESSAGE_BYTES: usize = 72;
    if kind != SOCK_DIAG_BY_FAMILY || body.len() < MESSAGE_BYTES {
        return None;
    }
    Some(u64::from(u32_at(body, COOKIE)) | u64::from(u32_at(body, COOKIE + 4)) << 32)
}

#[cfg(test)]
mod tests;
