//! TCP_INFO as Linux lays it out.

use client::stream::{Readiness, Socket};
use libc::tcp_info;

/// States of TCP as Linux numbers them.
const ESTABLISHED: u8 = 1;
const CLOSE: u8 = 7;

/// What is told.
pub(crate) struct Info(tcp_info);

/// What is known of a connection.
pub(crate) fn of(socket: &Socket) -> Info {
    // SAFETY: numbers only; zero is "nothing known".
    let mut info = unsafe { std::mem::zeroed::<tcp_info>() };
    let is_over = socket.readiness().contains(Readiness::HUP);
    info.tcpi_state = if is_over { CLOSE } else { ESTABLISHED };
    Info(info)
}

/// Bytes that were written and not sent yet.
pub(crate) fn not_sent(socket: &Socket) -> u64 {
    socket.unsent_bytes()
}

impl Info {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        let start = std::ptr::from_ref(&self.0).cast::<u8>();
        // SAFETY: it was zeroed first, so even the gaps are bytes.
        unsafe { std::slice::from_raw_parts(start, size_of::<tcp_info>()) }
    }
}
