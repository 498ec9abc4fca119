//! One thread for many workers.

use std::time::{Duration, Instant};

use crate::common::{Folder, attached};
use calisto_client::{DetachReason, Nanos, ReadyWorkers, Verdict};
use shm::packets::Delivery;

const SOON: Nanos = Nanos::from_millis(1);
const LATE: Nanos = Nanos::from_secs(10);

fn payload(ready: &mut ReadyWorkers, timeout: Nanos) -> Option<Vec<u8>> {
    let worker = ready.next(timeout).expect("it is attached")?;
    let mut bytes = Vec::new();
    let count = worker.step(|frame| {
        bytes = frame.bytes().to_vec();
        Verdict::Done
    });
    assert_eq!(count, Ok(1));
    Some(bytes)
}

#[test]
fn a_thread_gets_those_of_its_workers_that_have_something_and_no_others() {
    let folder = Folder::new("group");
    let (mut served, _app, workers) = attached(&folder, &folder.options().workers(48));
    served.deliver(7, b"before");
    let mut ready = ReadyWorkers::new(workers).expect("all of one application");
    assert_eq!(payload(&mut ready, SOON).as_deref(), Some(&b"before"[..]));
    assert_eq!(payload(&mut ready, SOON), None);
    for round in 0..200_u32 {
        let numbers = [round % 48, (round * 7 + 5) % 48];
        for number in numbers {
            served.deliver(number as usize, &number.to_le_bytes());
        }
        let mut came: Vec<u32> = (0..2)
            .filter_map(|_| payload(&mut ready, LATE))
            .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
            .collect();
        came.sort_unstable();
        let mut sent = numbers;
        sent.sort_unstable();
        if sent[0] != sent[1] {
            assert_eq!(came, sent);
        }
        while payload(&mut ready, Nanos::ZERO).is_some() {}
        // Empties the ring of what was given back.
        numbers.iter().for_each(|&number| assert_eq!(served.sent(number as usize), None));
    }
    let sleeps: Vec<u64> = ready.workers().iter().map(|worker| worker.counters().sleeps).collect();
    assert_eq!(sleeps.iter().sum::<u64>(), sleeps[0], "one of them sleeps for all");
}

#[test]
fn a_sleeping_group_is_woken_for_any_of_its_workers_and_each_packet_once() {
    let folder = Folder::new("group-sleeps");
    let (mut served, _app, workers) = attached(&folder, &folder.options().workers(16));
    const PACKETS: usize = 300;
    let mut ready = ReadyWorkers::new(workers).expect("all of one application");
    std::thread::scope(|scope| {
        let consumer = scope.spawn(move || {
            let mut received = 0;
            while received < PACKETS {
                let worker = ready.next(LATE).expect("attached").expect("within ten seconds");
                received += worker.step(|_| Verdict::Done).expect("attached");
            }
            received
        });
        for packet in 0..PACKETS {
            let worker = packet * 5 % 16;
            // A consumer that is away for a while leaves rings and buffers full.
            while served.deliver(worker, b"x") != Delivery::Staged {
                (0..16).for_each(|worker| _ = served.sent(worker));
                std::thread::yield_now();
            }
            // Long enough for a sleep, mostly, and sometimes not.
            if packet % 3 != 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
            // Frames that were given back are taken by then or later.
            (0..16).for_each(|worker| _ = served.sent(worker));
        }
        assert_eq!(consumer.join().expect("it does not panic"), PACKETS);
    });
}

#[test]
fn there_is_one_group_at_a_time_and_a_later_one_misses_nothing() {
    let folder = Folder::new("groups");
    let (mut served, _app, mut workers) = attached(&folder, &folder.options().workers(4));
    let rest = workers.split_off(2);
    let first = ReadyWorkers::new(workers).expect("all of one application");
    let rest = ReadyWorkers::new(rest).expect_err("there is one already");
    served.deliver(2, b"alone");
    served.deliver(0, b"nobody takes it");
    drop(first);
    let mut second = ReadyWorkers::new(rest).expect("the other one is gone");
    assert_eq!(payload(&mut second, SOON).as_deref(), Some(&b"alone"[..]));
    served.deliver(3, b"later");
    assert_eq!(payload(&mut second, LATE).as_deref(), Some(&b"later"[..]));
    assert!(ReadyWorkers::new(Vec::new()).is_err());
}

#[test]
fn a_group_whose_daemon_is_gone_says_so_and_does_not_wait() {
    let folder = Folder::new("group-end");
    let (served, _app, workers) = attached(&folder, &folder.options().workers(4));
    let mut ready = ReadyWorkers::new(workers).expect("all of one application");
    drop(served);
    let begun = Instant::now();
    let detached = ready.next(LATE).expect_err("the daemon is gone");
    assert_eq!(detached.reason, DetachReason::DaemonGone);
    assert!(begun.elapsed() < Duration::from_secs(5));
}
