//! Reassembly against one flag per byte.

use proptest::prelude::*;

use super::*;
use crate::pool::Pool;

fn range(start: u32, len: u32) -> Range {
    Range { start: Seq(start), end: Seq(start) + len }
}

#[test]
fn the_range_that_changed_last_is_reported_first() {
    let mut pool = Pool::new(1, 20);
    let mut reassembly = Reassembly::EMPTY;
    for start in [1000, 3000, 5000, 7000, 9000] {
        assert!(reassembly.insert(&mut pool, range(start, 100), 8, |_| {}));
    }
    assert!(reassembly.insert(&mut pool, range(3100, 100), 8, |_| {}));
    let mut blocks = Blocks::default();
    reassembly.report(&pool, &mut blocks);
    let starts: Vec<u32> = blocks.as_slice().iter().map(|(start, _)| start.0).collect();
    assert_eq!(starts, [3000, 9000, 7000, 5000]);
}

#[test]
fn one_range_too_many_changes_nothing() {
    let mut pool = Pool::new(1, 20);
    let mut reassembly = Reassembly::EMPTY;
    assert!(reassembly.insert(&mut pool, range(10, 5), 2, |_| {}));
    assert!(reassembly.insert(&mut pool, range(20, 5), 2, |_| {}));
    assert!(!reassembly.insert(&mut pool, range(30, 5), 2, |_| panic!("written")));
    assert!(reassembly.insert(&mut pool, range(15, 5), 2, |_| {}), "filling a gap makes fewer");
    assert!(reassembly.holds(&pool, range(10, 15)));
    assert_eq!(pool.used(), 1);
}

proptest! {
    #[test]
    fn ranges_are_what_flags_per_byte_say(
        base: u32,
        steps in prop::collection::vec((0_u32..120, 1_u32..40, any::<bool>()), 1..60),
    ) {
        const BYTES: usize = 200;
        let mut pool = Pool::new(1, 128);
        let mut reassembly = Reassembly::EMPTY;
        let mut held = [false; BYTES];
        let mut next = 0_usize;
        for (offset, len, is_in_order) in steps {
            let start = if is_in_order { next } else { next.max(offset as usize) };
            let end = (start + len as usize).min(BYTES);
            let is_in_order = start == next;
            if end <= start {
                continue;
            }
            let new = Range { start: Seq(base) + start as u32, end: Seq(base) + end as u32 };
            let mut written = held;
            let done = reassembly.insert(&mut pool, new, 64, |part| {
                for byte in part.start.since(Seq(base))..part.end.since(Seq(base)) {
                    assert!(!written[byte as usize], "byte {byte} written twice");
                    written[byte as usize] = true;
                }
            });
            prop_assert!(done);
            held[start..end].fill(true);
            prop_assert_eq!(written, held);
            if is_in_order {
                while next < BYTES && held[next] {
                    next += 1;
                }
                let from = Seq(base) + start as u32;
                prop_assert_eq!(reassembly.advance(&mut pool, from), Seq(base) + next as u32);
            }
            // Every run of held bytes behind `next` is one range.
            let runs = (next..BYTES)
                .filter(|at| held[*at] && (*at == 0 || !held[*at - 1]))
                .count();
            prop_assert_eq!(pool.used() as usize, runs);
            let mut blocks = Blocks::default();
            reassembly.report(&pool, &mut blocks);
            prop_assert_eq!(blocks.as_slice().len(), runs.min(4));
            for (start, end) in blocks.as_slice() {
                let (start, end) = (start.since(Seq(base)) as usize, end.since(Seq(base)) as usize);
                prop_assert!(held[start..end].iter().all(|held| *held));
                prop_assert!(!held[start - 1] && (end == BYTES || !held[end]));
            }
        }
        reassembly.clear(&mut pool);
        prop_assert_eq!(pool.used(), 0);
    }
}
