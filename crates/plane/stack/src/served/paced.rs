//! What waits for a moment: sockets whose program may send no more for a while, and connections
//! whose first packet the rate of their user does not allow yet.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Bound;

use base::{AppId, Nanos, SlotId};

/// What a worker has to look at again although nobody says anything.
#[derive(Debug)]
pub(super) struct Paced {
    sockets: BTreeSet<(AppId, SlotId)>,
    /// The socket that was taken last: those behind it are next.
    last_taken: (AppId, SlotId),
    /// Own address, peer, and when its SYN may leave. Each has a socket, which bounds them.
    opens: Vec<(SocketAddr, SocketAddr, Nanos)>,
    until: Nanos,
}

impl Default for Paced {
    fn default() -> Self {
        Self {
            sockets: BTreeSet::new(),
            last_taken: (AppId(u16::MAX), SlotId(u32::MAX)),
            opens: Vec::new(),
            until: Nanos::FAR_FUTURE,
        }
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
    pub(super) fn look_at(&mut self, app: AppId, slot: SlotId, due: Nanos) {
        self.sockets.insert((app, slot));
        self.wake_at(due);
    }

    /// A connection from `local` to `remote` may be opened by then.
    pub(super) fn open_at(&mut self, local: SocketAddr, remote: SocketAddr, due: Nanos) {
        self.opens.push((local, remote, due));
        self.wake_at(due);
    }

    /// It is time: up to `most` of the sockets to look at, in turn. The others are due at once.
    pub(super) fn take_sockets(&mut self, most: usize, now: Nanos) -> Vec<(AppId, SlotId)> {
        self.until = self.opens.iter().map(|(.., due)| *due).min().unwrap_or(Nanos::FAR_FUTURE);
        let behind = (Bound::Excluded(self.last_taken), Bound::Unbounded);
        let before = ..=self.last_taken;
        let turn = self.sockets.range(behind).chain(self.sockets.range(before));
        let taken: Vec<_> = turn.copied().take(most).collect();
        for socket in &taken {
            self.sockets.remove(socket);
            self.last_taken = *socket;
        }
        if !self.sockets.is_empty() {
            self.wake_at(now);
        }
        taken
    }

    /// Up to `most` connections that may be opened by `now`, those first that wait longest.
    pub(super) fn take_opens(&mut self, most: usize, now: Nanos) -> Vec<(SocketAddr, SocketAddr)> {
        let due = self.opens.extract_if(.., |(.., due)| *due <= now);
        due.take(most).map(|(local, remote, _)| (local, remote)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(7);

    #[test]
    fn however_many_sockets_wait_some_are_taken_at_once_and_each_has_its_turn() {
        let mut paced = Paced::default();
        let all = (0..4).map(AppId).flat_map(|app| (0..250).map(move |slot| (app, SlotId(slot))));
        all.clone().for_each(|(app, slot)| paced.look_at(app, slot, NOW));
        let mut taken = BTreeSet::new();
        for _ in 0..4 {
            assert!(paced.until() <= NOW, "what is left is forgotten");
            let some = paced.take_sockets(256, NOW);
            assert!(some.len() <= 256, "{} at once", some.len());
            for (app, slot) in some {
                taken.insert((app, slot));
                // Its user may still not send.
                paced.look_at(app, slot, NOW);
            }
        }
        assert_eq!(taken, all.collect(), "some wait behind those that were looked at");
    }

    #[test]
    fn however_many_connections_are_due_some_are_opened_at_once_in_their_order() {
        let mut paced = Paced::default();
        let local = SocketAddr::from(([10, 0, 0, 2], 1));
        for port in 0..100 {
            paced.open_at(local, SocketAddr::from(([10, 0, 0, 1], port)), NOW);
        }
        for first in [0, 40, 80] {
            let some = paced.take_opens(40, NOW);
            assert!(some.len() <= 40 && some[0].1.port() == first, "{some:?}");
            paced.take_sockets(1, NOW);
            assert_eq!(paced.until() <= NOW, first < 80);
        }
    }
}
