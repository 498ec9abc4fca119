//! A worker of a real client on a thread of its own, which says at once when it runs on a granted
//! core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use attach::Peer;
use base::Nanos;
use calisto_client::{Batch, Worker};
use datapath::AttachmentId;
use datapath::cores::CoreEvent;
use policy::cores::Class;
use sys::clock::{now, tsc};

use super::attached_client::{self, AttachedClient};
use super::hands::PinningHands;
use super::realm::Realm;
use crate::error::{Error, OrNeeds};
use crate::flows::{Packets, SEED};

/// What does not come within this long never comes.
const TIMEOUT: Nanos = Nanos::from_secs(1);

/// A worker that claims a core is in its loop when this much time has passed.
const CLAIMED: Nanos = Nanos::from_micros(20);

/// What the worker does without a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitMode {
    /// It sleeps in [`Worker::wait`].
    Sleeps,
    /// It asks for a core when it is told to, and looks at its core grant until it has one.
    Spins,
}

#[derive(Debug, Default)]
struct Words {
    /// Times that it was told to ask for a core.
    told: AtomicU32,
    /// Times that it ran, and when it did so last, by the time-stamp counter.
    ran: AtomicU32,
    ran_at: AtomicU64,
    stop: AtomicBool,
}

/// The worker's thread, and what its application is sent. Ends when dropped.
pub(super) struct Waiter {
    words: Arc<Words>,
    wait_mode: WaitMode,
    app: AttachmentId,
    packets: Packets,
    /// Closing it ends the attachment, and so the thread.
    peer: Option<Peer>,
    thread: Option<JoinHandle<()>>,
}

impl Waiter {
    /// A worker of an application of its own, with a guaranteed core.
    pub(super) fn start(realm: &mut Realm, wait_mode: WaitMode) -> Result<Self, Error> {
        let subject = realm.admit(Class::Latency, 1)?;
        let AttachedClient { worker, app, peer } = attached_client::attach(&subject)?;
        let address = subject.destination.ok_or("a batch job").or_needs("destination")?;
        let words = Arc::new(Words::default());
        let theirs = Arc::clone(&words);
        let live = move || {
            let _app = app;
            // It ends with its attachment.
            let _ = match wait_mode {
                WaitMode::Sleeps => theirs.sleep(worker),
                WaitMode::Spins => theirs.spin(worker),
            };
        };
        let thread = std::thread::Builder::new().name("waiter".to_owned()).spawn(live);
        Ok(Self {
            words,
            wait_mode,
            app: subject.id,
            packets: Packets::to(address, 1, SEED, &[0; 18]),
            peer: Some(peer),
            thread: Some(thread.or_needs("thread")?),
        })
    }

    /// Has the allocator hear until the worker has parked.
    pub(super) fn until_parked(
        &self,
        realm: &mut Realm,
        hands: &mut PinningHands,
    ) -> Result<(), Error> {
        let began = now();
        loop {
            let counts = realm.allocator.counts(Some(self.app));
            if counts.get(CoreEvent::Parks) == counts.get(CoreEvent::Grants) {
                return Ok(());
            }
            let time = now();
            realm.rig.dispatcher.transmit(time);
            realm.step(time, hands);
            if time.since(began) > TIMEOUT {
                return Err("it keeps its core").or_needs("worker that parks");
            }
        }
    }

    /// Sees to it that the allocator grants it a core in its next step.
    pub(super) fn ask(&self, realm: &mut Realm) -> Result<(), Error> {
        match self.wait_mode {
            WaitMode::Sleeps => {
                let time = now();
                realm.rig.offer(1, time, |frame| self.packets.write(0, frame));
                realm.rig.dispatcher.receive(time);
            }
            WaitMode::Spins => {
                self.words.told.fetch_add(1, Ordering::Release);
            }
        }
        let began = now();
        while !realm.allocator.has_work() && !realm.allocator.has_spoken(self.app) {
            std::hint::spin_loop();
            if now().since(began) > TIMEOUT {
                return Err("it is silent").or_needs("worker that asks for a core");
            }
        }
        let since = now();
        while now().since(since) < CLAIMED || !realm.allocator.is_due(now()) {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// When it ran for the `count`-th time, by the time-stamp counter. Spins until it does.
    pub(super) fn ran_at(&self, count: u32) -> Result<u64, Error> {
        let began = now();
        while self.words.ran.load(Ordering::Acquire) < count {
            std::hint::spin_loop();
            if now().since(began) > TIMEOUT {
                return Err("it has not run within a second").or_needs("worker that runs");
            }
        }
        Ok(self.words.ran_at.load(Ordering::Relaxed))
    }
}

impl Words {
    fn sleep(&self, mut worker: Worker) -> Result<(), attach::Detached> {
        while !self.stop.load(Ordering::Acquire) {
            if worker.wait(Nanos::FAR_FUTURE)? {
                self.ran(tsc());
                done(&mut worker)?;
            }
        }
        Ok(())
    }

    fn spin(&self, mut worker: Worker) -> Result<(), attach::Detached> {
        let mut obeyed = 0;
        // Tells which thread it is.
        worker.wait(Nanos::ZERO)?;
        loop {
            while self.told.load(Ordering::Acquire) == obeyed {
                if self.stop.load(Ordering::Acquire) {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            obeyed = obeyed.wrapping_add(1);
            if !worker.claim_core(Nanos::ZERO)? {
                while worker.must_park() {
                    if self.stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    std::hint::spin_loop();
                }
            }
            self.ran(tsc());
            done(&mut worker)?;
            worker.wait(Nanos::ZERO)?;
        }
    }

    fn ran(&self, at: u64) {
        self.ran_at.store(at, Ordering::Relaxed);
        self.ran.fetch_add(1, Ordering::Release);
    }
}

fn done(worker: &mut Worker) -> Result<(), attach::Detached> {
    let mut batch = Batch::new();
    worker.receive(&mut batch)?;
    while !batch.is_empty() {
        worker.done(&mut batch)?;
    }
    worker.flush();
    Ok(())
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.words.stop.store(true, Ordering::Release);
        self.peer = None;
        if let Some(thread) = self.thread.take() {
            // There is nothing to hear of its end.
            let _ = thread.join();
        }
    }
}
