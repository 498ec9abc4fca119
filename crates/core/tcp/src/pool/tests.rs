//! The pool against vectors that do the same.

use proptest::prelude::*;

use super::*;

/// Nodes that each list gets whatever the others hold.
const FLOOR: u32 = 2;

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
fn before(pool: &Pool<u16, FLOOR>, list: &List, place: usize) -> Option<u32> {
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
        const SHARED: usize = 8;
        let mut pool = Pool::new(3, SHARED as u32);
        let mut lists = [List::EMPTY; 3];
        let mut oracle = [const { Vec::new() }; 3];
        for step in steps {
            match step {
                Step::Insert { list, place, value } => {
                    let place = place.min(oracle[list].len());
                    let at = before(&pool, &lists[list], place);
                    let above = |list: &Vec<u16>| list.len().saturating_sub(FLOOR as usize);
                    let free = SHARED - oracle.iter().map(above).sum::<usize>();
                    let own = &oracle[list];
                    let may_grow = own.len() < FLOOR as usize || above(own) < free;
                    prop_assert_eq!(pool.may_grow(&lists[list]), may_grow);
                    prop_assert_eq!(pool.insert_after(&mut lists[list], at, value), may_grow);
                    if may_grow {
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

/// How many nodes a list gets that takes all it can.
fn fill(pool: &mut Pool<u16, FLOOR>, list: &mut List) -> u32 {
    while pool.may_grow(list) {
        assert!(pool.push_back(list, 0));
    }
    list.len()
}

#[test]
fn every_list_has_its_floor_even_when_the_others_have_taken_all_they_can() {
    const LISTS: usize = 100;
    let mut pool = Pool::new(LISTS as u32, 64);
    let mut lists = [List::EMPTY; LISTS];
    let lengths: Vec<u32> = lists.iter_mut().map(|list| fill(&mut pool, list)).collect();
    assert_eq!(lengths[0], FLOOR + 32, "alone it gets half");
    assert!(lengths.is_sorted_by(|one, next| one >= next), "the share shrinks: {lengths:?}");
    assert_eq!(lengths[LISTS - 1], FLOOR);
}

#[test]
fn lists_that_want_all_they_can_get_come_to_the_same_share() {
    let mut pool = Pool::new(4, 1000);
    let mut lists = [List::EMPTY; 4];
    // The first comes first, but what it gives back it does not get again.
    for _ in 0..4000 {
        for list in &mut lists {
            fill(&mut pool, list);
            pool.pop_front(list);
        }
    }
    for list in &lists {
        let above = list.len() - FLOOR;
        assert!((195..=205).contains(&above), "each of four gets a fifth: {above}");
    }
}

#[test]
fn lists_from_elsewhere_fit_as_long_as_there_is_memory() {
    let mut pool: Pool<u16, FLOOR> = Pool::new(4, 10);
    assert!(pool.has_room_for([12].into_iter()), "more than its share");
    assert!(!pool.has_room_for([13].into_iter()));
    assert!(!pool.has_room_for([u32::MAX, u32::MAX].into_iter()));
    let mut list = List::EMPTY;
    for _ in 0..12 {
        assert!(pool.push_back(&mut list, 7));
    }
    assert!(!pool.push_back(&mut list, 7));
    assert!(pool.has_room_for([2, 2, 2].into_iter()) && !pool.has_room_for([3].into_iter()));
    pool.clear(&mut list);
    assert!(pool.has_room_for([12].into_iter()));
}
