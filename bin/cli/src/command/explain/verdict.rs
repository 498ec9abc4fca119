//! Whether a socket is accelerated, and if not, why: what the kernel and the daemon know, put
//! together.

use std::collections::BTreeMap;

use admin::{FallbackRow, SocketRow, SocketState};

use super::kernel_sockets::{KernelSocket, Kind, Told};
use crate::table::grouped;

/// What the daemon knows of sockets, found by cookie, and by inode where there is no cookie.
pub(super) struct Known<'a> {
    rows: BTreeMap<Key, &'a SocketRow>,
    fallbacks: BTreeMap<Key, &'a FallbackRow>,
    /// The process is attached: it asks the daemon for its sockets.
    is_attached: bool,
    daemon_pid: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Cookie(u64),
    Inode(u64),
}

/// How a socket is served.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict<'a> {
    /// By the data plane.
    Accelerated(&'a SocketRow),
    /// By the kernel, because: a word, and a clause.
    Kernel(&'a str, String),
}

impl<'a> Known<'a> {
    pub(super) fn new(
        rows: &'a [SocketRow],
        fallbacks: &'a [FallbackRow],
        is_attached: bool,
        daemon_pid: u32,
    ) -> Self {
        let (by_row, by_fallback) = (BTreeMap::new(), BTreeMap::new());
        let mut known = Self { rows: by_row, fallbacks: by_fallback, is_attached, daemon_pid };
        for row in rows {
            for key in keys(row.cookie, row.inode) {
                known.rows.insert(key, row);
            }
        }
        // The latest stands first.
        for row in fallbacks.iter().rev() {
            for key in keys(row.cookie, row.inode) {
                known.fallbacks.insert(key, row);
            }
        }
        known
    }

    /// How `socket` is served.
    pub(super) fn verdict(&self, socket: &KernelSocket) -> Verdict<'a> {
        let cookie = socket.told.as_ref().map_or(0, |told| told.cookie);
        if let Some(row) = keys(cookie, socket.inode).find_map(|key| self.rows.get(&key)) {
            return Verdict::Accelerated(row);
        }
        let refused = keys(cookie, socket.inode).find_map(|key| self.fallbacks.get(&key));
        if let Some(FallbackRow { reason, message, .. }) = refused.copied() {
            return Verdict::Kernel(reason, message.clone());
        }
        let (word, clause) = self.nobody_knows(socket.told.as_ref());
        Verdict::Kernel(word, clause)
    }

    /// Why the daemon may not have heard of a socket.
    fn nobody_knows(&self, told: Option<&Told>) -> (&'static str, String) {
        match told {
            Some(Told { peer_pid: Some(pid), .. }) if *pid == self.daemon_pid => {
                ("link", "it is the library's own connection to the daemon".to_owned())
            }
            Some(Told { kind: Kind::Other(what), .. }) => {
                ("other_protocol", format!("it is {what}, which is not for Calisto"))
            }
            _ if !self.is_attached => {
                ("not_attached", "its process is not attached to the daemon".to_owned())
            }
            None => ("unknown", "the daemon does not know it".to_owned()),
            Some(Told { kind: Kind::Tcp, listens: false, peer: None, .. }) => {
                ("idle", "it neither listens nor is it connected, yet or any more".to_owned())
            }
            Some(Told { kind: Kind::Udp, local: None, .. }) => {
                ("idle", "it is not bound yet".to_owned())
            }
            Some(_) => (
                "not_asked",
                "the daemon was never asked for it: it was made by another program, before the \
                 daemon started, or past the library"
                    .to_owned(),
            ),
        }
    }
}

/// By what a socket is found: the cookie first, which is never used again.
fn keys(cookie: u64, inode: u64) -> impl Iterator<Item = Key> {
    let by_cookie = (cookie != 0).then_some(Key::Cookie(cookie));
    by_cookie.into_iter().chain((inode != 0).then_some(Key::Inode(inode)))
}

impl Verdict<'_> {
    /// In a clause.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Kernel(_, clause) => format!("kernel: {clause}"),
            Self::Accelerated(row) => format!("accelerated: {}", of_row(row)),
        }
    }
}

fn of_row(row: &SocketRow) -> String {
    let by = match row.worker {
        Some(worker) => format!("worker {worker}"),
        None if row.is_local => "shared memory, for the peer is on this host too".to_owned(),
        None => "no worker yet".to_owned(),
    };
    if let Some(why) = &row.reset_because {
        return format!("{by}, until the daemon reset it: {why}");
    }
    if row.state == SocketState::Listen {
        return format!("{by}, {} of {} places taken", row.recv_q, row.send_q);
    }
    let (received, sent) = (grouped(row.bytes_received), grouped(row.bytes_sent));
    format!("{by}, {received} bytes received, {sent} sent")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::tests::{listener, row};

    fn socket(inode: u64, told: Option<Told>) -> KernelSocket {
        KernelSocket { fd: 3, inode, told }
    }

    fn told(cookie: u64, kind: Kind) -> Told {
        Told { cookie, kind, local: None, peer: None, listens: false, peer_pid: None }
    }

    fn refused(cookie: u64, inode: u64, reason: &str) -> FallbackRow {
        FallbackRow {
            app: 3,
            app_name: "redis-server".to_owned(),
            pid: 4712,
            cookie,
            inode,
            reason: reason.to_owned(),
            message: format!("because of {reason}"),
            count: 1,
        }
    }

    fn word<'a>(known: &Known<'a>, socket: &KernelSocket) -> &'a str {
        match known.verdict(socket) {
            Verdict::Kernel(word, _) => word,
            Verdict::Accelerated(_) => "accelerated",
        }
    }

    #[test]
    fn a_socket_is_found_by_cookie_or_by_inode() {
        let accepted = SocketRow { inode: 0, ..row() };
        let (rows, none) = ([accepted, listener()], []);
        let known = Known::new(&rows, &none, true, 1);
        let by_cookie = known.verdict(&socket(5, Some(told(4098, Kind::Tcp))));
        assert_eq!(by_cookie, Verdict::Accelerated(&rows[0]));
        assert_eq!(known.verdict(&socket(88_231, None)), Verdict::Accelerated(&rows[1]));
        let text = by_cookie.sentence();
        assert_eq!(text, "accelerated: worker 1, 52,100 bytes received, 49,876 sent");
        let text = known.verdict(&socket(88_231, None)).sentence();
        assert_eq!(text, "accelerated: worker 0, 0 of 511 places taken");
    }

    #[test]
    fn a_connection_that_the_daemon_has_reset_says_why() {
        let rows = [SocketRow { reset_because: Some("memory was short".to_owned()), ..row() }];
        let known = Known::new(&rows, &[], true, 1);
        let text = known.verdict(&socket(5, Some(told(4098, Kind::Tcp)))).sentence();
        assert_eq!(text, "accelerated: worker 1, until the daemon reset it: memory was short");
    }

    #[test]
    fn a_cookie_or_inode_of_nought_is_nobodys() {
        let rows = [SocketRow { cookie: 0, inode: 0, ..row() }];
        let refused = [refused(0, 0, "multicast")];
        let known = Known::new(&rows, &refused, true, 1);
        assert_eq!(word(&known, &socket(0, None)), "unknown");
        assert_eq!(word(&known, &socket(0, Some(told(0, Kind::Tcp)))), "idle");
    }

    #[test]
    fn what_the_daemon_refused_is_told_in_its_words_the_latest_first() {
        let rows = [];
        let refused = [refused(9, 7, "no_memory"), refused(9, 7, "no_route_here")];
        let known = Known::new(&rows, &refused, true, 1);
        let verdict = known.verdict(&socket(7, None));
        assert_eq!(verdict, Verdict::Kernel("no_memory", "because of no_memory".to_owned()));
        assert_eq!(verdict.sentence(), "kernel: because of no_memory");
    }

    #[test]
    fn a_socket_that_nobody_asked_for_says_what_it_is() {
        let (attached, alone) = (Known::new(&[], &[], true, 1), Known::new(&[], &[], false, 1));
        let unix = socket(7, Some(told(9, Kind::Other("a UNIX socket"))));
        assert_eq!(word(&alone, &unix), "other_protocol");
        let to_daemon = Told { peer_pid: Some(1), ..told(9, Kind::Other("a UNIX socket")) };
        assert_eq!(word(&attached, &socket(7, Some(to_daemon))), "link");
        let bound = Told { local: "10.0.0.2:53".parse().ok(), ..told(9, Kind::Udp) };
        for (told, expected) in [
            (told(9, Kind::Tcp), "idle"),
            (told(9, Kind::Udp), "idle"),
            (Told { listens: true, ..told(9, Kind::Tcp) }, "not_asked"),
            (bound, "not_asked"),
        ] {
            let socket = socket(7, Some(told));
            assert_eq!(word(&attached, &socket), expected);
            assert_eq!(word(&alone, &socket), "not_attached");
        }
    }
}
