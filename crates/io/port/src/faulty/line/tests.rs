//! Each effect by itself, with fixed seeds, in virtual time.

use proptest::prelude::*;
use shm::PoolConfig;

use super::*;

fn pool(frames: u32) -> FramePool {
    FramePool::new(PoolConfig { frames, chunk_bytes: 2048, ..PoolConfig::default() })
        .expect("a small pool")
}

fn line(config: Impairments) -> Line {
    Line::new(config).expect("a possible line")
}

/// A frame of `len` bytes whose first four are `number`.
fn frame(pool: &mut FramePool, number: u32, len: usize) -> Frame {
    let mut frame = pool.take().expect("the pool is large enough");
    assert!(frame.set_len(len));
    frame.bytes_mut().fill(0);
    frame.bytes_mut()[..4].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &Frame) -> u32 {
    u32::from_be_bytes(frame.bytes()[..4].try_into().expect("frames here have four bytes"))
}

/// Everything that comes out by `now`, as numbers; the frames go home.
fn numbers(line: &mut Line, pool: &mut FramePool, now: Nanos) -> Vec<u32> {
    let mut all = Vec::new();
    let mut batch = Batch::new();
    while line.release(&mut batch, now) > 0 {
        for frame in batch.drain(..) {
            all.push(number(&frame));
            pool.give(frame);
        }
    }
    all
}

/// Sends `count` packets, one a microsecond, taking out what is due after each.
fn run(config: Impairments, count: u32) -> (Vec<u32>, LineCounters) {
    let mut pool = pool(2048);
    let mut line = line(config);
    let mut all = Vec::new();
    for index in 0..count {
        let now = Nanos::from_micros(u64::from(index));
        let frame = frame(&mut pool, index, 64);
        line.offer(&mut pool, frame, now);
        all.extend(numbers(&mut line, &mut pool, now));
    }
    all.extend(numbers(&mut line, &mut pool, Nanos::from_secs(3600)));
    assert_eq!(pool.outstanding(), 0, "every frame came home");
    let counters = *line.counters();
    assert_eq!(counters.offered, u64::from(count));
    assert_eq!(counters.delivered, all.len() as u64);
    (all, counters)
}

#[test]
fn a_perfect_line_passes_everything_at_once_and_in_order() {
    let (all, counters) = run(Impairments::default(), 500);
    assert_eq!(all, (0..500).collect::<Vec<_>>());
    assert_eq!(counters.lost + counters.duplicated + counters.corrupted + counters.reordered, 0);
}

#[test]
fn loss_takes_the_share_it_should() {
    for (seed, loss) in [(1, 0.01), (2, 0.1), (3, 0.5)] {
        let (all, counters) = run(Impairments { loss, seed, ..Impairments::default() }, 20_000);
        let expected = 20_000.0 * loss;
        let deviation = (expected * (1.0 - loss)).sqrt();
        assert!(
            (counters.lost as f64 - expected).abs() < 4.0 * deviation,
            "seed {seed}: lost {} of 20000 at {loss}",
            counters.lost
        );
        assert!(all.is_sorted(), "losing does not reorder");
    }
    let (all, counters) = run(Impairments { loss: 1.0, ..Impairments::default() }, 100);
    assert!(all.is_empty());
    assert_eq!(counters.lost, 100);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let config = |seed| Impairments {
        loss: 0.2,
        duplicate: 0.1,
        reorder: 0.1,
        jitter: Nanos::from_micros(5),
        seed,
        ..Impairments::default()
    };
    assert_eq!(run(config(5), 2000), run(config(5), 2000));
    assert_ne!(run(config(5), 2000).0, run(config(6), 2000).0);
}

#[test]
fn switching_one_effect_on_does_not_change_another() {
    let loss_only = Impairments { loss: 0.1, seed: 9, ..Impairments::default() };
    let with_delay = Impairments { jitter: Nanos::from_micros(3), ..loss_only.clone() };
    assert_eq!(run(loss_only, 2000).0, run(with_delay, 2000).0);
}

#[test]
fn duplicates_follow_their_original() {
    let (all, counters) = run(Impairments { duplicate: 0.1, ..Impairments::default() }, 5_000);
    assert!((counters.duplicated as f64 - 500.0).abs() < 4.0 * 21.3, "{}", counters.duplicated);
    assert_eq!(all.len() as u64, 5_000 + counters.duplicated);
    assert!(all.is_sorted());
    let pairs = all.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(pairs as u64, counters.duplicated);
}

#[test]
fn a_duplicate_without_a_frame_is_counted_and_the_original_passes() {
    let mut pool = pool(1);
    let mut line = line(Impairments { duplicate: 1.0, ..Impairments::default() });
    let frame = frame(&mut pool, 7, 64);
    line.offer(&mut pool, frame, Nanos(1));
    assert_eq!(numbers(&mut line, &mut pool, Nanos(1)), [7]);
    assert_eq!(line.counters().duplicate_no_frame, 1);
}

#[test]
fn corruption_flips_exactly_one_bit() {
    let mut pool = pool(8);
    let mut line = line(Impairments { corrupt: 1.0, ..Impairments::default() });
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let frame = frame(&mut pool, 0, 64);
        line.offer(&mut pool, frame, Nanos(1));
        let mut batch = Batch::new();
        assert_eq!(line.release(&mut batch, Nanos(1)), 1);
        let frame = batch.pop().expect("one came out");
        let ones: u32 = frame.bytes().iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(ones, 1);
        places.insert(frame.bytes().iter().position(|&byte| byte != 0));
        pool.give(frame);
    }
    assert!(places.len() > 50, "bits all over the packet: {places:?}");
    assert_eq!(line.counters().corrupted, 200);
}

#[test]
fn reordered_packets_are_overtaken_and_all_arrive() {
    let config = Impairments {
        reorder: 0.05,
        reorder_delay: Nanos::from_micros(10),
        ..Impairments::default()
    };
    let (mut all, counters) = run(config, 4_000);
    assert!((counters.reordered as f64 - 200.0).abs() < 4.0 * 13.8, "{}", counters.reordered);
    let late = all
        .iter()
        .scan(0, |highest, &number| {
            let late = number < *highest;
            *highest = number.max(*highest);
            Some(late)
        })
        .filter(|&late| late)
        .count();
    // One that is made late right after another may still leave in order with it.
    assert!(late as u64 >= counters.reordered * 9 / 10, "{late} of {}", counters.reordered);
    all.sort_unstable();
    assert_eq!(all, (0..4_000).collect::<Vec<_>>());
}

#[test]
fn delay_is_kept_to_the_nanosecond_and_jitter_never_reorders() {
    let mut pool = pool(64);
    let mut exact = line(Impairments { delay: Nanos(1_000), ..Impairments::default() });
    let only = frame(&mut pool, 1, 64);
    exact.offer(&mut pool, only, Nanos(500));
    assert_eq!(exact.next_deadline(), Nanos(1_500));
    assert!(numbers(&mut exact, &mut pool, Nanos(1_499)).is_empty());
    assert_eq!(numbers(&mut exact, &mut pool, Nanos(1_500)), [1]);
    assert_eq!(exact.next_deadline(), Nanos::FAR_FUTURE);

    let config = Impairments {
        delay: Nanos::from_micros(20),
        jitter: Nanos::from_micros(50),
        ..Impairments::default()
    };
    let (all, _) = run(config, 3_000);
    assert_eq!(all, (0..3_000).collect::<Vec<_>>());
}

#[test]
fn a_rate_spaces_packets_by_their_bits() {
    let mut pool = pool(64);
    // 1000 bytes at 8 Mb/s take a millisecond.
    let mut line =
        line(Impairments { rate_bits_per_second: Some(8_000_000), ..Impairments::default() });
    for index in 0..4 {
        let frame = frame(&mut pool, index, 1000);
        line.offer(&mut pool, frame, Nanos::ZERO);
    }
    for millis in 1..=4u64 {
        assert_eq!(line.next_deadline(), Nanos::from_millis(millis));
        let now = Nanos::from_millis(millis);
        assert_eq!(numbers(&mut line, &mut pool, now), [millis as u32 - 1]);
    }
    // An idle bottleneck does not save up.
    let frame = frame(&mut pool, 9, 1000);
    line.offer(&mut pool, frame, Nanos::from_millis(100));
    assert_eq!(line.next_deadline(), Nanos::from_millis(101));
    line.clear(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_full_queue_drops_the_tail_by_packets_or_bytes() {
    for config in [
        Impairments { queue_packets: Some(3), ..Impairments::default() },
        Impairments { queue_bytes: Some(3_999), ..Impairments::default() },
    ] {
        let mut pool = pool(64);
        let mut line = line(Impairments { rate_bits_per_second: Some(8_000_000), ..config });
        for index in 0..5 {
            let frame = frame(&mut pool, index, 1000);
            line.offer(&mut pool, frame, Nanos::ZERO);
        }
        assert_eq!(line.counters().queue_dropped, 2);
        // After a millisecond one has left and one more fits.
        for index in 5..7 {
            let frame = frame(&mut pool, index, 1000);
            line.offer(&mut pool, frame, Nanos::from_millis(1));
        }
        assert_eq!(line.counters().queue_dropped, 3);
        assert_eq!(line.counters().queue_packets_max, 3);
        assert_eq!(numbers(&mut line, &mut pool, Nanos::from_secs(1)), [0, 1, 2, 5]);
        assert_eq!(pool.outstanding(), 0);
    }
}

#[test]
fn packets_are_marked_from_the_threshold_on() {
    let mut pool = pool(64);
    let mut line = line(Impairments {
        rate_bits_per_second: Some(8_000_000),
        ecn: Some(EcnThreshold::Packets(2)),
        ..Impairments::default()
    });
    for index in 0..5u8 {
        let mut frame = frame(&mut pool, 0, 100);
        frame.bytes_mut()[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x02]);
        if index == 4 {
            // The last one's sender takes no marks.
            frame.bytes_mut()[15] = 0;
        }
        line.offer(&mut pool, frame, Nanos::ZERO);
    }
    assert_eq!((line.counters().ecn_marked, line.counters().ecn_not_capable), (2, 1));
    assert_eq!(line.counters().ecn_far_above, 1, "it found four before it");
    let mut batch = Batch::new();
    line.release(&mut batch, Nanos::from_secs(1));
    let bits: Vec<u8> = batch.iter().map(|frame| frame.bytes()[15]).collect();
    assert_eq!(bits, [2, 2, 3, 3, 0]);
    batch.drain(..).for_each(|frame| pool.give(frame));
}

#[test]
fn more_than_may_be_under_way_are_dropped_and_counted() {
    let mut pool = pool(64);
    let mut line = line(Impairments { delay: Nanos(10), held_max: 3, ..Impairments::default() });
    for index in 0..5 {
        let frame = frame(&mut pool, index, 64);
        line.offer(&mut pool, frame, Nanos::ZERO);
    }
    assert_eq!((line.held(), line.counters().held_dropped), (3, 2));
    line.clear(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn every_frame_comes_out_or_is_counted(
        seed in any::<u64>(),
        loss in 0.0..0.5f64,
        duplicate in 0.0..0.5f64,
        reorder in 0.0..0.5f64,
        delay in 0..10_000u64,
        rate in prop::option::of(1_000_000..10_000_000_000u64),
        queue in prop::option::of(1..20u32),
        held_max in 1..50u32,
    ) {
        let config = Impairments {
            loss, duplicate, reorder, seed, held_max,
            delay: Nanos(delay),
            rate_bits_per_second: rate,
            queue_packets: queue.filter(|_| rate.is_some()),
            ..Impairments::default()
        };
        let (all, counters) = run(config, 300);
        let LineCounters { offered, lost, duplicated, queue_dropped, held_dropped, .. } = counters;
        prop_assert_eq!(
            offered + duplicated,
            all.len() as u64 + lost + queue_dropped + held_dropped
        );
    }
}
