//! Just enough netlink: one request, its replies, their attributes; groups that tell by themselves.
//!
//! Messages are built and read as bytes in the machine's order (linux/netlink.h), so that a reply
//! of any length is only ever a bounds-checked slice.

use base::Nanos;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::clock;

mod groups;

pub(crate) use groups::{Groups, Heard};

const HEADER_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_MULTI: u16 = 0x2;
const NLM_F_DUMP_INTR: u16 = 0x10;

pub(crate) const NLM_F_ACK: u16 = 0x4;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_APPEND: u16 = 0x800;

/// A message under construction: fixed part and attributes.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Type and flags (NLM_F_REQUEST is added), and the fixed part that the type wants.
    pub(crate) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self { bytes }
    }

    /// Appends an attribute.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let len = u16::try_from(value.len() + 4).expect("attributes here are names and numbers");
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self
    }

    /// Sends it to rtnetlink in the calling thread's namespace and passes each reply's type and
    /// body to `each`, until the answer is complete.
    pub(crate) fn send(self, each: impl FnMut(u16, &[u8])) -> Result<(), Errno> {
        // Protocol 0 is NETLINK_ROUTE.
        self.send_to(None, each)
    }

    /// The same to another subsystem of the kernel.
    pub(crate) fn send_to(
        self,
        subsystem: Option<Protocol>,
        mut each: impl FnMut(u16, &[u8]),
    ) -> Result<(), Errno> {
        self.exchange(subsystem, |kind, _, body| each(kind, body))
    }

    /// The same to rtnetlink for a dump; whether what is dumped changed meanwhile, so that the
    /// parts may not fit together.
    pub(crate) fn dump(self, each: impl FnMut(u16, &[u8])) -> Result<bool, Errno> {
        self.dump_from(None, each)
    }

    /// The same to another subsystem of the kernel.
    pub(crate) fn dump_from(
        self,
        subsystem: Option<Protocol>,
        mut each: impl FnMut(u16, &[u8]),
    ) -> Result<bool, Errno> {
        let mut was_changed = false;
        self.exchange(subsystem, |kind, flags, body| {
            was_changed |= flags & NLM_F_DUMP_INTR != 0;
            each(kind, body);
        })?;
        Ok(was_changed)
    }

    /// The same for a dump that goes no further once it has taken `at_most` of a processor. False:
    /// there was more.
    pub(crate) fn dump_within(
        self,
        subsystem: Option<Protocol>,
        at_most: Nanos,
        mut each: impl FnMut(u16, &[u8]),
    ) -> Result<bool, Errno> {
        self.exchange_within(subsystem, Some(at_most), |kind, _, body| each(kind, body))
    }

    fn exchange(
        self,
        subsystem: Option<Protocol>,
        each: impl FnMut(u16, u16, &[u8]),
    ) -> Result<(), Errno> {
        self.exchange_within(subsystem, None, each).map(|_| ())
    }

    /// Whether the answer was complete: once it has taken `at_most` of a processor no more of it is
    /// asked for, and the kernel goes no further.
    fn exchange_within(
        mut self,
        subsystem: Option<Protocol>,
        at_most: Option<Nanos>,
        mut each: impl FnMut(u16, u16, &[u8]),
    ) -> Result<bool, Errno> {
        let until = at_most.map(|at_most| clock::of_thread() + at_most);
        let len = u32::try_from(self.bytes.len()).expect("requests are short");
        self.bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            subsystem,
        )?;
        rustix::net::send(&socket, &self.bytes, SendFlags::empty())?;
        // The kernel cuts dumps into messages of at most 32 KiB.
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            let (received, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
            if received == 0 || read_messages(&buffer[..received], &mut each)? {
                return Ok(true);
            }
            if until.is_some_and(|until| clock::of_thread() >= until) {
                return Ok(false);
            }
        }
    }
}

/// Passes type, flags and body of messages on; whether the answer is complete.
fn read_messages(mut bytes: &[u8], each: &mut impl FnMut(u16, u16, &[u8])) -> Result<bool, Errno> {
    let mut complete = false;
    while bytes.len() >= HEADER_BYTES {
        let len = u32_at(bytes, 0) as usize;
        if len < HEADER_BYTES || len > bytes.len() {
            return Err(Errno::BADMSG);
        }
        let body = &bytes[HEADER_BYTES..len];
        match u16_at(bytes, 4) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR if body.len() >= 4 => {
                // Zero is the acknowledgement; else a negative errno.
                let code = u32_at(body, 0) as i32;
                return if code == 0 {
                    Ok(true)
                } else {
                    Err(Errno::from_raw_os_error(code.saturating_neg()))
                };
            }
            kind => {
                let flags = u16_at(bytes, 6);
                each(kind, flags, body);
                complete = flags & NLM_F_MULTI == 0;
            }
        }
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(complete)
}

/// The attributes in `bytes`, as (type, value); stops at the first that is cut short.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        if bytes.len() < 4 {
            return None;
        }
        let len = usize::from(u16_at(bytes, 0));
        // The two top bits say "nested" and "network order".
        let kind = u16_at(bytes, 2) & 0x3fff;
        let value = bytes.get(4..len)?;
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
        Some((kind, value))
    })
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let request = Request::new(1, 0, &[]).attribute(3, b"abc").attribute(7, &[9; 4]);
        let read: Vec<_> = attributes(&request.bytes[HEADER_BYTES..]).collect();
        assert_eq!(read, [(3, &b"abc"[..]), (7, &[9u8; 4][..])]);
    }

    #[test]
    fn an_attribute_that_claims_more_than_there_is_ends_the_list() {
        assert_eq!(attributes(&[200, 0, 1, 0, 5, 6]).count(), 0);
        assert_eq!(attributes(&[0, 0, 1, 0, 5, 6]).count(), 0, "shorter than its own header");
    }

    #[test]
    fn a_message_that_lies_about_its_length_is_an_error() {
        let mut message = [0u8; 16];
        for length in [0u32, 15, 17, u32::MAX] {
            message[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(read_messages(&message, &mut |_, _, _| {}), Err(Errno::BADMSG), "{length}");
        }
    }

    #[test]
    fn an_error_reply_becomes_its_errno_and_a_zero_is_success() {
        let mut message = [0u8; 20];
        message[0..4].copy_from_slice(&20u32.to_ne_bytes());
        message[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert_eq!(read_messages(&message, &mut |_, _, _| {}), Ok(true));
        message[16..20].copy_from_slice(&(-19i32).to_ne_bytes());
        assert_eq!(read_messages(&message, &mut |_, _, _| {}), Err(Errno::NODEV));
    }
}
