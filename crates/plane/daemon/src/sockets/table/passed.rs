//! What programs have passed is asked, changed and closed by threads beside.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use attach::FallbackReason;

use super::super::answer::{Context, Refusal};
use super::super::aside::Passed;
use super::super::asking::Asking;
use super::super::examine::Examined;
use super::SocketTable;

impl SocketTable {
    /// Has a thread do something with what a program of `user` has passed: see [`Asking::ask`].
    pub(super) fn ask_aside<T: Send + 'static>(
        &mut self,
        user: u32,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let wait_budget = &mut self.waiting.wait_budget;
        let counters = &*self.table_config.counters;
        Asking { aside: &self.threads.aside, wait_budget, counters, user }.ask(work)
    }

    /// Looks at a socket: see [`Examined::new`].
    pub(super) fn examine(
        &mut self,
        context: &Context<'_>,
        socket: &Passed,
        protocol: wire::Protocol,
    ) -> Result<Examined, Refusal> {
        let (socket, namespace) = (Passed::clone(socket), self.network.namespace);
        let look = move || Examined::new(socket, protocol, namespace);
        let looked = self.ask_aside(context.member.uid, look);
        Ok(looked.unwrap_or(Err(FallbackReason::DaemonBusy))?)
    }

    /// Closes what came with a call, before its answer unless that takes long: a port that the
    /// program frees is free then, and a listener that it closes takes no more callers. For what is
    /// no socket nobody need wait.
    pub(super) fn close_passed(&mut self, user: u32, socket: Passed) {
        // To ask for that takes no lock.
        if sys::socket::cookie_of(socket.as_fd()).is_err() {
            return self.close_later(user, socket);
        }
        let last = Arc::new(Mutex::new(Some(socket)));
        let take = |last: &Mutex<Option<Passed>>| {
            last.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let theirs = Arc::clone(&last);
        let closed = self.ask_aside(user, move || drop(take(&theirs)));
        if closed.is_none()
            && let Some(socket) = take(&last)
        {
            // Nobody has begun.
            self.close_later(user, socket);
        }
    }
}
