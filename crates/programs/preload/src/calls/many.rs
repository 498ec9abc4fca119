//! recvmmsg(2) and sendmmsg(2): many messages by one call.

use libc::{c_int, c_uint, mmsghdr, timespec};
use rustix::io::Errno;

use crate::calls::served::Served;
use crate::calls::spans::Spans;
use crate::calls::{datagram, message};
use crate::process::lookup;
use crate::system::{copy, outcome, real};
use crate::wait::deadline::Deadline;

/// Messages of one call, at most, as the kernel cuts them.
const MESSAGES_MAX: c_uint = libc::UIO_MAXIOV as c_uint;

/// recvmmsg(2). The time limit is looked at after each message, as Linux does.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if lookup::socket(fd).is_none() {
        // SAFETY: the caller's arguments.
        let result = unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
        for index in 0..usize::try_from(result).unwrap_or(0) {
            // SAFETY: the kernel has filled that many.
            unsafe { message::note_received(&raw const (*messages.add(index)).msg_hdr) };
        }
        return result;
    }
    // SAFETY: the caller's promise.
    let deadline = match unsafe { Deadline::after_timespec(timeout) } {
        Ok(deadline) => deadline,
        Err(errno) => return outcome::failed(errno),
    };
    // Before anything that could be read, as in `__sys_recvmmsg` of Linux.
    let error = lookup::socket(fd).filter(|_| flags & libc::MSG_ERRQUEUE == 0).and_then(|held| {
        let file = held.file()?;
        file.socket.take_error().or_else(|| datagram::kernel_error(fd, file))
    });
    if let Some(error) = error {
        return outcome::failed(error);
    }
    let mut flags = flags;
    let mut done = 0;
    while done < count.min(MESSAGES_MAX) as usize {
        let own = flags & !libc::MSG_WAITFORONE;
        // SAFETY: the caller's promise: there are that many.
        let result = unsafe {
            let place = messages.add(done);
            let header = &raw mut (*place).msg_hdr;
            let received = match message::receive_ours(fd, header, own, done > 0) {
                Served::Done(received) => received,
                Served::Elsewhere => outcome::of_bytes(real::recvmsg(fd, header, own)),
            };
            received.and_then(|bytes| copy::put(&raw mut (*place).msg_len, &(bytes as c_uint)))
        };
        match result {
            Ok(()) => done += 1,
            Err(errno) if done > 0 => {
                leave_error(fd, errno);
                break;
            }
            Err(errno) => return outcome::failed(errno),
        }
        if flags & libc::MSG_WAITFORONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
        if !timeout.is_null() && deadline.is_over() {
            break;
        }
        // Urgent data comes alone.
        // SAFETY: the caller's promise: there are that many.
        let told = unsafe { copy::get(&raw const (*messages.add(done - 1)).msg_hdr.msg_flags) };
        if told.is_ok_and(|told| told & libc::MSG_OOB != 0) {
            break;
        }
    }
    if done > 0
        && let Some(left) = deadline.timespec_left()
        && !timeout.is_null()
        // SAFETY: the caller's promise.
        && let Err(errno) = unsafe { copy::put(timeout, &left) }
    {
        return outcome::failed(errno);
    }
    done as c_int
}

/// What ended a call behind its first message is told by the next one, as `do_recvmmsg` of Linux
/// has it, and by SO_ERROR.
fn leave_error(fd: c_int, errno: Errno) {
    // These are of the call, and not of the socket.
    if matches!(errno, Errno::AGAIN | Errno::INTR | Errno::BADF) {
        return;
    }
    if let Some(held) = lookup::socket(fd)
        && let Some(file) = held.file()
    {
        file.socket.leave_error(errno);
    }
}

/// sendmmsg(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if count > 0 {
        // SAFETY: the caller's promise: there is one.
        let first =
            unsafe { message::note_first(fd, messages.cast::<libc::msghdr>().cast_const()) };
        if let Err(errno) = first {
            return outcome::failed(errno);
        }
    }
    if lookup::socket(fd).is_none() {
        for index in 0..count.min(MESSAGES_MAX) as usize {
            // SAFETY: the caller's promise: there are that many.
            unsafe { message::note_sent(&raw const (*messages.add(index)).msg_hdr) };
        }
        // SAFETY: the caller's arguments.
        return unsafe { real::sendmmsg(fd, messages, count, flags) };
    }
    let mut done = 0;
    while done < count.min(MESSAGES_MAX) as usize {
        // SAFETY: the caller's promise: there are that many.
        let result = unsafe {
            let place = messages.add(done);
            let sent = match message::send_ours(fd, &raw const (*place).msg_hdr, flags) {
                Served::Done(sent) => sent,
                // To where only the kernel's half leads: loopback, many.
                Served::Elsewhere => {
                    outcome::of_bytes(real::sendmsg(fd, &raw const (*place).msg_hdr, flags))
                }
            };
            let is_cut = sent.is_ok_and(|bytes| is_cut(&raw const (*place).msg_hdr, bytes));
            sent.and_then(|bytes| copy::put(&raw mut (*place).msg_len, &(bytes as c_uint)))
                .map(|()| is_cut)
        };
        match result {
            Ok(false) => done += 1,
            Ok(true) => {
                // What follows would stand in the middle of it (`__sys_sendmmsg` of Linux).
                done += 1;
                break;
            }
            Err(_) if done > 0 => break,
            Err(errno) => return outcome::failed(errno),
        }
    }
    done as c_int
}

/// Whether only a part of a message was sent.
///
/// # Safety
/// Reading the message is the program's wish.
unsafe fn is_cut(message: *const libc::msghdr, sent: usize) -> bool {
    // SAFETY: the caller's promise; any bits are a message's header.
    let Ok(header) = (unsafe { copy::get(message) }) else { return false };
    // SAFETY: the caller's promise.
    let spans = unsafe { Spans::of_message(header.msg_iov, header.msg_iovlen) };
    spans.is_ok_and(|spans| sent < spans.whole())
}
