//! The pool against vectors that do the same.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Insert { list: usize, place: usize, value: u16 },
    Remove { list: usize, place: usize },
    Clear { list: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_usize, 0..6_usize, any::<u16>())
            .prop_map(|(list, place, value)| Step::Insert { list, place, value }),
        4 => (0..3_usize, 0..6_usize).prop_map(|(list, place)| Step::Remove { list, place }),
        1 => (0..3_usize).prop_map(|list| Step::Clear { list }),
    ]
}

/// The node before position `place`.
fn before(pool: &Pool<u16>, list: &List, place: usize) -> Option<u32> {
    let mut at = None;
    for _ in 0..place {
        at = at.map_or(list.first(), |index| pool.next(index));
    }
    at
}

proptest! {
    #[test]
    fn three_lists_in_one_pool_behave_like_three_vectors(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        const LIMIT: u32 = 10;
        let mut pool = Pool::new(LIMIT);
        let mut lists = [List::EMPTY; 3];
        let mut oracle = [const { Vec::new() }; 3];
        for step in steps {
            match step {
                Step::Insert { list, place, value } => {
                    let place = place.min(oracle[list].len());
                    let at = before(&pool, &lists[list], place);
                    let has_room = oracle.iter().map(Vec::len).sum::<usize>() < LIMIT as usize;
                    prop_assert_eq!(pool.insert_after(&mut lists[list], at, value), has_room);
                    if has_room {
                        oracle[list].insert(place, value);
                    }
                }
                Step::Remove { list, place } => {
                    let place = place.min(oracle[list].len());
                    let at = before(&pool, &lists[list], place);
                    let expected =
                        (place < oracle[list].len()).then(|| oracle[list].remove(place));
                    prop_assert_eq!(pool.remove_after(&mut lists[list], at), expected);
                }
                Step::Clear { list } => {
                    pool.clear(&mut lists[list]);
                    oracle[list].clear();
                }
            }
            for (list, expected) in lists.iter().zip(&oracle) {
                prop_assert_eq!(&pool.iter(list).copied().collect::<Vec<_>>(), expected);
                prop_assert_eq!(list.len() as usize, expected.len());
                prop_assert_eq!(list.last().map(|at| *pool.get(at)), expected.last().copied());
            }
            prop_assert_eq!(pool.used() as usize, oracle.iter().map(Vec::len).sum::<usize>());
        }
    }
}
