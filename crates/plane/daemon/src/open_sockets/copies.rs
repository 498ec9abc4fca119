//! Copies of sockets on their way between the two processes: a word each, and a descriptor beside it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::NO_MORE;

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
/// says whether it wants more. A process that has ended or may not be looked at has none.
pub(super) fn copies_of(
    pid: u32,
    mut each: impl FnMut(OwnedFd) -> io::Result<bool>,
) -> io::Result<()> {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Ok(()) };
    let Ok(holder) = pidfd_open(number, PidfdFlags::empty()) else { return Ok(()) };
    let mut seen = BTreeSet::new();
    for entry in entries.flatten() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_socket_comes_with_its_process_and_is_that_socket() {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        );
        let socket = socket.expect("descriptors are left");
        let cookie = |socket: &OwnedFd| sys::socket::cookie_of(socket.as_fd()).expect("a socket");
        let own = std::process::id();
        let (mut ours, theirs) = UnixStream::pair().expect("descriptors are left");
        let question = [
            [super::super::COPIES].as_slice(),
            &1_u64.to_le_bytes(),
            &u64::from(own).to_le_bytes(),
        ];
        let question = question.concat();
        let out = theirs.try_clone().expect("descriptors are left");
        let asked = std::thread::spawn(move || {
            let give = |pid, copy: OwnedFd| send_copy(theirs.as_fd(), pid, copy.as_fd());
            super::super::answer(question.as_slice(), out, give)
        });
        let mut found = false;
        while let Some((pid, copy)) = receive_copy(&mut ours).expect("an answer") {
            found |= pid == own && cookie(&copy) == cookie(&socket);
        }
        asked.join().expect("it does not panic").expect("it is answered");
        assert!(found);
        let mut here = 0;
        super::super::OpenSockets::Here
            .copies(&[own], |_, _| {
                here += 1;
                false
            })
            .expect("it is here");
        assert_eq!(here, 1, "who has enough gets no more");
    }
}
