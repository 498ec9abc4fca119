//! Copies of sockets on their way between the two processes: a word each, and a descriptor beside
//! it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Another question: this byte, milliseconds in which it is to be answered, a count and numbers of
/// processes, each eight bytes. The answer is the number of a process with a copy of a socket of it
/// beside it, again and again, and then [`NO_MORE`].
pub(super) const COPIES: u8 = b'C';
pub(super) const NO_MORE: u64 = u64::MAX;

/// The next copy of an answer; nothing: that was all.
pub(super) fn receive_copy(from: &UnixStream) -> io::Result<Option<(u32, OwnedFd)>> {
    let mut bytes = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let received = rustix::net::recvmsg(from, &mut parts, &mut beside, flags)?;
    if received.bytes != bytes.len() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let copy = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut copies) => copies.next(),
        _ => None,
    });
    match (u64::from_le_bytes(bytes), copy) {
        (NO_MORE, _) => Ok(None),
        (pid, Some(copy)) => {
            Ok(Some((u32::try_from(pid).map_err(|_| ErrorKind::InvalidData)?, copy)))
        }
        (_, None) => Err(ErrorKind::InvalidData.into()),
    }
}

/// Sends a copy of a socket of process `pid`.
pub(super) fn send_copy(to: BorrowedFd<'_>, pid: u32, copy: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let copies = [copy];
    beside.push(SendAncillaryMessage::ScmRights(&copies));
    let bytes = u64::from(pid).to_le_bytes();
    let sent = rustix::net::sendmsg(to, &[IoSlice::new(&bytes)], &mut beside, SendFlags::empty())?;
    if sent == bytes.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
}

/// Copies of the TCP sockets of a process that have no connection in the kernel, each once; `each`
/// says whether it wants more. A process that has ended or may not be looked at has none; nobody
/// looks for more after `until`.
pub(super) fn copies_of(
    pid: u32,
    until: Instant,
    mut each: impl FnMut(OwnedFd) -> io::Result<bool>,
) -> io::Result<()> {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Ok(()) };
    let Ok(holder) = pidfd_open(number, PidfdFlags::empty()) else { return Ok(()) };
    let mut seen = BTreeSet::new();
    for entry in entries.flatten().take_while(|_| Instant::now() < until) {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let is_socket = target.as_os_str().as_encoded_bytes().starts_with(b"socket:");
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|_| is_socket && seen.insert(target)) else { continue };
        let Ok(copy) = pidfd_getfd(&holder, number, PidfdGetfdFlags::empty()) else { continue };
        if sys::tcp_repair::can_begin(copy.as_fd()) && !each(copy)? {
            return Ok(());
        }
    }
    Ok(())
}
