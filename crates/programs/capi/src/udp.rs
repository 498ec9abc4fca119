//! UDP: datagrams.

use std::ffi::{c_char, c_int, c_void};

use calisto_client::sockets::UdpSocket;

use crate::failure::call;
use crate::session::{CalistoSession, address, given, release, store, write_address};
use crate::tcp::{content, limit, room};

/// A UDP socket. Any number of threads may use it.
#[derive(Debug)]
pub struct CalistoUdp {
    socket: UdpSocket,
}

/// Takes datagrams to `at` (such as "0.0.0.0:7"; port 0: one that is free) and stores the socket in
/// `*udp`. Returns 0, or a negative number.
///
/// # Safety
/// `session` is open, `at` ends with a zero, and `udp` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_udp_bind(
    session: *const CalistoSession,
    at: *const c_char,
    udp: *mut *mut CalistoUdp,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let (session, at) = unsafe { (given(session)?, address(at)?) };
        let bind = || Ok(CalistoUdp { socket: UdpSocket::bind(&session.session, at)? });
        // SAFETY: as the caller says.
        unsafe { store(udp, bind) }
    })
}

/// Sends `bytes` bytes from `from` as one datagram to `to` (such as "10.0.0.2:7"). Returns how
/// many, or a negative number.
///
/// # Safety
/// `udp` is open, that many bytes can be read, and `to` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_udp_send(
    udp: *const CalistoUdp,
    from: *const c_void,
    bytes: usize,
    to: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let (udp, from, to) = unsafe { (given(udp)?, content(from, bytes)?, address(to)?) };
        Ok(udp.socket.send_to(from, to)? as c_int)
    })
}

/// Waits for a datagram and takes up to `bytes` bytes of it to `to`; the rest is lost. From whom it
/// came is written as text to `peer`, which has room for `peer_bytes` bytes (64 are enough), or is
/// null. Returns how many bytes were taken, or a negative number.
///
/// # Safety
/// `udp` is open, and that many bytes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_udp_receive(
    udp: *const CalistoUdp,
    to: *mut c_void,
    bytes: usize,
    peer: *mut c_char,
    peer_bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let (udp, to) = unsafe { (given(udp)?, room(to, bytes)?) };
        let (count, from) = udp.socket.recv_from(to)?;
        if !peer.is_null() {
            // SAFETY: as the caller says.
            unsafe { write_address(from, peer, peer_bytes) }?;
        }
        Ok(count as c_int)
    })
}

/// A receive waits for `read_ns` nanoseconds at most (or CALISTO_FOREVER); then it fails with
/// CALISTO_SYSTEM and EAGAIN. Returns 0, or a negative number.
///
/// # Safety
/// `udp` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_udp_set_timeout(udp: *const CalistoUdp, read_ns: u64) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { given(udp) }?.socket.set_read_timeout(limit(read_ns))?;
        Ok(0)
    })
}

/// Writes the address that the socket has, as calisto_tcp_listener_address does.
///
/// # Safety
/// `udp` is open, and that many bytes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_udp_address(
    udp: *const CalistoUdp,
    to: *mut c_char,
    bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let udp = unsafe { given(udp) }?;
        // SAFETY: as the caller says.
        unsafe { write_address(udp.socket.local_addr()?, to, bytes) }
    })
}

/// Closes the socket. No call for it may be under way or follow. Null does nothing.
///
/// # Safety
/// `udp` is open, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_udp_close(udp: *mut CalistoUdp) {
    // SAFETY: as the caller says.
    unsafe { release(udp) };
}
