//! A claimed class of flows, and the packet of it that a task works on.
//!
//! The task takes the next packet when it has done with this one: that is what keeps the packets of
//! a flow in order, whichever worker has the class.

use std::rc::Rc;

use shm::Ready;

use crate::rt::inbox::Released;
use crate::rt::local::Local;
use crate::rt::packet::Packet;

/// Packets of one class in a row, before another class has its turn.
const TURN: u32 = 16;

/// The right to the packets of a class. Dropped, it lets go: what it has taken counts as done.
#[derive(Debug)]
pub(crate) struct ClassGuard {
    local: Rc<Local>,
    listener: usize,
    /// The worker that received the packets.
    owner: usize,
    /// `None` after it was let go.
    ready: Option<Ready>,
    pub(crate) packet: Option<Packet>,
    taken: u32,
    /// An answer has left by a worker that is not the owner.
    has_sent_elsewhere: bool,
}

/// A class that is let go when the daemon has what was sent in it.
#[derive(Debug)]
pub(crate) struct Lingering {
    listener: usize,
    owner: usize,
    ready: Ready,
}

impl ClassGuard {
    pub(crate) fn new(local: &Rc<Local>, listener: usize, owner: usize, ready: Ready) -> Self {
        Self {
            local: Rc::clone(local),
            listener,
            owner,
            ready: Some(ready),
            packet: None,
            taken: 0,
            has_sent_elsewhere: false,
        }
    }

    /// Done with the packet: takes the next one. False when the class is to be let go.
    pub(crate) fn advance(&mut self) -> bool {
        self.complete();
        let Some(ready) = &self.ready else { return false };
        if self.taken >= TURN {
            return false;
        }
        self.taken += 1;
        self.packet =
            self.local.worker_set.listeners[self.listener].inboxes[self.owner].take(ready);
        self.packet.is_some()
    }

    /// Whether this worker has received the packet.
    pub(crate) fn is_own(&self) -> bool {
        self.owner == self.local.index
    }

    /// A packet was sent by this worker while it worked on the class.
    pub(crate) fn note_sent(&mut self) {
        self.has_sent_elsewhere |= !self.is_own();
    }

    fn complete(&mut self) {
        let Some(packet) = self.packet.take() else { return };
        if self.is_own() {
            self.local.packets.finish(packet.frame);
        } else {
            let owner = &self.local.worker_set.mailboxes[self.owner];
            owner.give_back(packet.frame);
            // A hand-over may wait for it.
            owner.ring();
        }
    }
}

impl Drop for ClassGuard {
    fn drop(&mut self) {
        self.complete();
        let Some(ready) = self.ready.take() else { return };
        let lingering = Lingering { listener: self.listener, owner: self.owner, ready };
        if self.has_sent_elsewhere {
            self.local.linger(lingering);
        } else {
            lingering.let_go(&self.local);
        }
    }
}

impl Lingering {
    pub(crate) fn let_go(self, local: &Local) {
        let Self { listener, owner, ready } = self;
        if local.worker_set.listeners[listener].inboxes[owner].release(ready) == Released::Empty {
            return;
        }
        if owner == local.index {
            local.readers.wake_one(listener);
        } else {
            local.worker_set.mailboxes[owner].ring();
        }
    }
}
