//! getsockopt(2), setsockopt(2) and ioctl(2): the kernel's socket judges and remembers, ours acts.

use calisto_client::sockets::{Readiness, SocketOption};
use libc::{c_int, c_ulong, c_void, linger, socklen_t, timeval};
use rustix::io::Errno;

use crate::calls::kernel_options::{self, Given};
use crate::calls::{alarm, beside, inherit, tcp_info};
use crate::entry::Held;
use crate::entry::file::{File, Kind};
use crate::process::lookup;
use crate::system::{address, copy, faults, kernel_socket, outcome, real};

/// setsockopt(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    bytes: socklen_t,
) -> c_int {
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ZEROCOPY)
        && kernel_socket::kind_of(fd).is_some()
    {
        // As a kernel says that cannot, of every socket that may become ours: a program goes on
        // without it then, and does not wait for news of its buffers. It has lost nothing: our
        // bytes are copied once, and those of the kernel's sockets, which are left on loopback,
        // were always copied.
        return outcome::failed(Errno::OPNOTSUPP);
    }
    let held = lookup::socket(fd);
    let given = Given { level, name, value, bytes };
    faults::watch();
    let kind = held.as_ref().and_then(Held::file).map(|file| file.kind);
    let is_tcp = matches!(kind, Some(Kind::Stream | Kind::Listener));
    if is_tcp && (level, name) == (libc::IPPROTO_TCP, libc::TCP_ULP) {
        // As a kernel says that does not have the protocol: programs do without it then.
        return outcome::failed(Errno::NOENT);
    }
    if kind == Some(Kind::Stream) {
        // SAFETY: the caller's promise.
        let allowed = outcome::unheard(|| unsafe { kernel_options::on_connection(given) });
        if let Err(errno) = allowed {
            return outcome::failed(errno);
        }
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { real::setsockopt(fd, level, name, value, bytes) };
    let Some(held) = held else {
        if result == 0 {
            // SAFETY: the caller's promise.
            outcome::unheard(|| unsafe { kernel_options::note(fd, given) });
        }
        return result;
    };
    if result == 0
        && let Some(kind @ (Kind::Listener | Kind::Datagram)) = kind
        // SAFETY: the caller's promise.
        && outcome::unheard(|| unsafe { kernel_options::on_halves(fd, &held, kind, given) })
    {
        return result;
    }
    if let Some(file) = held.file()
        && (result == 0 || is_refused_unconnected(level, name))
    {
        faults::watch();
        // SAFETY: the caller's promise.
        return match unsafe { follow(file, fd, level, name, value, bytes) } {
            Ok(true) => 0,
            Ok(false) => result,
            Err(errno) => outcome::failed(errno),
        };
    }
    result
}

/// What the kernel refuses only because its socket is not connected.
fn is_refused_unconnected(level: c_int, name: c_int) -> bool {
    level == libc::IPPROTO_TCP && name == libc::TCP_CONGESTION
}

/// SO_PEERNAME of asm-generic/socket.h.
const PEERNAME: c_int = 28;

/// SO_RCVTIMEO_NEW and SO_SNDTIMEO_NEW of asm-generic/socket.h: the same, with 64 bits everywhere.
const RCVTIMEO_NEW: c_int = 66;
const SNDTIMEO_NEW: c_int = 67;

/// Has ours follow; whether it knows the option.
unsafe fn follow(
    file: &File,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    bytes: socklen_t,
) -> Result<bool, Errno> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) if bytes as usize >= size_of::<linger>() => {
            // SAFETY: that many bytes are there; any bits are such a value.
            let value = unsafe { copy::get(value.cast::<linger>())? };
            file.socket.set_option(SocketOption::Linger, inherit::linger_value(value));
        }
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | RCVTIMEO_NEW | SNDTIMEO_NEW)
            if bytes as usize >= size_of::<timeval>() =>
        {
            // SAFETY: that many bytes are there; any bits are such a value.
            let value = unsafe { copy::get(value.cast::<timeval>())? };
            let option = match name {
                libc::SO_RCVTIMEO | RCVTIMEO_NEW => SocketOption::ReceiveTimeout,
                _ => SocketOption::SendTimeout,
            };
            file.socket.set_option(option, inherit::timeout_value(value));
        }
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            // SAFETY: the caller's promise.
            let text = unsafe { inherit::congestion_name(value, bytes)? };
            let Some(number) = inherit::congestion_value(&text) else { return Ok(false) };
            file.socket.set_option(SocketOption::Congestion, number);
        }
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => {
            // A rate that takes more than 32 bits is none: it is beyond what a connection does.
            let rate = kernel_socket::number(fd, level, name).map_or(0, c_int::cast_unsigned);
            let rate = if rate == u32::MAX { 0 } else { rate };
            file.socket.set_option(SocketOption::PacingRate, rate);
        }
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => {
            let on = kernel_socket::number(fd, level, name).unwrap_or(1) != 0;
            inherit::quick_ack(file, on);
        }
        _ if file.kind == Kind::Datagram && beside::is_about_it(level, name) => {
            beside::follow(fd, file);
        }
        (libc::IPPROTO_TCP, inherit::TCP_INQ) => {
            let yes = kernel_socket::number(fd, level, name).unwrap_or(0) != 0;
            file.set_tells_unread(yes);
        }
        _ => {
            // These cannot be read.
            let name = match (level, name) {
                (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE) => libc::SO_SNDBUF,
                (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE) => libc::SO_RCVBUF,
                _ => name,
            };
            let is_it = |&&(l, n, _): &&(c_int, c_int, SocketOption)| (l, n) == (level, name);
            let Some(&(.., option)) = inherit::NUMBERS.iter().find(is_it) else { return Ok(false) };
            // The kernel has doubled, cut or refused it: what it made of it is what holds.
            let number = kernel_socket::number(fd, level, name);
            file.socket.set_option(option, number.unwrap_or(0) as u32);
        }
    }
    Ok(true)
}

/// getsockopt(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    bytes: *mut socklen_t,
) -> c_int {
    if let Some(held) = lookup::socket(fd)
        && let Some(file) = held.file()
    {
        faults::watch();
        if file.kind == Kind::Listener && (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO) {
            let (info, count) = tcp_info::of_listener(fd, &file.socket);
            // SAFETY: the caller's promise.
            return outcome::done(unsafe { put(&info[..count], value, bytes) });
        }
        // SAFETY: the caller's promise.
        if let Some(result) = unsafe { tell(file, level, name, value, bytes) } {
            return outcome::done(result);
        }
    }
    // SAFETY: the caller's arguments.
    unsafe { real::getsockopt(fd, level, name, value, bytes) }
}

/// What ours knows better than the kernel's socket.
unsafe fn tell(
    file: &File,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    bytes: *mut socklen_t,
) -> Option<Result<(), Errno>> {
    let number = match (level, name) {
        (libc::SOL_SOCKET, PEERNAME)
            if file.kind == Kind::Datagram || file.socket.is_connected() =>
        {
            let (name, count) = address::storage(file.socket.peer_address()?, file.family);
            // SAFETY: the caller's promise.
            match unsafe { copy::get(bytes) } {
                // An odd rule of Linux: no more room than the address needs.
                Ok(room) if room as usize > count => return Some(Err(Errno::INVAL)),
                Ok(_) => {}
                Err(errno) => return Some(Err(errno)),
            }
            // SAFETY: it has that many bytes, and was zero before it was written.
            let text = unsafe { std::slice::from_raw_parts((&raw const name).cast(), count) };
            // SAFETY: the caller's promise.
            return Some(unsafe { put(text, value, bytes) });
        }
        (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU)
            if file.socket.peer_address().is_some() =>
        {
            mtu(file, level)?
        }
        // The thread that asks is where its bytes come to.
        (libc::SOL_SOCKET, libc::SO_INCOMING_CPU) if file.kind == Kind::Stream => {
            // SAFETY: it takes nothing.
            unsafe { libc::sched_getcpu() }
        }
        (libc::SOL_SOCKET, libc::SO_ERROR) if file.kind == Kind::Listener => return None,
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            match file.socket.take_error() {
                Some(errno) => errno.raw_os_error(),
                // The kernel's half sends too, and may have one.
                None if file.kind == Kind::Datagram => return None,
                None => 0,
            }
        }
        // The kernel's socket is not connected, and tells what it would begin with.
        (libc::SOL_SOCKET, libc::SO_SNDBUF)
            if file.kind == Kind::Stream && file.socket.option(SocketOption::SendBuffer) == 0 =>
        {
            file.socket.send_buffer_bytes()?.cast_signed()
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if file.kind == Kind::Stream => {
            let asked = file.socket.option(SocketOption::MaxSegment);
            tcp_info::segment_bytes(&file.socket, asked)? as c_int
        }
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => {
            let rate = match file.socket.option(SocketOption::PacingRate) {
                0 => return None,
                rate => rate,
            };
            // SAFETY: the caller's promise.
            let has_room = unsafe { copy::get(bytes) }.is_ok_and(|room| room as usize >= 8);
            let long = u64::from(rate).to_ne_bytes();
            let short = rate.to_ne_bytes();
            // SAFETY: likewise.
            return Some(unsafe { put(if has_room { &long } else { &short }, value, bytes) });
        }
        (libc::IPPROTO_TCP, libc::TCP_INFO) if file.kind == Kind::Stream => {
            let info = tcp_info::of(&file.socket);
            // SAFETY: the caller's promise.
            return Some(unsafe { put(info.as_bytes(), value, bytes) });
        }
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let number = file.socket.option(SocketOption::Congestion);
            let known = inherit::CONGESTION.get((number as usize).checked_sub(1)?)?;
            let mut text = [0_u8; 16];
            text[..known.len()].copy_from_slice(known);
            // SAFETY: the caller's promise.
            return Some(unsafe { put(&text, value, bytes) });
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let seconds = file.socket.option(SocketOption::Linger).checked_sub(1)?;
            let value_of = linger { l_onoff: 1, l_linger: seconds as c_int };
            // SAFETY: two numbers without a gap.
            let text =
                unsafe { std::mem::transmute::<linger, [u8; size_of::<linger>()]>(value_of) };
            // SAFETY: the caller's promise.
            return Some(unsafe { put(&text, value, bytes) });
        }
        _ => {
            let is_it = |&&(l, n, _): &&(c_int, c_int, SocketOption)| (l, n) == (level, name);
            let &(.., option) = inherit::NUMBERS.iter().find(is_it)?;
            // Zero: never set, or set to the default, which the kernel's socket has too.
            match file.socket.option(option) {
                0 => return None,
                value => value as c_int,
            }
        }
    };
    // SAFETY: the caller's promise.
    Some(unsafe { put(&number.to_ne_bytes(), value, bytes) })
}

/// Bytes of the longest packet to the peer.
fn mtu(file: &File, level: c_int) -> Option<c_int> {
    // RFC 791 and 8200, and 768.
    let headers = if level == libc::IPPROTO_IP { 20 + 8 } else { 40 + 8 };
    match file.kind {
        Kind::Stream => Some(tcp_info::path_mtu(&file.socket) as c_int),
        Kind::Datagram => {
            let to = file.socket.peer_address()?.ip();
            c_int::try_from(file.socket.payload_max_to(to) + headers).ok()
        }
        Kind::Listener => None,
    }
}

/// Writes a value, cut to the caller's room, and its length.
unsafe fn put(from: &[u8], to: *mut c_void, bytes: *mut socklen_t) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let room = unsafe { copy::get(bytes)? };
    if c_int::try_from(room).is_err() {
        return Err(Errno::INVAL);
    }
    let count = from.len().min(room as usize);
    // SAFETY: the caller's promise; there are that many bytes.
    unsafe {
        copy::copy(to.cast(), from.as_ptr(), count)?;
        copy::put(bytes, &(count as socklen_t))
    }
}

/// ioctl(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    if let Some(held) = lookup::socket(fd)
        && let Some(file) = held.file()
    {
        faults::watch();
        // SAFETY: the caller's promise.
        if let Some(result) = unsafe { control(file, request, argument) } {
            return outcome::done(result);
        }
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { real::ioctl(fd, request, argument) };
    if alarm::is_request_about_it(request)
        && let Some(held) = lookup::socket(fd)
    {
        outcome::unheard(|| alarm::follow(fd, &held));
    }
    result
}

/// SIOCOUTQNSD of linux/sockios.h.
const NOT_SENT: c_ulong = 0x894B;
/// SIOCATMARK of asm-generic/sockios.h.
const AT_MARK: c_ulong = 0x8905;

unsafe fn control(file: &File, request: c_ulong, argument: usize) -> Option<Result<(), Errno>> {
    let place = std::ptr::with_exposed_provenance_mut::<c_int>(argument);
    let number = match request {
        libc::FIONBIO => {
            // SAFETY: the caller's promise.
            let yes = match unsafe { copy::get(place) } {
                Ok(number) => number != 0,
                Err(errno) => return Some(Err(errno)),
            };
            file.set_nonblocking(yes);
            if file.kind == Kind::Listener {
                return Some(Ok(()));
            }
            return None;
        }
        libc::FIONREAD if file.kind == Kind::Listener => return Some(Err(Errno::INVAL)),
        libc::FIONREAD if file.kind == Kind::Stream => file.socket.unread_bytes(),
        libc::FIONREAD => {
            if !file.readiness().contains(Readiness::IN) {
                // The kernel's half may have one.
                return None;
            }
            file.socket.next_datagram_bytes()
        }
        libc::TIOCOUTQ if file.kind == Kind::Stream => file.socket.unsent_bytes(),
        NOT_SENT if file.kind == Kind::Stream => tcp_info::not_sent(&file.socket),
        AT_MARK if file.kind == Kind::Stream => file.socket.at_mark().into(),
        _ => return None,
    };
    let number = c_int::try_from(number).unwrap_or(c_int::MAX);
    // SAFETY: the caller's promise.
    Some(unsafe { copy::put(place, &number) })
}
