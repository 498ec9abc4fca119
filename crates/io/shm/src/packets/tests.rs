//! Daemon and application over one region, honest and not.

use std::os::fd::AsFd;

use base::Epoch;

use super::*;
use crate::handover::Moving;
use crate::{FramePool, PoolConfig, ProtocolViolation};

const SIZES: PacketSizes = PacketSizes {
    workers: 2,
    ring_slots: 8,
    chunk_bytes: 2048,
    receive_chunks: 6,
    send_chunks: 2,
    handovers: 4,
};

fn both() -> (PacketServer, Vec<PacketQueue>, PacketMemory) {
    let sizes = SIZES.checked().expect("possible sizes");
    let (server, worker_queues) = PacketServer::create(sizes).expect("64 KiB fit anywhere");
    let fd = server.as_fd().try_clone_to_owned().expect("descriptors are left");
    let memory = PacketMemory::open(fd).expect("the daemon has just made it");
    (server, worker_queues, memory)
}

fn pool() -> FramePool {
    FramePool::new(PoolConfig { frames: 8, chunk_bytes: 4096, numa_node: None })
        .expect("8 frames fit anywhere")
}

fn packet(pool: &mut FramePool, bytes: &[u8]) -> crate::Frame {
    let mut frame = pool.take().expect("8 are free");
    assert!(frame.fill(bytes));
    frame
}

#[test]
fn a_packet_goes_to_the_application_and_its_answer_comes_back() {
    let (mut server, mut worker_queues, mut memory) = both();
    let mut pool = pool();
    let mut end = memory.end(1).expect("worker 1 is there");
    assert!(memory.end(1).is_none(), "only once");
    assert!(memory.end(2).is_none(), "there are two");

    let frame = packet(&mut pool, b"question");
    assert_eq!(server.deliver(&mut worker_queues[1], &frame), Ok(Delivery::Staged));
    assert!(matches!(end.receive(), Ok(Next::Empty)), "not yet published");
    assert!(worker_queues[1].publish());
    let Ok(Next::Packet(mut got)) = end.receive() else { panic!("the packet is published") };
    assert_eq!(got.bytes(), b"question");
    got.bytes_mut()[..5].copy_from_slice(b"reply");
    end.send(got).expect("there is room");
    end.arm();
    assert!(!end.publish(), "the daemon does not sleep");
    assert_eq!(server.held(), 1);

    let Ok(Some(FromApp::Packet(answer))) = server.collect(&mut worker_queues[1]) else {
        panic!("sent")
    };
    assert!(answer.0.meta.transmit);
    let mut copy = pool.take().expect("7 are free");
    assert!(server.copy_out(&answer, &mut copy));
    assert_eq!(copy.bytes(), b"replyion");
    assert_eq!((server.held(), server.collect(&mut worker_queues[1])), (0, Ok(None)));
    assert_eq!(worker_queues[1].ring(), Some(1), "the worker sleeps");
    assert_eq!(worker_queues[1].ring(), None, "and is woken once");
    pool.give(frame);
    pool.give(copy);
}

#[test]
fn an_application_that_keeps_its_buffers_gets_no_more_packets() {
    let (mut server, mut worker_queues, mut memory) = both();
    let mut pool = pool();
    let mut end = memory.end(0).expect("worker 0 is there");
    let frame = packet(&mut pool, b"x");
    for _ in 0..6 {
        assert_eq!(server.deliver(&mut worker_queues[0], &frame), Ok(Delivery::Staged));
    }
    assert_eq!(server.deliver(&mut worker_queues[0], &frame), Ok(Delivery::NoBuffer));
    assert_eq!(
        server.deliver(&mut worker_queues[1], &frame),
        Ok(Delivery::NoBuffer),
        "they share them"
    );
    worker_queues[0].publish();
    let Ok(Next::Packet(one)) = end.receive() else { panic!("six are there") };
    end.done(one).expect("there is room");
    let _ = end.publish();
    assert!(
        matches!(server.collect(&mut worker_queues[0]), Ok(Some(FromApp::Packet(done))) if !done.0.meta.transmit)
    );
    assert_eq!(server.deliver(&mut worker_queues[1], &frame), Ok(Delivery::Staged));
    pool.give(frame);
}

#[test]
fn a_frame_goes_back_by_the_end_that_gave_it_only() {
    let (mut server, mut worker_queues, mut memory) = both();
    let mut pool = pool();
    let (mut zero, mut one) = (memory.end(0).expect("there"), memory.end(1).expect("there"));
    let frame = packet(&mut pool, b"x");
    assert_eq!(server.deliver(&mut worker_queues[0], &frame), Ok(Delivery::Staged));
    worker_queues[0].publish();
    let Ok(Next::Packet(got)) = zero.receive() else { panic!("it is there") };
    let got = one.send(got).expect_err("it is worker 0's");
    let foreign = zero.send(frame).expect_err("it is the daemon's");
    zero.done(got).expect("it is worker 0's");
    pool.give(foreign);
}

#[test]
fn own_buffers_are_free_again_when_the_daemon_has_taken_their_packets() {
    let (mut server, mut worker_queues, mut memory) = both();
    let mut end = memory.end(0).expect("worker 0 is there");
    for round in 0..5_u8 {
        for _ in 0..2 {
            let mut frame = end.take().expect("honest").expect("two are free");
            assert!(frame.fill(&[round]));
            end.send(frame).expect("there is room");
        }
        assert!(end.take().expect("honest").is_none(), "both are under way");
        let _ = end.publish();
        for _ in 0..2 {
            let message = server.collect(&mut worker_queues[0]);
            assert!(matches!(message, Ok(Some(FromApp::Packet(_)))), "{message:?}");
        }
        assert!(end.take().expect("honest").is_none(), "taken but not released");
        worker_queues[0].release();
    }
    let unused = end.take().expect("honest").expect("two are free");
    end.done(unused).expect("an own buffer needs no message");
    assert_eq!(server.collect(&mut worker_queues[0]), Ok(None));
}

#[test]
fn a_barrier_waits_for_frames_that_are_out_and_is_passed_after_the_groups_are_given_up() {
    let (mut server, mut worker_queues, mut memory) = both();
    let mut pool = pool();
    let mut end = memory.end(0).expect("worker 0 is there");
    let handovers = server.handovers();
    let frame = packet(&mut pool, b"x");
    let moving = Moving::Epoch(Epoch(4));
    assert_eq!(server.deliver(&mut worker_queues[0], &frame), Ok(Delivery::Staged));
    let ticket = handovers.open(3);
    assert_eq!(worker_queues[0].control(ToApp::Barrier { ticket, moving }), Ok(true));
    worker_queues[0].publish();
    let Ok(Next::Packet(got)) = end.receive() else { panic!("it is there") };
    assert!(matches!(end.receive(), Ok(Next::FramesOut)));
    end.done(got).expect("there is room");
    assert!(matches!(end.receive(), Ok(Next::Detach(what)) if what == moving));
    assert!(handovers.is_detached(ticket));
    let _ = end.publish();
    assert!(matches!(server.collect(&mut worker_queues[0]), Ok(Some(FromApp::Packet(_)))));
    assert_eq!(server.collect(&mut worker_queues[0]), Ok(None), "the groups are not given up yet");
    assert!(matches!(end.receive(), Ok(Next::Empty)));
    let _ = end.publish();
    assert_eq!(server.collect(&mut worker_queues[0]), Ok(Some(FromApp::Passed(ticket))));

    let aborted = handovers.open(3);
    assert_eq!(worker_queues[0].control(ToApp::Barrier { ticket: aborted, moving }), Ok(true));
    assert!(handovers.abort(aborted));
    worker_queues[0].publish();
    assert!(matches!(end.receive(), Ok(Next::Empty)), "an aborted barrier means nothing");
    pool.give(frame);
}

#[test]
fn a_ring_full_of_aborted_barriers_needs_no_more_stack_than_one() {
    let sizes = PacketSizes { ring_slots: RING_SLOTS_MAX, ..SIZES }.checked().expect("possible");
    let (server, mut worker_queues) =
        PacketServer::create(sizes).expect("2 MiB a ring fit anywhere");
    let fd = server.as_fd().try_clone_to_owned().expect("descriptors are left");
    let mut memory = PacketMemory::open(fd).expect("the daemon has just made it");
    let handovers = server.handovers();
    let moving = Moving::Epoch(Epoch(4));
    for _ in 0..RING_SLOTS_MAX {
        let ticket = handovers.open(0);
        assert!(handovers.abort(ticket));
        assert_eq!(worker_queues[0].control(ToApp::Barrier { ticket, moving }), Ok(true));
    }
    worker_queues[0].publish();
    let mut end = memory.end(0).expect("worker 0 is there");
    let small = std::thread::Builder::new().stack_size(64 << 10);
    let reader = small.spawn(move || matches!(end.receive(), Ok(Next::Empty)));
    assert!(reader.expect("threads are left").join().expect("no assertion failed"));
}

#[test]
fn a_discarded_frame_no_longer_keeps_the_memory_mapped() {
    let (mut server, mut worker_queues, mut memory) = both();
    let mut pool = pool();
    let mut end = memory.end(0).expect("worker 0 is there");
    let frame = packet(&mut pool, b"x");
    assert_eq!(server.deliver(&mut worker_queues[0], &frame), Ok(Delivery::Staged));
    worker_queues[0].publish();
    let foreign = end.discard(frame).expect_err("it is the daemon's");
    pool.give(foreign);
    let Ok(Next::Packet(got)) = end.receive() else { panic!("it is there") };
    let own = end.take().expect("honest").expect("two are free");
    end.discard(got).expect("it is this end's");
    end.discard(own).expect("it is this end's");
    assert_eq!(end.received_out(), 0);
}

#[test]
fn each_kind_of_violation_is_found_out_and_named() {
    let violation = |desc: &dyn Fn(&mut base::FrameDesc)| {
        let (mut server, mut worker_queues, mut memory) = both();
        let mut pool = pool();
        let mut end = memory.end(0).expect("worker 0 is there");
        let frame = packet(&mut pool, b"12345678");
        assert_eq!(server.deliver(&mut worker_queues[0], &frame), Ok(Delivery::Staged));
        worker_queues[0].publish();
        let Ok(Next::Packet(got)) = end.receive() else { panic!("it is there") };
        let mut told = *got.desc();
        desc(&mut told);
        end.forge(FromApp::Packet(Packet(told)).encode());
        pool.give(frame);
        server.collect(&mut worker_queues[0])
    };
    assert!(matches!(violation(&|_| ()), Ok(Some(_))), "what is true is no violation");
    assert_eq!(violation(&|desc| desc.offset = 64), Err(ProtocolViolation::Buffer));
    assert_eq!(violation(&|desc| desc.offset = u32::MAX), Err(ProtocolViolation::Buffer));
    assert_eq!(violation(&|desc| desc.len = 4096), Err(ProtocolViolation::Buffer));
    assert_eq!(violation(&|desc| desc.len = u32::MAX), Err(ProtocolViolation::Buffer));
    assert_eq!(violation(&|desc| desc.offset += 2048), Err(ProtocolViolation::NotHeld));
    // To send a buffer of its own is its right; to give one back is work for nothing.
    let own = SIZES.receive_chunks * SIZES.chunk_bytes;
    assert_eq!(violation(&|desc| desc.offset += own), Err(ProtocolViolation::NotHeld));
    let sent = violation(&|desc| (desc.offset, desc.meta.transmit) = (desc.offset + own, true));
    assert!(matches!(sent, Ok(Some(_))), "{sent:?}");
}

#[test]
fn sizes_that_cannot_be_are_refused_with_what_can() {
    for (part, sizes) in [
        ("workers", PacketSizes { workers: 65, ..SIZES }),
        ("power of two", PacketSizes { ring_slots: 12, ..SIZES }),
        ("2048 or 4096", PacketSizes { chunk_bytes: 1500, ..SIZES }),
        ("receive buffers", PacketSizes { receive_chunks: 0, ..SIZES }),
        ("send buffers", PacketSizes { send_chunks: u32::MAX, ..SIZES }),
        ("hand-overs", PacketSizes { handovers: 0, ..SIZES }),
    ] {
        let error = sizes.checked().expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn one_thread_waits_for_many_workers_and_is_rung_for_those_that_it_watches_only() {
    let (mut server, mut worker_queues, mut memory) = both();
    let mut pool = pool();
    let other = memory.end(1).expect("there");
    let set = memory.ready_to_app();
    let frame = packet(&mut pool, b"x");
    let mut say = |worker_queues: &mut [PacketQueue]| {
        assert_eq!(server.deliver(&mut worker_queues[1], &frame), Ok(Delivery::Staged));
        assert!(worker_queues[1].publish());
        worker_queues[1].ring()
    };
    set.doorbell().arm();
    assert_eq!(say(&mut worker_queues), None, "nobody watches it");
    other.watch(Some(0));
    assert!(other.has_next(), "what came before is found by a look");
    assert_eq!(say(&mut worker_queues), Some(0));
    assert_eq!(say(&mut worker_queues), None, "once a sleep");
    let mut ready = Vec::new();
    set.claim(&mut 0, 64, |claimed| ready.push(claimed.queue()));
    assert_eq!(ready, [1]);
    set.doorbell().arm();
    other.watch(Some(99));
    assert_eq!(say(&mut worker_queues), None, "there is no such worker");
    other.watch(None);
    other.arm();
    assert_eq!(say(&mut worker_queues), Some(1));
    pool.give(frame);
}

#[test]
fn a_worker_that_says_something_is_marked_for_the_daemon() {
    let (server, _worker_queues, mut memory) = both();
    let mut end = memory.end(1).expect("worker 1 is there");
    assert!(!end.publish(), "nothing to say");
    assert!(server.ready().is_quiet());
    let frame = end.take().expect("honest").expect("two are free");
    end.send(frame).expect("there is room");
    server.arm();
    assert!(end.publish(), "the daemon sleeps");
    let mut ready = Vec::new();
    server.ready().claim(&mut 0, 64, |claimed| ready.push(claimed.queue()));
    assert_eq!(ready, [1]);
}
