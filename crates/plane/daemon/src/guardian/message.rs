//! What the daemon tells its guardian: some numbers, and descriptors beside them.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use base::AppId;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Descriptors beside one message, at most.
const DESCRIPTORS_MAX: usize = 4;

/// Numbers of a message, eight bytes each.
const NUMBERS: usize = 4;

/// An interface's name is the longest text.
const BYTES_MAX: usize = 8 * NUMBERS + 64;

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    /// The start is over: `key` is the number of the daemon's process, `app` whether it is
    /// confined, `number` after how many milliseconds of silence it hangs. Beside it: that process,
    /// and the lock of its place.
    Begin = 1,
    /// An application of user `number`. Beside it: its memory, the records of its connections.
    App,
    /// A process of an application. Beside it: the daemon's end of its connection.
    Member,
    /// Poller `number` of an application. Beside it: what wakes it.
    Poller,
    /// An interface. Beside it: the maps of what is ours, of flows and of sockets, and its link.
    Interface,
    /// What is to stay open and no more: a socket of AF_XDP.
    Socket,
    /// What was told by this key is no more.
    Gone,
    /// The daemon ends in order.
    Bye,
    /// To the starter: another guardian is to be started. The answer is the same, beside it the way
    /// to that; nothing beside it: it cannot be.
    Start,
    /// To the starter: the guardian is to be ended.
    Stop,
    /// The daemon's loop goes round.
    Alive,
    /// It ends in order, which may take its time: it does not hang.
    Ending,
}

impl Kind {
    fn of_number(number: u64) -> Option<Self> {
        let all = [
            Self::Begin,
            Self::App,
            Self::Member,
            Self::Poller,
            Self::Interface,
            Self::Socket,
            Self::Gone,
            Self::Bye,
            Self::Start,
            Self::Stop,
            Self::Alive,
            Self::Ending,
        ];
        all.into_iter().find(|kind| *kind as u64 == number)
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// What it is called later, when it is no more.
    pub(super) key: u64,
    pub(super) app: AppId,
    pub(super) number: u64,
    pub(super) text: String,
}

impl Message {
    /// One without any numbers.
    pub(super) const fn of(kind: Kind) -> Self {
        Self { kind, key: 0, app: AppId(0), number: 0, text: String::new() }
    }

    fn bytes(&self) -> Vec<u8> {
        let numbers = [self.kind as u64, self.key, self.app.0.into(), self.number];
        let mut bytes = numbers.map(u64::to_le_bytes).as_flattened().to_vec();
        bytes.extend_from_slice(self.text.as_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, text) = bytes.split_first_chunk::<{ 8 * NUMBERS }>()?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let number = |at: usize| u64::from_le_bytes(numbers[at]);
        Some(Self {
            kind: Kind::of_number(number(0))?,
            key: number(1),
            app: AppId(u16::try_from(number(2)).ok()?),
            number: number(3),
            text: String::from_utf8(text.to_vec()).ok()?,
        })
    }
}

/// Sends a message.
pub(super) fn send(
    to: BorrowedFd<'_>,
    message: &Message,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let bytes = message.bytes();
    loop {
        let parts = [IoSlice::new(&bytes)];
        match rustix::net::sendmsg(to, &parts, &mut beside, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The next message, with what came beside it; waits for it. Nothing: the daemon has ended.
pub(super) fn receive(from: BorrowedFd<'_>) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
    let mut bytes = [0; BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(from, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => break got.bytes,
            Err(rustix::io::Errno::INTR) => {}
            // It has died with something of ours unread, which there never is.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    };
    if got == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for part in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = part {
            descriptors.extend(more);
        }
    }
    let message = Message::of_bytes(&bytes[..got]).ok_or(ErrorKind::InvalidData)?;
    Ok(Some((message, descriptors)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn a_message_comes_whole_with_its_descriptors_and_an_end_is_heard() {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("descriptors are left");
        let message = Message {
            kind: Kind::Interface,
            key: u64::MAX,
            app: AppId(7),
            number: 1 << 40,
            text: "veth0".to_owned(),
        };
        send(here.as_fd(), &message, &[here.as_fd(), there.as_fd()]).expect("it is taken");
        let (heard, descriptors) = receive(there.as_fd()).expect("it is there").expect("it is one");
        assert_eq!((heard, descriptors.len()), (message, 2));
        drop(descriptors);
        drop(here);
        assert!(receive(there.as_fd()).expect("an end is no error").is_none());
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        let numbers = |kind: u64| [kind, 0, 0, 0].map(u64::to_le_bytes).as_flattened().to_vec();
        assert!(Message::of_bytes(&numbers(12)).is_some());
        assert!(Message::of_bytes(&numbers(13)).is_none() && Message::of_bytes(&[1; 31]).is_none());
    }
}
