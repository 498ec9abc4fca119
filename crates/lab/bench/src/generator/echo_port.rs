//! A wire in memory with a server at its other end that answers after a while, and that notes by
//! the time-stamp counter when each request passed it and when its answer did.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use arrayvec::ArrayVec;
use base::{BURST, Nanos};
use load::Random;
use port::memory::{MemoryPort, wire};
use port::{Capabilities, Fault, Port, PortCounters};
use shm::{Batch, Frame, FramePool};
use sys::clock::tsc;
use wire::reply;

/// Ethernet, IPv4 without options, UDP; then iterations, and then the index.
const L3: u16 = 14;
const L4: u16 = L3 + 20;
const INDEX: usize = L4 as usize + 8 + 8;

/// Ticks at which each request left and its answer came, by index; zero: it did not.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    pub(super) sent: Vec<u64>,
    pub(super) heard: Vec<u64>,
}

/// The index of a request, or of its answer.
fn index_of(frame: &Frame) -> Option<usize> {
    let bytes = frame.bytes().get(INDEX..)?.first_chunk()?;
    usize::try_from(u64::from_be_bytes(*bytes)).ok()
}

/// Notes the time for all of `frames`. They are looked at before it is read: touching them for the
/// first time takes longer than anything that is to be measured.
fn note(list: &mut [u64], frames: &[Frame]) {
    let indexes: ArrayVec<usize, BURST> = frames.iter().filter_map(index_of).collect();
    let ticks = tsc();
    for index in indexes {
        // Made beforehand for as many as there will be.
        if let Some(place) = list.get_mut(index) {
            *place = ticks;
        }
    }
}

/// The client's end of the wire, and all that is behind it.
pub(super) struct EchoPort {
    near: MemoryPort,
    far: MemoryPort,
    stamps: Rc<RefCell<Stamps>>,
    holding: VecDeque<(u64, Frame)>,
    arrivals: Batch,
    answers: Batch,
    random: Random,
    delay_ticks: f64,
}

impl EchoPort {
    /// Answers come after exponential times with this mean, in the order of the requests.
    pub(super) fn new(stamps: Rc<RefCell<Stamps>>, delay_ticks: f64, seed: u64) -> Self {
        let (near, far) = wire(4096);
        Self {
            near,
            far,
            stamps,
            holding: VecDeque::with_capacity(4096),
            arrivals: Batch::new(),
            answers: Batch::new(),
            random: Random::new(seed),
            delay_ticks,
        }
    }

    fn serve(&mut self, pool: &mut FramePool, now: Nanos) {
        self.far.rx(pool, &mut self.arrivals, now);
        for mut frame in self.arrivals.drain(..) {
            // What is no packet goes back as it came, and counts as a stranger there.
            let _ = reply::turn_around(frame.bytes_mut(), (L3, L4), None);
            let due = tsc() + (self.delay_ticks * self.random.exponential()) as u64;
            self.holding.push_back((due, frame));
        }
        let time = tsc();
        while !self.answers.is_full() && self.holding.front().is_some_and(|(due, _)| *due <= time) {
            self.answers.extend(self.holding.pop_front().map(|(_, frame)| frame));
        }
        self.far.tx(pool, &mut self.answers, now);
    }
}

impl Port for EchoPort {
    fn rx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        self.serve(pool, now);
        let before = batch.len();
        let count = self.near.rx(pool, batch, now);
        note(&mut self.stamps.borrow_mut().heard, &batch[before..]);
        count
    }

    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        note(&mut self.stamps.borrow_mut().sent, batch);
        self.near.tx(pool, batch, now)
    }

    fn flush(&mut self, pool: &mut FramePool, now: Nanos) {
        self.near.flush(pool, now);
    }

    fn prepare_wait(&mut self, pool: &mut FramePool) {
        self.near.prepare_wait(pool);
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn next_deadline(&self) -> Nanos {
        self.near.next_deadline()
    }

    fn fault(&self) -> Option<Fault> {
        self.near.fault()
    }

    fn capabilities(&self) -> &Capabilities {
        self.near.capabilities()
    }

    fn counters(&self) -> PortCounters {
        self.near.counters()
    }

    fn close(&mut self, pool: &mut FramePool) {
        let held = self.holding.drain(..).map(|(_, frame)| frame);
        let rest = held.chain(self.arrivals.drain(..)).chain(self.answers.drain(..));
        rest.for_each(|frame| pool.give(frame));
        self.far.close(pool);
        self.near.close(pool);
    }
}
