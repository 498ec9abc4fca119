//! Clients of the admin socket: how many there are, and which one must go when there are too many.
//!
//! An operator must always be able to ask, and to end the daemon, whatever clients have left open:
//! when all places are taken, the client that has waited longest without asking anything loses its
//! own. One whose question is being answered, watches and captures included, is never ended.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Clients at once, at most.
pub(crate) const CLIENTS_MAX: usize = 16;

/// A client that has come or has had an answer keeps its place for this long, whoever wants it.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// Whoever does not read its answer keeps the daemon from ending for this long.
const ANSWERED_WITHIN: Duration = Duration::from_millis(500);

/// Numbers a connection of the admin socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId(pub(crate) u64);

/// Those that are there.
#[derive(Clone, Default)]
pub(crate) struct Clients {
    all: Arc<Mutex<Vec<Client>>>,
    /// Answers that are being found or written.
    answers: Arc<AtomicU32>,
}

/// An answer that is being found or written, as long as this lives.
pub(crate) struct Answering(Arc<AtomicU32>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

struct Client {
    id: ClientId,
    stream: UnixStream,
    /// Since when it has been asked for nothing; absent: a question of it is being answered.
    idle_since: Option<Instant>,
}

impl Clients {
    /// A place for one more; the idlest loses its own for it. False: all are busy, or have come a
    /// moment ago.
    pub(crate) fn enter(&self, id: ClientId, stream: UnixStream, now: Instant) -> bool {
        let mut all = self.lock();
        if all.len() >= CLIENTS_MAX {
            let idle = all.iter().enumerate().filter_map(|(at, of)| Some((of.idle_since?, at)));
            let Some((since, at)) = idle.min() else { return false };
            if now.saturating_duration_since(since) < IDLE_MIN {
                return false;
            }
            let idlest = all.swap_remove(at);
            // Its thread reads the end, and goes.
            let _ = idlest.stream.shutdown(Shutdown::Both);
        }
        all.push(Client { id, stream, idle_since: Some(now) });
        true
    }

    /// A question is about to be answered.
    pub(crate) fn answering(&self) -> Answering {
        self.answers.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(&self.answers))
    }

    /// Waits until every question has its answer, for a while: who has asked for the daemon's end
    /// is to hear that it comes.
    pub(crate) fn await_answers(&self) {
        let begun = Instant::now();
        while self.answers.load(Ordering::Acquire) > 0 && begun.elapsed() < ANSWERED_WITHIN {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// It has asked something. False: its place was taken just before, and it gets no answer.
    pub(crate) fn begin(&self, id: ClientId) -> bool {
        self.set(id, None)
    }

    /// It has its answer.
    pub(crate) fn end(&self, id: ClientId, now: Instant) {
        self.set(id, Some(now));
    }

    /// It has gone.
    pub(crate) fn leave(&self, id: ClientId) {
        self.lock().retain(|client| client.id != id);
    }

    fn set(&self, id: ClientId, idle_since: Option<Instant>) -> bool {
        let mut all = self.lock();
        let Some(client) = all.iter_mut().find(|client| client.id == id) else { return false };
        client.idle_since = idle_since;
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Client>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Enters client `id`; the other end, if there was room.
    fn enter(clients: &Clients, id: u64, now: Instant) -> Option<UnixStream> {
        let (ours, theirs) = UnixStream::pair().expect("descriptors are left");
        clients.enter(ClientId(id), ours, now).then_some(theirs)
    }

    #[test]
    fn when_all_places_are_taken_the_idlest_client_loses_its_own() {
        let (clients, start) = (Clients::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let mut ends: Vec<_> = (0..CLIENTS_MAX as u64)
            .map(|id| enter(&clients, id, at(id)).expect("there is room"))
            .collect();
        assert!(enter(&clients, 99, at(999)).is_none(), "nobody has waited for a second");
        // The first is busy for long, and the second has just been answered.
        assert!(clients.begin(ClientId(0)) && clients.begin(ClientId(1)));
        clients.end(ClientId(1), at(1500));
        let newcomer = enter(&clients, 100, at(2000));
        assert!(newcomer.is_some());
        assert!(!clients.begin(ClientId(2)), "its place is another's");
        assert_eq!(ends[2].read(&mut [0]).expect("it is closed"), 0);
        assert!(clients.begin(ClientId(3)) && clients.begin(ClientId(0)));
    }

    #[test]
    fn the_end_waits_for_answers_that_are_being_written_and_for_none_else() {
        let clients = Clients::default();
        let _idle = enter(&clients, 1, Instant::now()).expect("there is room");
        let begun = Instant::now();
        clients.await_answers();
        assert!(begun.elapsed() < ANSWERED_WITHIN, "nobody has asked");
        let answering = clients.answering();
        let (ends, ended) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                clients.await_answers();
                ends.send(()).expect("the test waits");
            });
            assert!(ended.recv_timeout(Duration::from_millis(20)).is_err(), "an answer is due");
            drop(answering);
            ended.recv().expect("it was written");
        });
    }

    #[test]
    fn a_client_that_is_being_answered_is_never_ended_and_one_that_goes_makes_room() {
        let (clients, start) = (Clients::default(), Instant::now());
        let _ends: Vec<_> = (0..CLIENTS_MAX as u64).map(|id| enter(&clients, id, start)).collect();
        (0..CLIENTS_MAX as u64).for_each(|id| assert!(clients.begin(ClientId(id))));
        let late = start + Duration::from_secs(3600);
        assert!(enter(&clients, 100, late).is_none());
        clients.leave(ClientId(7));
        assert!(enter(&clients, 101, late).is_some());
    }
}
