//! Control messages beside the bytes of a connection.

use libc::{c_int, cmsghdr, msghdr};
use rustix::io::Errno;

use crate::system::copy;

const HEADER: usize = size_of::<cmsghdr>();

/// Those of sockets that may stand there, as far as any Linux knows them (`sock_cmsg_send`).
const KNOWN: [c_int; 6] = [
    libc::SCM_RIGHTS,
    libc::SCM_CREDENTIALS,
    libc::SO_MARK,
    libc::SO_PRIORITY,
    libc::SO_TIMESTAMPING,
    libc::SCM_TXTIME,
];

/// Whether the control messages are such, and of those of sockets only what is known. None changes
/// anything.
///
/// # Errors
/// ENOBUFS: no memory takes them. EFAULT.
///
/// # Safety
/// Reading them is the program's wish.
pub(crate) unsafe fn is_right_on_stream(header: &msghdr) -> Result<bool, Errno> {
    let mut left = header.msg_controllen;
    if left == 0 {
        return Ok(true);
    }
    if c_int::try_from(left).is_err() {
        return Err(Errno::NOBUFS);
    }
    let mut next = header.msg_control.cast::<u8>().cast_const();
    // SAFETY: the caller's promise; any bits are a byte.
    unsafe { copy::get(next.wrapping_add(left - 1))? };
    while left >= HEADER {
        // SAFETY: inside the stretch that the message names; any bits are such a header.
        let part = unsafe { copy::get(next.cast::<cmsghdr>())? };
        let bytes = part.cmsg_len;
        let is_known = part.cmsg_level != libc::SOL_SOCKET || KNOWN.contains(&part.cmsg_type);
        if bytes < HEADER || bytes > left || !is_known {
            return Ok(false);
        }
        let step = bytes.next_multiple_of(size_of::<usize>()).min(left);
        (next, left) = (next.wrapping_add(step), left - step);
    }
    Ok(true)
}
