//! Asks the daemon for its sockets, some at a time, until all have been told.

use admin::{Command, ReplyBody, SOCKET_ROWS_MAX, SocketRow};

use crate::daemon::Daemon;
use crate::failure::Failure;

/// More sockets than any daemon has: one that tells more does not end.
const ROWS_MAX: usize = 16 << 20;

/// All accelerated sockets, of the application that `daemon` is about, or of all.
pub(crate) fn all(daemon: &Daemon) -> Result<Vec<SocketRow>, Failure> {
    gather(|from| match daemon.ask(Command::Sockets { from, count: SOCKET_ROWS_MAX })? {
        ReplyBody::Sockets { sockets, next } => Ok((sockets, next)),
        other => Err(daemon.unexpected(&other)),
    })
}

fn gather(
    mut page: impl FnMut(u64) -> Result<(Vec<SocketRow>, Option<u64>), Failure>,
) -> Result<Vec<SocketRow>, Failure> {
    let mut all = Vec::new();
    let mut from = 0;
    loop {
        let (rows, next) = page(from)?;
        all.extend(rows);
        match next {
            None => return Ok(all),
            Some(next) if next > from && all.len() < ROWS_MAX => from = next,
            Some(_) => return Err(Failure::new("the daemon's list of sockets does not end")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use admin::{SocketState, SocketTimer, TcpRow};

    use super::*;

    /// A connection of redis-server.
    pub(crate) fn row() -> SocketRow {
        SocketRow {
            app: 3,
            app_name: "redis-server".to_owned(),
            pids: vec![4712, 4713],
            uid: 1000,
            profile: "latency".to_owned(),
            region: 5,
            slot: 1,
            protocol: "tcp".to_owned(),
            local: "10.0.0.2:6379".to_owned(),
            remote: Some("10.0.0.1:40112".to_owned()),
            state: SocketState::Estab,
            recv_q: 0,
            send_q: 64,
            cookie: 4098,
            inode: 88_240,
            worker: Some(1),
            is_local: false,
            reset_because: None,
            bytes_received: 52_100,
            bytes_sent: 49_876,
            timer: Some(SocketTimer {
                name: "retransmit".to_owned(),
                left_ms: 201,
                expirations: 0,
            }),
            tcp: Some(TcpRow {
                rtt_us: 38,
                rttvar_us: 12,
                rto_us: 201_000,
                cwnd: 10,
                mss: 1448,
                rcv_wnd: 65_535,
                snd_wnd: 64_240,
                congestion: "cubic".to_owned(),
                options: vec!["ts".to_owned(), "sack".to_owned(), "wscale:7,7".to_owned()],
                ..TcpRow::default()
            }),
        }
    }

    /// What it listens with.
    pub(crate) fn listener() -> SocketRow {
        SocketRow {
            slot: 0,
            local: "0.0.0.0:6379".to_owned(),
            remote: None,
            state: SocketState::Listen,
            send_q: 511,
            cookie: 4097,
            inode: 88_231,
            worker: Some(0),
            bytes_received: 0,
            bytes_sent: 0,
            timer: None,
            tcp: None,
            ..row()
        }
    }

    #[test]
    fn pages_are_asked_for_until_the_last() {
        let mut asked = Vec::new();
        let rows = gather(|from| {
            asked.push(from);
            Ok((vec![row()], if from < 9 { Some(from + 5) } else { None }))
        });
        assert_eq!((rows.map(|rows| rows.len()), asked), (Ok(3), vec![0, 5, 10]));
    }

    #[test]
    fn a_list_that_goes_round_in_circles_is_given_up() {
        for next in [0, 3] {
            let circle = gather(|_| Ok((Vec::new(), Some(next))));
            let failure = circle.expect_err("it never ends").to_string();
            assert!(failure.contains("does not end"), "{failure}");
        }
    }
}
