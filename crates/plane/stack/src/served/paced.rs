//! What waits for a moment: sockets whose program may send no more for a while, and connections
//! whose first packet the rate of their user does not allow yet.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use base::Nanos;

/// What a worker has to look at again although nobody says anything.
#[derive(Debug)]
pub(super) struct Paced {
    sockets: BTreeSet<(u16, u32)>,
    /// Own address, peer, and when its SYN may leave. Each has a socket, which bounds them.
    opens: Vec<(SocketAddr, SocketAddr, Nanos)>,
    until: Nanos,
}

impl Default for Paced {
    fn default() -> Self {
        Self { sockets: BTreeSet::new(), opens: Vec::new(), until: Nanos::FAR_FUTURE }
    }
}

impl Paced {
    /// When there is something to look at.
    #[inline]
    pub(super) fn until(&self) -> Nanos {
        self.until
    }

    /// There is something to look at by then, at the latest.
    pub(super) fn wake_at(&mut self, due: Nanos) {
        self.until = self.until.min(due);
    }

    /// A socket is looked at by then.
    pub(super) fn look_at(&mut self, app: u16, slot: u32, due: Nanos) {
        self.sockets.insert((app, slot));
        self.wake_at(due);
    }

    /// A connection from `local` to `remote` may be opened by then.
    pub(super) fn open_at(&mut self, local: SocketAddr, remote: SocketAddr, due: Nanos) {
        self.opens.push((local, remote, due));
        self.wake_at(due);
    }

    /// It is time: the sockets to look at.
    pub(super) fn take_sockets(&mut self) -> BTreeSet<(u16, u32)> {
        self.until = self.opens.iter().map(|(.., due)| *due).min().unwrap_or(Nanos::FAR_FUTURE);
        std::mem::take(&mut self.sockets)
    }

    /// Connections that may be opened by `now`.
    pub(super) fn take_opens(&mut self, now: Nanos) -> Vec<(SocketAddr, SocketAddr)> {
        let due = self.opens.extract_if(.., |(.., due)| *due <= now);
        due.map(|(local, remote, _)| (local, remote)).collect()
    }
}
