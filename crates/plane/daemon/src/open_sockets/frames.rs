//! What goes between the two processes: questions there, frames of answers back, each with the
//! number of its question, so that an answer which comes too late is known for that.
//!
//! Both are whole messages (SOCK_SEQPACKET) of words of eight bytes, and beside one a socket.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Processes of one question for copies, at most.
pub(super) const COPIED_MAX: usize = 1024;

/// Words of one frame, at most.
const WORDS_MAX: usize = COPIED_MAX;

/// Words before those: the number of the question, what it is, and the time for it.
const HEAD: usize = 3;

/// No question may take longer.
pub(super) const WITHIN_MAX: Duration = Duration::from_secs(60);

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The cookies of all open sockets.
    Cookies,
    /// Copies of the sockets of these processes.
    Copies(Vec<u32>),
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) number: u64,
    pub(super) within: Duration,
    pub(super) what: What,
}

impl Question {
    pub(super) fn send(&self, to: BorrowedFd<'_>) -> io::Result<()> {
        let Self { number, within, what } = self;
        let (what, pids) = match what {
            What::Cookies => (0, [].as_slice()),
            What::Copies(pids) => (1, pids.as_slice()),
        };
        let head = [*number, what, within.as_millis() as u64];
        let pids = pids.iter().take(COPIED_MAX).map(|pid| u64::from(*pid));
        send(to, &head.into_iter().chain(pids).collect::<Vec<_>>(), None)
    }

    /// The next one; waits for it. Nothing: nobody asks any more.
    pub(super) fn receive(from: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let Some((words, _)) = receive(from, RecvFlags::empty())? else { return Ok(None) };
        let (head, pids) = words.split_first_chunk::<HEAD>().ok_or(ErrorKind::InvalidData)?;
        let what = match head[1] {
            0 => What::Cookies,
            1 => What::Copies(pids.iter().filter_map(|pid| u32::try_from(*pid).ok()).collect()),
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        let within = Duration::from_millis(head[2]).min(WITHIN_MAX);
        Ok(Some(Self { number: head[0], within, what }))
    }
}

/// A part of an answer.
#[derive(Debug)]
pub(super) enum Part {
    Cookies(Vec<u64>),
    /// Processes that could not be looked at.
    Unseen(Vec<u64>),
    /// A socket of that process.
    Copy(u32, OwnedFd),
    /// The same, and there was no descriptor left for it.
    NoCopy,
    /// That was all.
    End,
    /// That was all, and some sockets are not known.
    NotWhole,
}

impl Part {
    pub(super) fn send(&self, to: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        let pid_word;
        let (kind, words, copy) = match self {
            Self::Cookies(words) => (0, words.as_slice(), None),
            Self::Unseen(words) => (1, words.as_slice(), None),
            Self::Copy(pid, copy) => {
                pid_word = [u64::from(*pid)];
                (2, pid_word.as_slice(), Some(copy.as_fd()))
            }
            Self::NoCopy => (2, [].as_slice(), None),
            Self::End => (3, [].as_slice(), None),
            Self::NotWhole => (4, [].as_slice(), None),
        };
        let words = [number, kind, 0].into_iter().chain(words.iter().copied());
        send(to, &words.collect::<Vec<_>>(), copy)
    }

    /// Many words, in as many parts as they need.
    pub(super) fn send_all(
        part: fn(Vec<u64>) -> Self,
        words: &[u64],
        to: BorrowedFd<'_>,
        number: u64,
    ) -> io::Result<()> {
        words.chunks(WORDS_MAX).try_for_each(|some| part(some.to_vec()).send(to, number))
    }

    /// The next one that is there, with the number of its question.
    ///
    /// # Errors
    /// None is there ([`ErrorKind::WouldBlock`]), or whoever sent them has ended.
    pub(super) fn receive(from: BorrowedFd<'_>) -> io::Result<(u64, Self)> {
        let received = receive(from, RecvFlags::DONTWAIT)?;
        let (words, copy) = received.ok_or(ErrorKind::BrokenPipe)?;
        let (head, words) = words.split_first_chunk::<HEAD>().ok_or(ErrorKind::InvalidData)?;
        let pid = || words.first().and_then(|pid| u32::try_from(*pid).ok());
        let part = match head[1] {
            0 => Self::Cookies(words.to_vec()),
            1 => Self::Unseen(words.to_vec()),
            2 => match (pid(), copy) {
                (Some(pid), Some(copy)) => Self::Copy(pid, copy),
                _ => Self::NoCopy,
            },
            3 => Self::End,
            4 => Self::NotWhole,
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        Ok((head[0], part))
    }
}

fn send(to: BorrowedFd<'_>, words: &[u64], copy: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let copies: Vec<_> = copy.into_iter().collect();
    if !copies.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(&copies)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    loop {
        let parts = [IoSlice::new(&bytes)];
        match rustix::net::sendmsg(to, &parts, &mut beside, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A message's words and what is beside it; nothing: the other end is closed.
fn receive(
    from: BorrowedFd<'_>,
    flags: RecvFlags,
) -> io::Result<Option<(Vec<u64>, Option<OwnedFd>)>> {
    let mut bytes = [0; 8 * (HEAD + WORDS_MAX)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(from, &mut parts, &mut beside, flags) {
            Ok(got) => break got,
            Err(rustix::io::Errno::INTR) => {}
            // It has ended with something of ours unread.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    };
    let copy = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut copies) => copies.next(),
        _ => None,
    });
    if got.bytes == 0 {
        return Ok(None);
    }
    if got.flags.contains(ReturnFlags::TRUNC) {
        return Err(ErrorKind::InvalidData.into());
    }
    let (words, _) = bytes[..got.bytes].as_chunks::<8>();
    Ok(Some((words.iter().map(|word| u64::from_le_bytes(*word)).collect(), copy)))
}
