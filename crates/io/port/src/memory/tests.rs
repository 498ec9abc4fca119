//! Two ends, one pool.

use shm::PoolConfig;

use super::*;

fn pool() -> FramePool {
    let config = PoolConfig { frames: 128, chunk_bytes: 2048, ..PoolConfig::default() };
    FramePool::new(config).expect("a small pool")
}

fn numbered(pool: &mut FramePool, numbers: impl IntoIterator<Item = u8>) -> Batch {
    numbers
        .into_iter()
        .map(|number| {
            let mut frame = pool.take().expect("the pool is large enough");
            assert!(frame.fill(&[number; 60]));
            frame
        })
        .collect()
}

fn numbers(batch: &Batch) -> Vec<u8> {
    batch.iter().map(|frame| frame.bytes()[0]).collect()
}

fn give_all(pool: &mut FramePool, batch: &mut Batch) {
    batch.drain(..).for_each(|frame| pool.give(frame));
}

#[test]
fn frames_cross_in_order_and_all_come_home() {
    let mut pool = pool();
    let (mut a, mut b) = wire(16);
    let mut out = numbered(&mut pool, 0..10);
    assert_eq!(a.tx(&mut pool, &mut out, Nanos(1)), 10);
    assert!(out.is_empty());
    let mut got = Batch::new();
    assert_eq!(b.rx(&mut pool, &mut got, Nanos(2)), 10);
    assert_eq!(numbers(&got), (0..10).collect::<Vec<_>>());
    assert_eq!(got[3].meta().received_at, Nanos(2));
    assert_eq!(got[3].meta().port, PortId(1));
    assert_eq!(b.tx(&mut pool, &mut got, Nanos(3)), 10);
    assert_eq!(a.rx(&mut pool, &mut got, Nanos(4)), 10);
    give_all(&mut pool, &mut got);
    assert_eq!(pool.outstanding(), 0);
    assert_eq!((a.counters().tx_packets, b.counters().rx_bytes), (10, 600));
}

#[test]
fn the_receiver_knows_nothing_of_what_the_sender_knew() {
    let mut pool = pool();
    let (mut a, mut b) = wire(4);
    let mut out = numbered(&mut pool, 0..1);
    let meta = out[0].meta_mut();
    meta.flow_hash = base::FlowHash(7);
    meta.checksum = base::ChecksumState::Verified;
    meta.l4_offset = 34;
    a.tx(&mut pool, &mut out, Nanos(1));
    let mut got = Batch::new();
    b.rx(&mut pool, &mut got, Nanos(2));
    let meta = got[0].meta();
    assert_eq!((meta.flow_hash, meta.l4_offset), (base::FlowHash(0), 0));
    assert_eq!(meta.checksum, base::ChecksumState::Unknown);
    give_all(&mut pool, &mut got);
}

#[test]
fn a_full_wire_leaves_the_rest_with_the_caller_in_order() {
    let mut pool = pool();
    let (mut a, mut b) = wire(4);
    let mut out = numbered(&mut pool, 0..10);
    assert_eq!(a.tx(&mut pool, &mut out, Nanos(1)), 4);
    assert_eq!(numbers(&out), (4..10).collect::<Vec<_>>());
    assert_eq!(a.tx(&mut pool, &mut out, Nanos(1)), 0);
    assert_eq!(a.counters().tx_full, 2);
    let mut got = Batch::new();
    b.rx(&mut pool, &mut got, Nanos(2));
    assert_eq!(a.tx(&mut pool, &mut out, Nanos(3)), 4);
    b.rx(&mut pool, &mut got, Nanos(4));
    assert_eq!(numbers(&got), (0..8).collect::<Vec<_>>());
    give_all(&mut pool, &mut got);
    give_all(&mut pool, &mut out);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_batch_that_is_nearly_full_takes_only_what_fits() {
    let mut pool = pool();
    let (mut a, mut b) = wire(64);
    let mut out = numbered(&mut pool, 0..20);
    a.tx(&mut pool, &mut out, Nanos(1));
    let mut got = numbered(&mut pool, 100..159);
    assert_eq!(got.remaining_capacity(), 5);
    assert_eq!(b.rx(&mut pool, &mut got, Nanos(2)), 5);
    assert_eq!(numbers(&got)[59..], [0, 1, 2, 3, 4]);
    assert_eq!(b.waiting(), 15);
    give_all(&mut pool, &mut got);
    b.close(&mut pool);
    a.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_frame_longer_than_the_link_is_dropped_and_counted() {
    let mut pool = pool();
    let (mut a, mut b) = wire(4);
    let mut out = numbered(&mut pool, 0..3);
    assert!(out[1].set_len(1523));
    assert_eq!(a.tx(&mut pool, &mut out, Nanos(1)), 3);
    assert_eq!((a.counters().tx_oversize, a.counters().tx_packets), (1, 2));
    let mut got = Batch::new();
    b.rx(&mut pool, &mut got, Nanos(2));
    assert_eq!(numbers(&got), [0, 2]);
    give_all(&mut pool, &mut got);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn an_end_without_a_peer_says_so() {
    let mut pool = pool();
    let (mut a, b) = wire(4);
    assert_eq!(a.fault(), None);
    drop(b);
    assert_eq!(a.fault(), Some(Fault::PeerGone));
    a.close(&mut pool);
    let mut out = numbered(&mut pool, 0..1);
    assert_eq!(a.tx(&mut pool, &mut out, Nanos(1)), 0);
    give_all(&mut pool, &mut out);
}
