//! Rings over plain memory, without a kernel: we play both ends.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// Words of plain memory.
struct Plain(Box<[std::cell::UnsafeCell<u64>]>);

// SAFETY: only reached through rings, whose two ends keep to their own entries.
unsafe impl Sync for Plain {}
// SAFETY: as above.
unsafe impl Send for Plain {}

impl RingMemory for Plain {
    fn base(&self) -> NonNull<u8> {
        NonNull::from(&self.0[0]).cast()
    }

    fn len_bytes(&self) -> usize {
        self.0.len() * 8
    }
}

const OFFSET: RingOffset = RingOffset { producer: 0, consumer: 64, desc: 192, flags: 128 };

fn memory(count: u32, entry_bytes: u32) -> Arc<Plain> {
    let words = 24 + (count * entry_bytes).div_ceil(8);
    Arc::new(Plain((0..words).map(|_| std::cell::UnsafeCell::new(0)).collect()))
}

fn set_cursors(memory: &Plain, value: u32) {
    for offset in [OFFSET.producer, OFFSET.consumer] {
        // SAFETY: the offset is inside of the memory and no ring uses it yet.
        unsafe { memory.base().add(offset as usize).cast::<u32>().write(value) };
    }
}

fn pair(count: u32, start: u32) -> (Producer<XdpDesc>, Consumer<XdpDesc>) {
    let memory = memory(count, 16);
    set_cursors(&memory, start);
    let producer = Producer::new(memory.clone(), &OFFSET, count).expect("it fits");
    (producer, Consumer::new(memory, &OFFSET, count).expect("it fits"))
}

#[derive(Clone, Debug)]
enum Step {
    /// Acquire that many and write them.
    Produce(u32),
    /// Acquire that many but give only a part to the consumer.
    ProducePart(u32, u32),
    Consume(u32),
    ConsumePart(u32, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..40u32).prop_map(Step::Produce),
        (0..40u32, 0..40u32).prop_map(|(n, part)| Step::ProducePart(n, part)),
        (0..40u32).prop_map(Step::Consume),
        (0..40u32, 0..40u32).prop_map(|(n, part)| Step::ConsumePart(n, part)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_ring_is_a_bounded_queue(
        steps in prop::collection::vec(step(), 1..200),
        start in prop_oneof![Just(0u32), Just(u32::MAX - 17), any::<u32>()],
        log2 in 0..6u32,
    ) {
        let count = 1 << log2;
        let (mut producer, mut consumer) = pair(count, start);
        let mut oracle = VecDeque::new();
        let mut next = 0u64;
        for step in steps {
            match step {
                Step::Produce(wanted) | Step::ProducePart(wanted, _) => {
                    let got = producer.acquire(wanted);
                    prop_assert_eq!(got, wanted.min(count - oracle.len() as u32));
                    let part = match step { Step::ProducePart(_, part) => part.min(got), _ => got };
                    for index in 0..got {
                        producer.write(index, XdpDesc { addr: next + u64::from(index), len: index, options: 0 });
                    }
                    producer.release(part);
                    oracle.extend((0..part).map(|index| XdpDesc { addr: next + u64::from(index), len: index, options: 0 }));
                    next += u64::from(part);
                }
                Step::Consume(wanted) | Step::ConsumePart(wanted, _) => {
                    let got = consumer.acquire(wanted);
                    prop_assert_eq!(got, wanted.min(oracle.len() as u32));
                    let part = match step { Step::ConsumePart(_, part) => part.min(got), _ => got };
                    for index in 0..got {
                        prop_assert_eq!(consumer.read(index), oracle[index as usize]);
                    }
                    consumer.release(part);
                    oracle.drain(..part as usize);
                }
            }
            prop_assert_eq!(producer.pending() as usize, oracle.len());
        }
    }
}

#[test]
fn the_wakeup_flag_is_the_kernels_to_set() {
    let memory = memory(4, 8);
    let producer: Producer<u64> = Producer::new(memory.clone(), &OFFSET, 4).expect("it fits");
    assert!(!producer.needs_wakeup());
    // SAFETY: the flag word is inside of the memory; an atomic store races with nothing.
    let flags = unsafe { memory.base().add(OFFSET.flags as usize).cast::<AtomicU32>().as_ref() };
    flags.store(XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
    assert!(producer.needs_wakeup());
}

#[test]
fn a_ring_that_does_not_fit_its_memory_is_refused() {
    let fits =
        |offset: &RingOffset, count| Producer::<u64>::new(memory(4, 8), offset, count).is_some();
    assert!(fits(&OFFSET, 4));
    assert!(!fits(&OFFSET, 8), "twice the entries");
    assert!(!fits(&OFFSET, 3), "no power of two");
    assert!(!fits(&RingOffset { desc: 196, ..OFFSET }, 2), "entries not aligned");
    assert!(!fits(&RingOffset { producer: u64::MAX, ..OFFSET }, 4), "far outside");
    assert!(!fits(&RingOffset { flags: 4096, ..OFFSET }, 4), "outside");
}

#[test]
fn a_producer_cursor_gone_mad_yields_each_entry_once_at_most() {
    let memory = memory(4, 8);
    let mut consumer: Consumer<u64> = Consumer::new(memory.clone(), &OFFSET, 4).expect("it fits");
    // SAFETY: the cursor is inside of the memory; an atomic store races with nothing.
    let cursor = unsafe { memory.base().cast::<AtomicU32>().as_ref() };
    cursor.store(1_000_000, Ordering::Release);
    assert_eq!(consumer.acquire(64), 4);
}

#[test]
fn a_consumer_cursor_gone_mad_gives_no_room() {
    let memory = memory(4, 8);
    let mut producer: Producer<u64> = Producer::new(memory.clone(), &OFFSET, 4).expect("it fits");
    producer.release(4);
    // SAFETY: as above.
    let cursor = unsafe { memory.base().add(64).cast::<AtomicU32>().as_ref() };
    cursor.store(7, Ordering::Release);
    assert_eq!(producer.acquire(4), 0);
}
