//! One winner, and no power for late tickets.

#[cfg(not(loom))]
mod sequential {
    use crate::Handovers;

    #[test]
    fn the_first_of_detach_and_abort_wins_and_the_other_learns_it() {
        let handovers = Handovers::new(2);
        let ticket = handovers.open(1);
        assert!(handovers.detach(ticket));
        assert!(!handovers.abort(ticket));
        assert!(handovers.is_detached(ticket));

        let ticket = handovers.open(1);
        assert!(handovers.abort(ticket));
        assert!(!handovers.detach(ticket));
        assert!(!handovers.is_detached(ticket));
    }

    #[test]
    fn a_ticket_of_an_earlier_use_of_the_slot_can_do_nothing() {
        let handovers = Handovers::new(1);
        let old = handovers.open(0);
        assert!(handovers.abort(old));
        let new = handovers.open(0);
        assert!(!handovers.detach(old));
        assert!(!handovers.abort(old));
        assert!(handovers.detach(new));
    }
}

#[cfg(loom)]
mod loom {
    use crate::{Handovers, ring};

    /// The whole move in small: worker A has one packet queued before the ticket and one held
    /// behind it; the dispatcher aborts at an arbitrary moment or sees A detach. Packet 2 must be
    /// processed by exactly one worker, after packet 1, whoever wins.
    #[test]
    fn loom_a_move_ends_in_release_or_abort_and_never_reorders() {
        #[derive(Debug, PartialEq)]
        enum Item {
            Packet(u32),
            Barrier(crate::Ticket),
        }
        loom::model(|| {
            let handovers = Handovers::new(1);
            let (mut to_a, mut from_dispatcher) = ring(4);
            let (mut to_dispatcher, mut from_a) = ring(4);
            let ticket = handovers.open(0);
            assert!(to_a.push(Item::Packet(1)).is_ok());
            assert!(to_a.push(Item::Barrier(ticket)).is_ok());

            let seen_by_a = handovers.clone();
            let worker = loom::thread::spawn(move || {
                let mut processed = Vec::new();
                while let Some(item) = from_dispatcher.pop() {
                    match item {
                        Item::Packet(number) => processed.push(number),
                        Item::Barrier(ticket) => {
                            if seen_by_a.detach(ticket) {
                                assert!(to_dispatcher.push(ticket).is_ok());
                            }
                        }
                    }
                }
                (processed, from_dispatcher)
            });

            // The deadline passes here, at a moment of loom's choice.
            let mut processed_by_b = Vec::new();
            let aborted = handovers.abort(ticket);
            if aborted {
                assert!(to_a.push(Item::Packet(2)).is_ok());
            }
            let (mut processed_by_a, mut rest) = worker.join().expect("the worker only pops");
            while let Some(Item::Packet(number)) = rest.pop() {
                processed_by_a.push(number);
            }
            if !aborted {
                assert_eq!(from_a.pop(), Some(ticket), "detached means posted");
                processed_by_b.push(2);
            }
            if aborted {
                // A may have stopped popping before the ticket; it then still holds everything.
                assert!(matches!(processed_by_a[..], [1, 2]), "{processed_by_a:?}");
            } else {
                assert_eq!((processed_by_a, processed_by_b), (vec![1], vec![2]));
            }
        });
    }
}
