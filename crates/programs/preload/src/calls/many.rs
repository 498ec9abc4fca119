//! recvmmsg(2) and sendmmsg(2): many messages by one call.

use libc::{c_int, c_uint, mmsghdr, timespec};

use crate::calls::served::Served;
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
    let error = lookup::socket(fd).and_then(|held| {
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
            let received = match message::receive_ours(fd, &raw mut (*place).msg_hdr, own) {
                Served::Done(received) => received,
                Served::Elsewhere => {
                    outcome::of_bytes(real::recvmsg(fd, &raw mut (*place).msg_hdr, own))
                }
            };
            received.and_then(|bytes| copy::put(&raw mut (*place).msg_len, &(bytes as c_uint)))
        };
        match result {
            Ok(()) => done += 1,
            Err(_) if done > 0 => break,
            Err(errno) => return outcome::failed(errno),
        }
        if flags & libc::MSG_WAITFORONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
        if !timeout.is_null() && deadline.is_over() {
            break;
        }
    }
    done as c_int
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
            sent.and_then(|bytes| copy::put(&raw mut (*place).msg_len, &(bytes as c_uint)))
        };
        match result {
            Ok(()) => done += 1,
            Err(_) if done > 0 => break,
            Err(errno) => return outcome::failed(errno),
        }
    }
    done as c_int
}
