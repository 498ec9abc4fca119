//! Every socket option of Linux that a TCP or UDP socket takes, and what becomes of it on a socket
//! that is ours, or is to be. None is swallowed: what is not in the table is of a kernel that is
//! younger than the table, and is [`Treatment::Falls`].
//!
//! `docs/reference/options.md` is this table: `REFERENCE=write cargo test -p preload option_table`
//! writes it anew.

use libc::c_int;

mod internet;
mod internet6;
#[cfg(test)]
mod page;
mod row;
mod socket_level;
mod transport;

use row::Row;
pub(super) use row::Treatment;
use row::Treatment::{Early, Falls};

/// The options of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) number: c_int,
    #[cfg(test)]
    pub(super) name: &'static str,
    pub(super) rows: &'static [Row],
}

const fn level(number: c_int, _name: &'static str, rows: &'static [Row]) -> Level {
    Level {
        number,
        #[cfg(test)]
        name: _name,
        rows,
    }
}

/// All of them.
pub(super) const LEVELS: [Level; 5] = [
    level(libc::SOL_SOCKET, "SOL_SOCKET", socket_level::ROWS),
    level(libc::IPPROTO_IP, "IPPROTO_IP", internet::ROWS),
    level(libc::IPPROTO_IPV6, "IPPROTO_IPV6", internet6::ROWS),
    level(libc::IPPROTO_TCP, "IPPROTO_TCP", transport::TCP),
    level(libc::IPPROTO_UDP, "IPPROTO_UDP", transport::UDP),
];

/// What becomes of an option on a TCP socket, or a UDP one.
pub(super) fn treatment(level: c_int, name: c_int, is_stream: bool) -> Treatment {
    let rows = LEVELS.iter().find(|known| known.number == level).map_or(&[][..], |it| it.rows);
    match rows.iter().find(|row| row.number == name) {
        Some(row) if is_stream => row.stream,
        Some(row) => row.datagram,
        None => Falls,
    }
}

/// Whether an option never makes a socket the kernel's, of whatever kind it is and whatever its
/// value.
pub(super) fn stays_with_us(level: c_int, name: c_int) -> bool {
    let is_chosen =
        level == libc::IPPROTO_TCP && matches!(name, libc::TCP_CONGESTION | libc::TCP_MAXSEG);
    let stays = |is_stream| !matches!(treatment(level, name, is_stream), Falls | Early);
    !is_chosen && stays(true) && stays(false)
}

/// Whether a value says what sockets of ours do anyhow.
pub(super) fn is_usual(level: c_int, name: c_int, value: c_int) -> bool {
    match (level, name) {
        // Ours are never fragmented on their way, and what is too long for the interface is the
        // kernel's to cut or to refuse.
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
        | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER) => {
            matches!(value, libc::IP_PMTUDISC_WANT | libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE)
        }
        (libc::SOL_SOCKET, libc::SO_PEEK_OFF | libc::SO_MAX_PACING_RATE) => matches!(value, -1 | 0),
        _ => value == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::Treatment::{Carried, Kernel, Refused, Told};
    use super::*;

    #[test]
    fn every_option_stands_once_and_in_order() {
        for level in LEVELS {
            let numbers: Vec<c_int> = level.rows.iter().map(|row| row.number).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{}: {numbers:?}", level.name);
        }
    }

    #[test]
    fn what_is_not_in_the_table_leaves_the_socket_to_the_kernel() {
        assert_eq!(treatment(libc::SOL_SOCKET, 999, true), Falls);
        assert_eq!(treatment(999, 1, false), Falls);
        assert_eq!(treatment(libc::IPPROTO_TCP, libc::TCP_NODELAY, true), Carried);
        assert_eq!(treatment(libc::IPPROTO_IP, libc::IP_PKTINFO, true), Kernel);
    }

    #[test]
    fn the_data_planes_own_numbers_are_not_left_to_anybody_else() {
        use crate::calls::inherit::NUMBERS;
        for &(level, name, _) in NUMBERS {
            let stream = treatment(level, name, true);
            assert!(matches!(stream, Carried | Told | Early), "{level} {name}: {stream:?}");
        }
    }

    #[test]
    fn a_value_that_is_the_default_changes_nothing() {
        assert!(is_usual(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO));
        assert!(!is_usual(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT));
        assert!(!is_usual(libc::SOL_SOCKET, libc::SO_MARK, 1));
    }

    #[test]
    fn a_refusal_is_for_what_programs_do_without() {
        assert_eq!(treatment(libc::IPPROTO_TCP, libc::TCP_ULP, true), Refused);
        assert_eq!(treatment(libc::SOL_SOCKET, libc::SO_ZEROCOPY, false), Refused);
    }

    #[test]
    fn what_is_taken_without_effect_asks_for_speed_or_is_of_the_kernels_queues() {
        let told = |level: &Level| -> Vec<&str> {
            let rows = level.rows.iter();
            let told = rows.filter(|row| [row.stream, row.datagram].contains(&Told));
            told.map(|row| row.name).collect()
        };
        let told: Vec<&str> = LEVELS.iter().flat_map(told).collect();
        let speed = ["SO_BUSY_POLL", "SO_PREFER_BUSY_POLL", "SO_BUSY_POLL_BUDGET"];
        let memory = ["SO_SNDBUF", "SO_RCVBUF", "SO_SNDBUFFORCE", "SO_RCVBUFFORCE"];
        let more_memory = ["SO_BUF_LOCK", "SO_RESERVE_MEM"];
        let places = ["SO_INCOMING_CPU", "SO_TXREHASH", "IPV6_AUTOFLOWLABEL", "SO_PRIORITY"];
        let fast_open = ["TCP_FASTOPEN", "TCP_FASTOPEN_KEY", "TCP_THIN_DUPACK"];
        let known = [&speed[..], &memory, &more_memory, &places, &fast_open].concat();
        for name in told {
            assert!(known.contains(&name), "{name} is taken without effect");
        }
    }
}
