//! Many queues of one consumer, and the two ways to find what is in them: look at one after the
//! other, or ask a ready set.

use base::Nanos;
use sched::{After, DrrScheduler};
use shm::wait::Surroundings;
use shm::{Consumer, Doorbell, Producer, Ready, ReadySet, ring};
use sys::clock;
use sys::sleep::Sleeper;

/// Items that are taken from a queue in its turn.
pub(super) const TURN: u32 = 16;

/// Looks at a queue that ran empty before it is armed.
const LINGER: u16 = 16;

/// The producer's ends.
pub(super) struct Feed {
    rings: Vec<Producer<u64>>,
    set: Option<ReadySet>,
}

impl Feed {
    /// How many queues.
    pub(super) fn queues(&self) -> usize {
        self.rings.len()
    }

    /// Puts one item into a queue and shows it; false when the queue is full.
    #[inline]
    pub(super) fn put(&mut self, queue: usize, item: u64) -> bool {
        self.prepare(queue);
        self.rings[queue].stage(item).is_ok() && self.show(queue)
    }

    /// Puts up to `most` items into a queue and shows them at once; how many.
    #[inline]
    pub(super) fn put_many(&mut self, queue: usize, most: usize) -> usize {
        self.prepare(queue);
        let mut put = 0;
        while put < most && self.rings[queue].stage(put as u64).is_ok() {
            put += 1;
        }
        if put > 0 {
            self.show(queue);
        }
        put
    }

    #[inline]
    fn prepare(&self, queue: usize) {
        if let Some(set) = &self.set {
            set.prepare(queue as u32);
        }
    }

    #[inline]
    fn show(&mut self, queue: usize) -> bool {
        self.rings[queue].publish();
        if let Some(set) = &self.set {
            set.set_ready(queue as u32);
        }
        true
    }
}

/// The consumer's ends with its way to find what is in them.
pub(super) trait Taker: Send {
    /// The name, for people.
    const NAME: &'static str;

    /// Queues of this kind for `slots` items each, with their producer.
    fn new(queues: usize, slots: usize) -> (Feed, Self);

    /// One look: takes up to [`TURN`] items of one queue; how many.
    fn take(&mut self, each: impl FnMut(u64)) -> usize;
}

/// Looks at one queue after the other.
pub(super) struct Polling {
    rings: Vec<Consumer<u64>>,
    next: usize,
}

impl Taker for Polling {
    const NAME: &'static str = "plain polling";

    fn new(queues: usize, slots: usize) -> (Feed, Self) {
        let (producers, rings) = (0..queues).map(|_| ring(slots)).unzip();
        (Feed { rings: producers, set: None }, Self { rings, next: 0 })
    }

    #[inline]
    fn take(&mut self, each: impl FnMut(u64)) -> usize {
        self.next += 1;
        if self.next >= self.rings.len() {
            self.next = 0;
        }
        drain(&mut self.rings[self.next], TURN, each)
    }
}

/// Asks a ready set, and looks at hot queues directly.
pub(super) struct Asking {
    rings: Vec<Consumer<u64>>,
    set: ReadySet,
    cursor: u32,
    claims: Vec<Option<Ready>>,
    scheduler: DrrScheduler,
}

impl Taker for Asking {
    const NAME: &'static str = "ready set";

    fn new(queues: usize, slots: usize) -> (Feed, Self) {
        let (producers, rings) = (0..queues).map(|_| ring(slots)).unzip();
        let set = ReadySet::new(queues as u32);
        let asking = Self {
            rings,
            set: set.clone(),
            cursor: 0,
            claims: (0..queues).map(|_| None).collect(),
            scheduler: DrrScheduler::new(queues as u32, TURN, LINGER),
        };
        (Feed { rings: producers, set: Some(set) }, asking)
    }

    #[inline]
    fn take(&mut self, each: impl FnMut(u64)) -> usize {
        if !self.set.is_quiet() {
            self.claim();
        }
        let Some(turn) = self.scheduler.next_turn() else { return 0 };
        let ring = &mut self.rings[turn.queue as usize];
        let used = drain(ring, turn.credit, each);
        let has_more = used == turn.credit as usize && !ring.is_empty();
        if self.scheduler.served(turn, used as u32, has_more) == After::Arm {
            self.arm(turn.queue);
        }
        used
    }
}

impl Asking {
    /// The set, to wait for.
    pub(super) fn set(&self) -> ReadySet {
        self.set.clone()
    }

    fn claim(&mut self) {
        let Self { set, cursor, claims, scheduler, .. } = self;
        set.claim(cursor, set.queues(), |ready| {
            scheduler.push(ready.queue());
            let queue = ready.queue() as usize;
            claims[queue] = Some(ready);
        });
    }

    fn arm(&mut self, queue: u32) {
        let Some(ready) = self.claims[queue as usize].take() else { return };
        if let Err(ready) = self.set.rearm(ready) {
            self.claims[queue as usize] = Some(ready);
            self.scheduler.push(queue);
        }
    }
}

#[inline]
fn drain(ring: &mut Consumer<u64>, most: u32, mut each: impl FnMut(u64)) -> usize {
    let mut taken = 0;
    while taken < most {
        let Some(item) = ring.take() else { break };
        each(item);
        taken += 1;
    }
    if taken > 0 {
        ring.release();
    }
    taken as usize
}

/// What a wait on a ready set needs of the rest: clock, yield, futex.
pub(super) struct Around<'a> {
    pub(super) taker: &'a mut Asking,
    pub(super) sleeper: &'a mut Sleeper<'static>,
    /// Looks that found nothing.
    pub(super) looks: u64,
}

impl Surroundings for Around<'_> {
    fn is_ready(&mut self) -> bool {
        let is_ready = !self.taker.set.is_quiet() || !self.taker.scheduler.is_empty();
        self.looks += u64::from(!is_ready);
        is_ready
    }

    fn now(&mut self) -> Nanos {
        clock::now()
    }

    fn yield_cpu(&mut self) {
        sys::thread::sched_yield();
    }

    fn sleep(&mut self, doorbell: &Doorbell, most: Nanos) {
        self.sleeper.sleep(doorbell.word(), most);
    }
}

/// Rings the doorbell of who sleeps on a set, after something was put.
#[inline]
pub(super) fn wake(set: &ReadySet) {
    if set.doorbell().ring() {
        sys::sleep::wake(set.doorbell().word(), sys::futex::Scope::Private, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each_item_comes_out_once<T: Taker>() {
        let (mut feed, mut taker) = T::new(130, 64);
        let mut sent = Vec::new();
        for item in 0..1000_u64 {
            let queue = (item * 37 % 130) as usize;
            if feed.put(queue, item) {
                sent.push(item);
            }
            if item % 7 == 0 {
                assert_eq!(feed.put_many(129, 3), 3);
                sent.extend([0, 1, 2]);
            }
            if item % 64 == 63 {
                let mut came = Vec::new();
                let mut looks = 0;
                while came.len() < sent.len() && looks < 100_000 {
                    taker.take(|item| came.push(item));
                    looks += 1;
                }
                came.sort_unstable();
                sent.sort_unstable();
                assert_eq!(came, sent, "{}", T::NAME);
                sent.clear();
            }
        }
    }

    #[test]
    fn both_ways_find_everything_once() {
        each_item_comes_out_once::<Polling>();
        each_item_comes_out_once::<Asking>();
    }
}
