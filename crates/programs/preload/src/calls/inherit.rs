//! Options that a socket has when it becomes ours: from the kernel's socket, or from its listener.

use std::sync::OnceLock;

use calisto_client::sockets::SocketOption;
use libc::{c_int, c_void, linger, socklen_t, timeval};
use rustix::io::Errno;

use crate::calls::beside;
use crate::entry::file::{File, IN_MILLISECONDS, time_limit};
use crate::system::{copy, kernel_socket, real};

/// Options that are one number, and where the data plane keeps them.
pub(crate) const NUMBERS: &[(c_int, c_int, SocketOption)] = &[
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, SocketOption::NoDelay),
    (libc::IPPROTO_TCP, libc::TCP_CORK, SocketOption::Cork),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, SocketOption::KeepAlive),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, SocketOption::KeepIdle),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, SocketOption::KeepInterval),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, SocketOption::KeepCount),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, SocketOption::UserTimeout),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG, SocketOption::MaxSegment),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, SocketOption::SynCount),
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, SocketOption::DeferAccept),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, SocketOption::NotSentLow),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, SocketOption::ReceiveLow),
    (libc::SOL_SOCKET, libc::SO_SNDBUF, SocketOption::SendBuffer),
    (libc::SOL_SOCKET, libc::SO_RCVBUF, SocketOption::ReceiveBuffer),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, SocketOption::UrgentInline),
    (libc::SOL_SOCKET, libc::SO_BUSY_POLL, SocketOption::BusyPoll),
    (libc::IPPROTO_IP, libc::IP_TOS, SocketOption::TypeOfService),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, SocketOption::TrafficClass),
    (libc::IPPROTO_IP, libc::IP_TTL, SocketOption::TimeToLive),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, SocketOption::HopLimit),
];

/// TCP_INQ of linux/tcp.h, which is the kind of the part beside a message as well.
pub(crate) const TCP_INQ: c_int = 36;

/// Those that every accepted connection has from its listener. What its calls wait for is its own.
const FROM_LISTENER: &[SocketOption] = &[
    SocketOption::NoDelay,
    SocketOption::Cork,
    SocketOption::KeepAlive,
    SocketOption::KeepIdle,
    SocketOption::KeepInterval,
    SocketOption::KeepCount,
    SocketOption::UserTimeout,
    SocketOption::Linger,
    SocketOption::Congestion,
    SocketOption::MaxSegment,
    SocketOption::NotSentLow,
    SocketOption::ReceiveLow,
    SocketOption::TypeOfService,
    SocketOption::TimeToLive,
    SocketOption::TrafficClass,
    SocketOption::HopLimit,
    SocketOption::SynCount,
    SocketOption::DeferAccept,
    SocketOption::SendBuffer,
    SocketOption::ReceiveBuffer,
    SocketOption::ReceiveTimeout,
    SocketOption::SendTimeout,
    SocketOption::UrgentInline,
    SocketOption::PacingRate,
    SocketOption::BusyPoll,
];

/// Those of an accepted connection that its kernel's socket has not heard of, and that matter once
/// the connection is the kernel's. What was set on the connection itself was set there too.
/// How large its buffers are is what the hand-over needs.
const TO_KERNEL: &[SocketOption] = &[
    SocketOption::NoDelay,
    SocketOption::Cork,
    SocketOption::KeepAlive,
    SocketOption::KeepIdle,
    SocketOption::KeepInterval,
    SocketOption::KeepCount,
    SocketOption::UserTimeout,
    SocketOption::NotSentLow,
    SocketOption::ReceiveLow,
    SocketOption::UrgentInline,
    SocketOption::BusyPoll,
    SocketOption::TypeOfService,
    SocketOption::TrafficClass,
    SocketOption::TimeToLive,
    SocketOption::HopLimit,
];

/// A connection was given to the kernel: its socket has what its listener had.
pub(crate) fn to_kernel(fd: c_int, file: &File) {
    for &(level, name, option) in NUMBERS {
        let value = file.socket.option(option);
        if value == 0 || !TO_KERNEL.contains(&option) {
            continue;
        }
        set(fd, level, name, &value.cast_signed());
    }
    set_time_limits(fd, file);
    if let Some(seconds) = file.socket.option(SocketOption::Linger).checked_sub(1) {
        let value = linger { l_onoff: 1, l_linger: seconds.cast_signed() };
        set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &value);
    }
    let rate = file.socket.option(SocketOption::PacingRate);
    if rate != 0 {
        set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate);
    }
    let number = file.socket.option(SocketOption::Congestion) as usize;
    if let Some(name) = number.checked_sub(1).and_then(|at| CONGESTION.get(at)) {
        // What this kernel does not have it goes on without.
        let mut value = [0_u8; 16];
        value[..name.len()].copy_from_slice(name);
        set(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &value);
    }
}

fn set_time_limits(fd: c_int, from: &File) {
    for (name, option) in [
        (libc::SO_RCVTIMEO, SocketOption::ReceiveTimeout),
        (libc::SO_SNDTIMEO, SocketOption::SendTimeout),
    ] {
        if let Some(limit) = time_limit(from.socket.option(option)) {
            let (seconds, rest) = (limit.as_secs().cast_signed(), limit.subsec_micros());
            let limit = timeval { tv_sec: seconds, tv_usec: rest.into() };
            set(fd, libc::SOL_SOCKET, name, &limit);
        }
    }
}

/// Sets an option of a plain type of C. What the kernel refuses it has refused before.
fn set<T: Copy>(fd: c_int, level: c_int, name: c_int, value: &T) {
    let bytes = size_of::<T>() as socklen_t;
    // SAFETY: the value has that many bytes and lives as long as the call.
    unsafe { real::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), bytes) };
}

/// What a new socket of this machine has: only what differs was the program's wish.
struct Defaults {
    numbers: Vec<Option<c_int>>,
}

fn defaults(is_stream: bool) -> &'static Defaults {
    static STREAM: OnceLock<Defaults> = OnceLock::new();
    static DATAGRAM: OnceLock<Defaults> = OnceLock::new();
    let (place, kind) = match is_stream {
        true => (&STREAM, libc::SOCK_STREAM),
        false => (&DATAGRAM, libc::SOCK_DGRAM),
    };
    place.get_or_init(|| {
        // One of IPv6 has the options of both.
        // SAFETY: plain numbers.
        let mut fd = unsafe { real::socket(libc::AF_INET6, kind | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            // SAFETY: plain numbers.
            fd = unsafe { real::socket(libc::AF_INET, kind | libc::SOCK_CLOEXEC, 0) };
        }
        let value = |&(level, name, _): &(c_int, c_int, _)| kernel_socket::number(fd, level, name);
        let numbers = NUMBERS.iter().map(value).collect();
        // SAFETY: it is ours, or no descriptor.
        unsafe { real::close(fd) };
        Defaults { numbers }
    })
}

/// Takes over what the program has set on the kernel's socket.
pub(crate) fn from_kernel(fd: c_int, file: &File) {
    let is_stream = file.kind != crate::entry::file::Kind::Datagram;
    let defaults = defaults(is_stream);
    for (&(level, name, option), default) in NUMBERS.iter().zip(&defaults.numbers) {
        let value = kernel_socket::number(fd, level, name);
        if let Some(value) = value.filter(|_| value != *default) {
            file.socket.set_option(option, value as u32);
        }
    }
    if !is_stream {
        beside::follow(fd, file);
    }
    if is_stream && kernel_socket::number(fd, libc::IPPROTO_TCP, TCP_INQ) == Some(1) {
        file.set_tells_unread(true);
    }
    if is_stream && kernel_socket::number(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK) == Some(0) {
        quick_ack(file, false);
    }
    let mut lingers = linger { l_onoff: 0, l_linger: 0 };
    if kernel_socket::fill(fd, libc::SOL_SOCKET, libc::SO_LINGER, &mut lingers)
        && lingers.l_onoff != 0
    {
        file.socket.set_option(SocketOption::Linger, linger_value(lingers));
    }
    for (name, option) in [
        (libc::SO_RCVTIMEO, SocketOption::ReceiveTimeout),
        (libc::SO_SNDTIMEO, SocketOption::SendTimeout),
    ] {
        let mut timeout = timeval { tv_sec: 0, tv_usec: 0 };
        if kernel_socket::fill(fd, libc::SOL_SOCKET, name, &mut timeout)
            && timeout_value(timeout) != 0
        {
            file.socket.set_option(option, timeout_value(timeout));
        }
    }
    let mut name = [0_u8; 16];
    if kernel_socket::fill(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)
        && let Some(value) = congestion_value(&name)
        && is_chosen_congestion(&name)
    {
        file.socket.set_option(SocketOption::Congestion, value);
    }
}

/// TCP_QUICKACK: it counts each time that it is said.
pub(crate) fn quick_ack(file: &File, on: bool) {
    let said = file.socket.option(SocketOption::QuickAck) >> 1;
    file.socket.set_option(SocketOption::QuickAck, said.wrapping_add(1) << 1 | u32::from(on));
}

/// Whether a congestion control is another one than every new socket of this machine has.
fn is_chosen_congestion(name: &[u8; 16]) -> bool {
    static DEFAULT: OnceLock<Vec<u8>> = OnceLock::new();
    let default = DEFAULT.get_or_init(|| {
        let path = "/proc/sys/net/ipv4/tcp_congestion_control";
        std::fs::read(path).map(|text| text.trim_ascii().to_vec()).unwrap_or_default()
    });
    text_of(name) != default.as_slice()
}

/// Takes over what an accepted connection has from its listener; `made` is its kernel's socket,
/// which tells some of it.
pub(crate) fn from_listener(listener: &File, accepted: &File, made: c_int) {
    if listener.tells_unread() {
        accepted.set_tells_unread(true);
        set(made, libc::IPPROTO_TCP, TCP_INQ, &1);
    }
    set_time_limits(made, listener);
    for &option in FROM_LISTENER {
        let value = listener.socket.option(option);
        if value != 0 {
            accepted.socket.set_option(option, value);
        }
    }
}

/// SO_LINGER as the data plane counts it: 0 off, else the seconds plus one.
pub(crate) fn linger_value(value: linger) -> u32 {
    if value.l_onoff == 0 { 0 } else { (value.l_linger.max(0) as u32).saturating_add(1) }
}

/// A time limit in microseconds, or with [`IN_MILLISECONDS`] in those; one of more than 24 days is
/// none. A negative one is over at once (`sock_set_timeout` of Linux): it is the shortest here.
pub(crate) fn timeout_value(value: timeval) -> u32 {
    if value.tv_sec < 0 {
        return 1;
    }
    let seconds = u64::try_from(value.tv_sec).unwrap_or(0);
    let microseconds = u64::try_from(value.tv_usec).unwrap_or(0);
    let whole = seconds.saturating_mul(1_000_000).saturating_add(microseconds);
    match whole {
        0..IN_MILLISECONDS_U64 => whole as u32,
        _ => match whole / 1000 {
            count @ 0..IN_MILLISECONDS_U64 => count as u32 | IN_MILLISECONDS,
            _ => 0,
        },
    }
}

const IN_MILLISECONDS_U64: u64 = IN_MILLISECONDS as u64;

/// The name of a congestion control as the program gives it.
///
/// # Errors
/// EFAULT.
///
/// # Safety
/// Reading `bytes` there is the program's wish.
pub(crate) unsafe fn congestion_name(
    value: *const c_void,
    bytes: socklen_t,
) -> Result<[u8; 16], Errno> {
    let mut text = [0_u8; 16];
    let room = (bytes as usize).min(text.len() - 1);
    // SAFETY: that many bytes are there, and there is room for them.
    unsafe { copy::copy(text.as_mut_ptr(), value.cast(), room)? };
    Ok(text)
}

/// The number of a congestion control that the data plane has.
pub(crate) fn congestion_value(name: &[u8]) -> Option<u32> {
    let number = CONGESTION.iter().position(|known| *known == text_of(name))?;
    Some(number as u32 + 1)
}

/// The congestion controls, from number one on.
pub(crate) const CONGESTION: [&[u8]; 4] = [b"reno", b"cubic", b"dctcp", b"timely"];

fn text_of(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|&byte| byte == 0);
    end.map_or(name, |end| &name[..end])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lingering_for_no_time_is_told_from_not_lingering() {
        assert_eq!(linger_value(linger { l_onoff: 0, l_linger: 9 }), 0);
        assert_eq!(linger_value(linger { l_onoff: 1, l_linger: 0 }), 1);
        assert_eq!(linger_value(linger { l_onoff: 1, l_linger: 9 }), 10);
    }

    #[test]
    fn a_time_limit_of_hours_is_counted_and_one_of_months_is_none() {
        let counted = |tv_sec| time_limit(timeout_value(timeval { tv_sec, tv_usec: 5 }));
        assert_eq!(counted(2), Some(Duration::from_micros(2_000_005)));
        assert_eq!(counted(86_400), Some(Duration::from_secs(86_400)));
        assert_eq!(counted(100 * 86_400), None);
    }

    #[test]
    fn a_negative_time_limit_is_over_at_once() {
        assert_eq!(timeout_value(timeval { tv_sec: -1, tv_usec: 0 }), 1);
    }

    #[test]
    fn congestion_controls_are_known_by_name() {
        assert_eq!(congestion_value(b"cubic\0\0\0"), Some(2));
        assert_eq!(congestion_value(b"cubi"), None);
        assert_eq!(congestion_value(b"bbr\0"), None);
    }
}
