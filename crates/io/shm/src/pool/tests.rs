//! What a pool promises, against a set of chunk places kept beside it.

use proptest::prelude::*;

use super::*;

fn pool(frames: u32) -> FramePool {
    FramePool::new(PoolConfig { frames, chunk_bytes: 2048, numa_node: None })
        .expect("a few frames fit anywhere")
}

#[test]
fn frames_are_disjoint_and_writable_to_the_last_byte() {
    let mut pool = pool(8);
    let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(frames.len(), 8);
    for (number, frame) in frames.iter_mut().enumerate() {
        assert!(frame.set_len(frame.room()));
        frame.bytes_mut().fill(number as u8);
    }
    for (number, frame) in frames.iter().enumerate() {
        assert!(frame.bytes().iter().all(|&byte| byte == number as u8));
    }
    frames.into_iter().for_each(|frame| pool.give(frame));
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_packet_longer_than_the_chunk_is_refused_and_changes_nothing() {
    let mut pool = pool(1);
    let mut frame = pool.take().expect("one is free");
    assert!(frame.fill(b"kept"));
    assert!(!frame.fill(&[0; 2048]));
    assert_eq!(frame.bytes(), b"kept");
    pool.give(frame);
}

#[test]
fn the_kernel_returns_only_what_it_was_lent() {
    let mut pool = pool(2);
    let frame = pool.take().expect("two are free");
    let offset = pool.lend(frame).expect("it is ours");
    assert!(pool.reclaim(0, 64).is_none(), "chunk 0 is the header");
    assert!(pool.reclaim(offset + 2048, 64).is_none(), "the neighbour is not lent");
    assert!(pool.reclaim(u64::MAX, 64).is_none());
    assert!(pool.reclaim(offset, 2048).is_none(), "the packet would leave its chunk");
    let frame = pool.reclaim(offset, 60).expect("lent a moment ago");
    assert_eq!(frame.len(), 60);
    assert!(pool.reclaim(offset, 60).is_none(), "not twice");
    pool.give(frame);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_frame_outlives_its_pool_without_harm() {
    let mut pool = pool(1);
    let mut frame = pool.take().expect("one is free");
    assert!(frame.fill(b"still here"));
    drop(pool);
    assert_eq!(frame.bytes(), b"still here");
}

#[test]
fn impossible_sizes_are_refused_with_what_is_possible() {
    let error = |frames, chunk_bytes| {
        FramePool::new(PoolConfig { frames, chunk_bytes, numa_node: None })
            .expect_err("impossible")
            .to_string()
    };
    assert!(error(16, 1500).contains("2048 or 4096"));
    assert!(error(0, 4096).contains("1 to 1048574"));
    assert!(error(u32::MAX, 4096).contains("1 to 1048574"));
}

#[derive(Clone, Debug)]
enum Step {
    Take,
    Give(usize),
    Lend(usize),
    Reclaim(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Take),
        any::<usize>().prop_map(Step::Give),
        any::<usize>().prop_map(Step::Lend),
        any::<usize>().prop_map(Step::Reclaim),
    ]
}

proptest! {
    #[test]
    fn no_chunk_is_ever_in_two_places(steps in proptest::collection::vec(step(), 0..200)) {
        let mut pool = pool(7);
        let (mut out, mut kernel) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Take => out.extend(pool.take()),
                Step::Give(n) if !out.is_empty() => {
                    let n = n % out.len();
                    pool.give(out.swap_remove(n));
                }
                Step::Lend(n) if !out.is_empty() => {
                    let n = n % out.len();
                    kernel.extend(pool.lend(out.swap_remove(n)));
                }
                Step::Reclaim(n) if !kernel.is_empty() => {
                    let n = n % kernel.len();
                    out.extend(pool.reclaim(kernel.swap_remove(n), 64));
                }
                _ => {}
            }
            prop_assert_eq!(pool.outstanding(), out.len() + kernel.len());
            let mut chunks: Vec<u64> = out
                .iter()
                .map(|frame: &Frame| u64::from(frame.chunk_offset()))
                .chain(kernel.iter().map(|offset| offset & !2047))
                .collect();
            chunks.sort_unstable();
            prop_assert!(chunks.windows(2).all(|pair| pair[0] != pair[1]));
        }
        out.into_iter().for_each(|frame| pool.give(frame));
    }
}

#[test]
fn bytes_before_a_packet_are_its_own_chunks_and_there_are_no_more_than_that() {
    let config = PoolConfig { frames: 2, chunk_bytes: 2048, ..PoolConfig::default() };
    let mut pool = FramePool::new(config).expect("two chunks fit");
    let mut frame = pool.take().expect("it has two");
    assert!(frame.fill(b"packet"));
    *frame.before_mut::<8>().expect("frames have headroom") = [7; 8];
    assert_eq!(frame.bytes(), b"packet", "the packet is as it was");
    assert_eq!(frame.before_mut::<8>(), Some(&mut [7; 8]));
    assert_eq!(frame.before_mut::<2048>(), None, "that would reach into the chunk before");
    pool.give(frame);
}

#[test]
fn a_header_put_in_front_and_taken_off_again_leaves_the_packet_as_it_was() {
    let mut pool = pool(1);
    let mut frame = pool.take().expect("one is free");
    assert!(frame.fill(b"packet"));
    let room = frame.room();
    assert!(frame.push_front(3));
    frame.bytes_mut()[..3].copy_from_slice(b"in ");
    assert_eq!((frame.bytes(), frame.room()), (&b"in packet"[..], room + 3));
    assert!(frame.pull_front(3));
    assert_eq!((frame.bytes(), frame.room()), (&b"packet"[..], room));
    assert!(frame.pull_front(6) && frame.is_empty(), "a packet may be taken off whole");
    pool.give(frame);
}

#[test]
fn a_packet_begins_in_its_chunk_and_ends_not_before_it_begins() {
    let mut pool = pool(2);
    let mut frame = pool.take().expect("two are free");
    assert!(frame.fill(b"packet"));
    assert!(!frame.pull_front(7), "it is not as long");
    assert!(
        !frame.push_front(HEADROOM_BYTES as usize + 1),
        "that would reach into the chunk before"
    );
    assert!(!frame.push_front(usize::MAX) && !frame.pull_front(usize::MAX));
    assert_eq!(frame.bytes(), b"packet", "a refusal changes nothing");
    assert!(frame.push_front(HEADROOM_BYTES as usize));
    assert!(!frame.push_front(1));
    pool.give(frame);
}
