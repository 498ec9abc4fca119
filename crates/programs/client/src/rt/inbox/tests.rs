//! Claims, ages, bounds; and the order within a flow in any schedule of owner and thieves.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[test]
fn a_claimed_class_is_nobody_elses_until_it_is_released() {
    let inbox = Inbox::new(10);
    let mut cursor = 0;
    assert_eq!(inbox.claim(&mut cursor), None);
    for packet in 0..3 {
        inbox.put(FlowGroup(5), Nanos(1), packet).expect("there is room");
    }
    let ready = inbox.claim(&mut cursor).expect("class 5 has packets");
    assert_eq!((ready.queue(), inbox.take(&ready)), (5, Some(0)));
    assert_eq!(inbox.claim(&mut cursor), None);
    assert!(inbox.is_quiet());
    assert_eq!(inbox.release(ready), Released::Ready);
    let ready = inbox.claim(&mut cursor).expect("the rest is there");
    assert_eq!(
        (inbox.take(&ready), inbox.take(&ready), inbox.take(&ready)),
        (Some(1), Some(2), None)
    );
    inbox.put(FlowGroup(5 + CLASSES), Nanos(1), 3).expect("there is room");
    assert_eq!(inbox.release(ready), Released::Ready, "what came in between is not forgotten");
    let ready = inbox.claim(&mut cursor).expect("the last one is there");
    assert_eq!(inbox.take(&ready), Some(3));
    assert_eq!(inbox.release(ready), Released::Empty);
    assert_eq!(inbox.claim(&mut cursor), None);
}

#[test]
fn no_more_packets_wait_than_there_may() {
    let inbox = Inbox::new(2);
    assert_eq!([1, 2, 3].map(|n| inbox.put(FlowGroup(n), Nanos(1), n)), [Ok(()), Ok(()), Err(3)]);
    let ready = inbox.claim(&mut 0).expect("they are there");
    assert_eq!(inbox.take(&ready), Some(1));
    assert_eq!(inbox.put(FlowGroup(3), Nanos(1), 3), Ok(()));
    assert_eq!(inbox.drain(), [2, 3]);
    assert_eq!(inbox.put(FlowGroup(3), Nanos(1), 4), Ok(()));
}

#[test]
fn a_thief_gets_a_class_only_when_its_oldest_packet_has_waited_long_enough() {
    let inbox = Inbox::new(10);
    inbox.put(FlowGroup(1), Nanos(1000), 'a').expect("there is room");
    inbox.put(FlowGroup(2), Nanos(500), 'b').expect("there is room");
    inbox.put(FlowGroup(2), Nanos(900), 'c').expect("there is room");
    assert!(inbox.claim_old(Nanos(600), Nanos(100)).is_none());
    let stolen = inbox.claim_old(Nanos(601), Nanos(100)).expect("b is old").expect("nobody else");
    assert_eq!((stolen.queue(), inbox.take(&stolen)), (2, Some('b')));
    assert!(!inbox.is_late(Nanos(1000), Nanos(100)), "c waits since later, and a is new");
    assert_eq!(inbox.release(stolen), Released::Ready);
    assert!(inbox.is_late(Nanos(1001), Nanos(100)));
    // A class that somebody holds is not to be had, and does not look late either.
    let held = inbox.claim(&mut 2).expect("class 2");
    assert_eq!(inbox.claim_old(Nanos(1050), Nanos(100)), None);
    assert_eq!(inbox.claim_old(Nanos(1101), Nanos(100)).expect("class 1").expect("old").queue(), 1);
    assert_eq!(inbox.release(held), Released::Ready);
}

#[test]
fn a_class_that_is_stolen_again_and_again_is_noted_once() {
    let inbox = Inbox::new(10);
    inbox.put(FlowGroup(1), Nanos(1), ()).expect("there is room");
    let ready = inbox.claim(&mut 0).expect("it is there");
    assert_eq!((0..100).filter(|_| inbox.note_steal(&ready)).count(), 1);
    inbox.release(ready);
}

/// A claimed class, and the packet of it that is worked on: its flow and number.
type Hand = (Ready, Option<(u32, u32)>);

/// A step of one of the consumers, or a packet of a flow.
#[derive(Clone, Copy, Debug)]
enum Step {
    Packet {
        flow: u32,
    },
    /// What it has is done; it takes the next one, of the class that it has or of another.
    Next {
        consumer: usize,
    },
    /// What it has is done, and it lets go.
    Leave {
        consumer: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6_u32).prop_map(|flow| Step::Packet { flow }),
        4 => (0..3_usize).prop_map(|consumer| Step::Next { consumer }),
        1 => (0..3_usize).prop_map(|consumer| Step::Leave { consumer }),
    ]
}

proptest! {
    /// Consumer 0 is the owner, the others are thieves of any packet that is older than 2 steps.
    #[test]
    fn packets_of_a_flow_are_done_in_order_and_one_at_a_time_whoever_takes_them(
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let inbox = Inbox::new(1000);
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut done: HashMap<u32, u32> = HashMap::new();
        let mut hands: [Option<Hand>; 3] = [None, None, None];
        let mut cursor = 0;
        let mut put = 0;
        let drain = (0..2000).map(|n| Step::Next { consumer: n % 3 });
        let leave = (0..3).map(|consumer| Step::Leave { consumer });
        let rest = leave.clone().chain(drain).chain(leave);
        for (now, step) in steps.into_iter().chain(rest).enumerate() {
            let now = Nanos(now as u64);
            match step {
                Step::Packet { flow } => {
                    let number = numbers.entry(flow).or_default();
                    // Flows 0 and 3 share a class, as do 1 and 4, 2 and 5.
                    let packet = (flow, *number);
                    prop_assert_eq!(inbox.put(FlowGroup(flow % 3), now, packet), Ok(()));
                    *number += 1;
                    put += 1;
                }
                Step::Next { consumer } | Step::Leave { consumer } => {
                    let mut hand = hands[consumer].take();
                    if let Some((_, Some((flow, number)))) = hand.as_mut().map(|h| (&h.0, h.1.take())) {
                        let next = done.entry(flow).or_default();
                        prop_assert_eq!(number, *next, "flow {}", flow);
                        *next += 1;
                    }
                    if matches!(step, Step::Leave { .. }) {
                        if let Some((ready, _)) = hand {
                            inbox.release(ready);
                        }
                        continue;
                    }
                    let ready = match hand {
                        Some((ready, _)) => Some(ready),
                        None if consumer == 0 => inbox.claim(&mut cursor),
                        None => match inbox.claim_old(now, Nanos(2)) {
                            Some(Ok(ready)) => Some(ready),
                            Some(Err(ready)) => {
                                inbox.release(ready);
                                None
                            }
                            None => None,
                        },
                    };
                    let Some(ready) = ready else { continue };
                    match inbox.take(&ready) {
                        Some(packet) => {
                            let is_held = hands.iter().flatten().any(|(other, _)| *other == ready);
                            prop_assert!(!is_held, "two have the class");
                            hands[consumer] = Some((ready, Some(packet)));
                        }
                        None => {
                            inbox.release(ready);
                        }
                    }
                }
            }
        }
        prop_assert_eq!(done.values().sum::<u32>(), put, "every packet was done");
    }
}

#[test]
fn threads_that_claim_from_one_another_keep_every_flow_in_order() {
    const PACKETS: u32 = 20_000;
    let inbox = Inbox::new(PACKETS as usize);
    let seen: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
    let left = AtomicU32::new(PACKETS);
    std::thread::scope(|scope| {
        for thread in 0..2_u32 {
            let (inbox, seen, left) = (&inbox, &seen, &left);
            scope.spawn(move || {
                let mut cursor = thread * 3;
                while left.load(Ordering::Acquire) > 0 {
                    let Some(ready) = inbox.claim(&mut cursor) else {
                        std::thread::yield_now();
                        continue;
                    };
                    for _ in 0..4 {
                        let Some((flow, number)) = inbox.take(&ready) else { break };
                        let seen: &AtomicU32 = &seen[flow as usize];
                        assert_eq!(seen.load(Ordering::Relaxed), number, "flow {flow}");
                        seen.store(number + 1, Ordering::Relaxed);
                        left.fetch_sub(1, Ordering::AcqRel);
                    }
                    inbox.release(ready);
                }
            });
        }
        for packet in 0..PACKETS {
            let (flow, number) = (packet % 8, packet / 8);
            inbox.put(FlowGroup(flow % 5), Nanos(1), (flow, number)).expect("there is room");
        }
    });
    assert!(inbox.is_quiet());
}
