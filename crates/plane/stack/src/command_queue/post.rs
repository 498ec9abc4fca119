//! A worker's end of the front: what it is told, and what it says.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{AppId, Generation, SlotId};
use shm::Producer;

use super::EVENTS;
use super::command::{Command, SocketEvent};
use super::shared::{Mailbox, Shared, State, Stranded};
use crate::eviction::Evicted;
use crate::for_kernel::ForKernel;
use crate::parcel::Parcel;
use crate::trace::{Sample, Tracing};

/// A worker's end.
pub(crate) struct Post {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) events: Producer<SocketEvent>,
    pub(super) samples: Producer<Sample>,
    /// Events that found the ring full.
    pub(super) waiting: VecDeque<SocketEvent>,
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Post")
    }
}

impl Drop for Post {
    /// UDP sockets of a worker that ends go to another one; what it has said is heard.
    fn drop(&mut self) {
        self.flush();
        let mut state = self.shared.state();
        let State { boxes, standing, heard, sampled, last_words, stranded, .. } = &mut *state;
        let is_own = |(mailbox, _): &mut (Arc<Mailbox>, _)| Arc::ptr_eq(mailbox, &self.mailbox);
        for (_, mut worker) in heard.extract_if(.., is_own) {
            last_words.extend(std::iter::from_fn(|| worker.pop()));
        }
        last_words.extend(self.waiting.drain(..));
        boxes.retain(|(_, mailbox)| !Arc::ptr_eq(mailbox, &self.mailbox));
        sampled.retain(|(mailbox, _)| !Arc::ptr_eq(mailbox, &self.mailbox));
        if let Some((_, other)) = boxes.first() {
            let sockets = standing.iter().filter(|command| matches!(command, Command::Bind(_)));
            let adopt = (!stranded.is_empty()).then_some(Command::Adopt);
            other.commands().extend(sockets.cloned().chain(adopt));
            other.has_any.store(true, Ordering::Release);
        }
        drop(state);
        (self.shared.tell)();
        (self.shared.wake)();
    }
}

impl Post {
    /// Whether there is commands.
    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        self.mailbox.has_any.load(Ordering::Relaxed)
    }

    /// The oldest command.
    pub(crate) fn next(&self) -> Option<Command> {
        let mut connect_probes = self.mailbox.commands();
        let first = connect_probes.pop_front();
        if connect_probes.is_empty() {
            self.mailbox.has_any.store(false, Ordering::Release);
        }
        first
    }

    /// What is to be opened from `local` to `remote`: a connect probe about it has come. If `may`
    /// says no, it stays where the slow side can still withdraw it.
    pub(crate) fn open(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        may: impl FnOnce(&Command) -> bool,
    ) -> Option<Command> {
        let mut state = self.shared.state();
        let is_it = |command: &Command| matches!(command, Command::Connect { local: own, remote: other, .. } if (*own, *other) == (local, remote));
        let at = state.opens.iter().position(is_it)?;
        may(&state.opens[at]).then(|| state.opens.swap_remove(at))
    }

    /// Whether a socket is to be closed, and then whether with a reset.
    pub(crate) fn closing(&self, app: AppId, slot: SlotId, generation: Generation) -> Option<bool> {
        self.shared.state().closing.get(&(app, slot, generation)).copied()
    }

    /// Says something; it is heard after [`Self::flush`].
    pub(crate) fn say(&mut self, event: SocketEvent) {
        self.waiting.push_back(event);
    }

    /// How many questions may still be said, and how many may be where nothing waits. Whoever asks
    /// can ask again, and strangers can have many asked: they wait for room in the ring no more
    /// than once its length. All else that is said is of sockets, whose number is
    /// bounded.
    pub(crate) fn room_for_questions(&self) -> (usize, usize) {
        (EVENTS.saturating_sub(self.waiting.len()), EVENTS)
    }

    /// A connect probe from `remote` to `local` goes to whichever worker has their group, or gets
    /// it.
    pub(crate) fn call_for(&self, local: SocketAddr, remote: SocketAddr) {
        self.shared.put_back((local, remote));
    }

    /// Leaves a ring to the slow side, which gives its memory back.
    pub(crate) fn surrender(&self, evicted: Evicted) {
        self.shared.state().evicted.push(evicted);
    }

    /// Leaves an ICMP error that `make` makes to the slow side, for the kernel; false: too many
    /// wait.
    pub(crate) fn give_to_kernel(&self, user: u32, make: impl FnOnce() -> ForKernel) -> bool {
        let is_taken = self.shared.state().for_kernel.add(user, make);
        if is_taken {
            (self.shared.tell)();
        }
        is_taken
    }

    /// Leaves a connection to the slow side, for the kernel.
    pub(crate) fn hand_over(&self, parcel: Parcel) {
        self.shared.state().parcels.push(parcel);
    }

    /// Leaves sockets without flows to whoever comes first. A worker is told when this end is
    /// dropped.
    pub(crate) fn strand(&self, sockets: Vec<Stranded>) {
        if !sockets.is_empty() {
            self.shared.state().stranded.extend(sockets);
        }
    }

    /// What workers that have ended left behind.
    pub(crate) fn take_stranded(&self) -> Vec<Stranded> {
        std::mem::take(&mut self.shared.state().stranded)
    }

    /// Another worker was marked and sleeps.
    pub(crate) fn wake_others(&self) {
        (self.shared.wake)();
    }

    /// What is known of tracing everywhere.
    pub(crate) fn tracing(&self) -> &Arc<Tracing> {
        &self.shared.tracing
    }

    /// Leaves a sample to the slow side, if that has taken enough of them.
    pub(crate) fn sample(&mut self, sample: Sample) {
        if self.samples.stage(sample).is_err() {
            self.shared.tracing.lose();
        }
        self.samples.publish();
    }

    /// Whether something waits to be said.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Shows what was said.
    pub(crate) fn flush(&mut self) {
        while let Some(&event) = self.waiting.front() {
            if self.events.stage(event).is_err() {
                break;
            }
            self.waiting.pop_front();
        }
        if self.events.publish() {
            (self.shared.tell)();
        }
    }
}
