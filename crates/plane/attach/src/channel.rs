//! One message of a SEQPACKET socket, with its descriptors, and how it can go wrong.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX};

/// Room for the descriptors of a message, at most.
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// Room for as many as the kernel lets a message have (SCM_MAX_FD).
const ALL_CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(253));

/// What a socket had.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Nothing yet.
    Nothing,
    /// A message and the descriptors beside it.
    Message(Vec<u8>, Vec<OwnedFd>),
    /// A message of more bytes than one may have; it is dropped, but for its descriptors.
    TooLong(Vec<OwnedFd>),
    /// A message with more descriptors than one may have, or than this process may open; it is
    /// dropped, but for them.
    TooManyDescriptors(Vec<OwnedFd>),
    /// The other side is gone, or has sent an empty message, which cannot be told apart.
    Closed,
}

/// Whether the descriptors beside a message are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Descriptors {
    /// At most [`DESCRIPTORS_MAX`], or the message is refused.
    Keep,
    /// At most one, or the message is refused; none if this process may open no more. There is room
    /// for all that can come: the kernel closes in our place what it finds no room for, and that
    /// can take long.
    One,
    /// The kernel is given no room for them, so they never become ours.
    Refuse,
}

impl Descriptors {
    /// Bytes of control messages that the kernel may write, and the descriptors that may be there.
    const fn room(self) -> (usize, usize) {
        match self {
            Self::Keep => (CONTROL_BYTES, DESCRIPTORS_MAX),
            Self::One => (ALL_CONTROL_BYTES, 1),
            Self::Refuse => (0, 0),
        }
    }
}

/// Takes the oldest message; never waits. Nothing is allocated unless there is one.
pub(crate) fn receive(socket: BorrowedFd<'_>, descriptors: Descriptors) -> Result<Incoming, Errno> {
    get(socket, descriptors, RecvFlags::empty())
}

/// Looks at the oldest message and leaves it there, [`Descriptors::Keep`]: what comes beside it are
/// copies.
pub(crate) fn look(socket: BorrowedFd<'_>) -> Result<Incoming, Errno> {
    get(socket, Descriptors::Keep, RecvFlags::PEEK)
}

/// The text of the oldest message, which is left there.
pub(crate) fn text_of_oldest(socket: BorrowedFd<'_>) -> Vec<u8> {
    let mut text = vec![0; MESSAGE_BYTES_MAX];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let count = rustix::net::recv(socket, &mut text[..], flags).map_or(0, |(count, _)| count);
    text.truncate(count);
    text
}

/// Drops the oldest message, and what is beside it.
pub(crate) fn drop_oldest(socket: BorrowedFd<'_>) {
    // What cannot be read is found out by who looks next.
    let _ = read(|| rustix::net::recv(socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT));
}

fn get(
    socket: BorrowedFd<'_>,
    descriptors: Descriptors,
    how: RecvFlags,
) -> Result<Incoming, Errno> {
    let len = match read(|| {
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        Ok(rustix::net::recv(socket, &mut [0_u8; 0][..], flags)?.1)
    })? {
        Read::Nothing => return Ok(Incoming::Nothing),
        Read::Closed | Read::Got(0) => return Ok(Incoming::Closed),
        Read::Got(len) => len,
    };
    let mut text = vec![0; len.min(MESSAGE_BYTES_MAX)];
    let mut room = [MaybeUninit::uninit(); ALL_CONTROL_BYTES];
    let (control_bytes, most) = descriptors.room();
    let mut control = RecvAncillaryBuffer::new(&mut room[..control_bytes]);
    let got = read(|| {
        let mut parts = [IoSliceMut::new(&mut text)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT | how;
        rustix::net::recvmsg(socket, &mut parts, &mut control, flags)
    })?;
    let message = match got {
        Read::Nothing => return Ok(Incoming::Nothing),
        Read::Closed => return Ok(Incoming::Closed),
        Read::Got(message) => message,
    };
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = part {
            fds.extend(more);
        }
    }
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Ok(Incoming::TooLong(fds));
    }
    // The room is rounded up, so that one more may have come in whole.
    let are_cut = message.flags.contains(ReturnFlags::CTRUNC);
    let are_too_many = match descriptors {
        Descriptors::Keep => are_cut || fds.len() > most,
        // Cut down to none is what happens when this process may open no more.
        Descriptors::One => fds.len() > most || (are_cut && !fds.is_empty()),
        Descriptors::Refuse => false,
    };
    if are_too_many {
        return Ok(Incoming::TooManyDescriptors(fds));
    }
    text.truncate(message.bytes);
    Ok(Incoming::Message(text, fds))
}

enum Read<T> {
    Nothing,
    Got(T),
    Closed,
}

/// Calls that read, with the errors that are none.
fn read<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<Read<T>, Errno> {
    let mut resets = 0;
    loop {
        match call() {
            Ok(got) => return Ok(Read::Got(got)),
            Err(Errno::AGAIN) => return Ok(Read::Nothing),
            Err(Errno::INTR) => {}
            // The other side closed without reading all that we said. The kernel says this once,
            // before what it has sent to us, which may tell why.
            Err(Errno::CONNRESET) if resets == 0 => resets += 1,
            Err(Errno::CONNRESET) => return Ok(Read::Closed),
            Err(errno) => return Err(errno),
        }
    }
}

/// Sends a message; false when the socket's buffer is full (a blocking socket waits until its
/// timeout first).
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    text: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<bool, Errno> {
    let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    loop {
        let parts = [IoSlice::new(text)];
        match rustix::net::sendmsg(socket, &parts, &mut control, flags | SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(true),
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Whether an error of [`send`] says that the other side is gone.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN)
}
