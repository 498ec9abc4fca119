//! The window against a set of all numbers, and on several cores.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn packet_is_accepted_once() {
    let replay = Replay::new(64, false);
    assert_eq!(replay.accept(1), Ok(()));
    assert_eq!(replay.check(1), Err(Stale::Replayed));
    assert_eq!(replay.accept(1), Err(Stale::Replayed));
    assert_eq!(replay.accept(3), Ok(()));
    assert_eq!(replay.accept(2), Ok(()), "a late one that has not come yet");
}

#[test]
fn question_accepts_nothing() {
    let replay = Replay::new(64, false);
    assert_eq!(replay.check(1 << 30), Ok(()));
    assert_eq!(replay.check(1 << 30), Ok(()));
    assert_eq!(replay.accept(1), Ok(()), "the window has not moved");
}

#[test]
fn number_zero_is_none() {
    assert_eq!(Replay::new(64, false).accept(0), Err(Stale::TooOld));
}

#[test]
fn packet_behind_the_window_is_too_old() {
    let replay = Replay::new(64, false);
    let window = replay.window;
    assert_eq!(replay.accept(1000), Ok(()));
    assert_eq!(replay.accept(1000 - window), Err(Stale::TooOld));
    assert_eq!(replay.accept(1000 - window + 1), Ok(()));
}

#[test]
fn last_short_number_is_accepted_and_none_behind_it() {
    let replay = Replay::new(64, false);
    assert_eq!(replay.accept(u64::from(u32::MAX)), Ok(()));
    assert_eq!(replay.whole(1), 1);
    assert_eq!(replay.accept(1), Err(Stale::TooOld));
}

#[test]
fn extended_number_is_the_one_nearest_to_the_window() {
    let replay = Replay::new(64, true);
    assert_eq!(replay.whole(5), 5);
    assert_eq!(replay.accept((1 << 32) - 2), Ok(()));
    assert_eq!(replay.whole(u32::MAX), (1 << 32) - 1, "ahead, the same half");
    assert_eq!(replay.whole(0), 1 << 32, "ahead, the next half");
    assert_eq!(replay.whole(0xffff_fff0), 0xffff_fff0, "behind");
    assert_eq!(replay.accept((1 << 32) + 3), Ok(()));
    assert_eq!(replay.whole(0xffff_ffff), 0xffff_ffff, "behind, in the half before");
    assert_eq!(replay.whole(4), (1 << 32) + 4);
}

#[test]
fn cores_that_share_a_window_accept_each_packet_once() {
    let replay = Replay::new(1024, false);
    let accepted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 1..=20_000 {
                    if replay.accept(number) == Ok(()) {
                        accepted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    // One that ran ahead may have made numbers too old for all others, but it took them itself.
    assert_eq!(accepted.into_inner(), 20_000);
}

proptest! {
    #[test]
    fn window_agrees_with_a_set_of_all_numbers(
        window in WINDOW_MIN..2000,
        steps in prop::collection::vec(-3000i64..2000, 1..2000),
    ) {
        let replay = Replay::new(window, true);
        let window = replay.window;
        let mut seen = BTreeSet::new();
        let mut top = 0u64;
        for step in steps {
            let number = top.saturating_add_signed(step);
            let expected = if number == 0 || number + window <= top {
                Err(Stale::TooOld)
            } else if seen.contains(&number) {
                Err(Stale::Replayed)
            } else {
                Ok(())
            };
            prop_assert_eq!(replay.check(number), expected);
            prop_assert_eq!(replay.accept(number), expected);
            if expected == Ok(()) {
                seen.insert(number);
                top = top.max(number);
            }
        }
    }
}
