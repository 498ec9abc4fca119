//! What is held for connections, and for how long.

use base::{AppId, Generation, SlotId};
use sys::port_guard::PortGuard;

use super::*;

fn key((app, slot, generation): (u16, u32, u32)) -> SocketKey {
    (AppId(app), SlotId(slot), Generation(generation))
}

fn name(port: u16) -> Ends {
    let local = SocketAddr::from(([10, 0, 0, 1], port));
    (local, SocketAddr::from(([10, 0, 0, 2], 80)))
}

#[test]
fn a_name_stays_taken_until_no_late_segment_can_come() {
    let mut claims = Claims::new(Vec::new(), Vec::new());
    let (mut holds, mut descriptors) = (Holds::default(), Descriptors::of(100));
    for slot in 0..3 {
        let ends = name(slot as u16);
        claims.add_flow(flow(ends)).expect("there is no interface to refuse");
        holds.add(key((1, slot, 7)), 5, ends, slot != 2, None);
    }
    let at = Nanos::from_secs;
    holds.finish(key((1, 0, 7)), at(60));
    holds.finish(key((1, 0, 7)), at(1));
    assert!(!holds.has(key((1, 0, 7))) && holds.has(key((1, 1, 7))));
    holds.finish_all(AppId(1), at(50));
    assert_eq!(holds.next_deadline(), at(50));
    holds.tend(at(50), &mut claims, &mut descriptors);
    assert!(claims.has_flow(flow(name(0))) && !claims.has_flow(flow(name(1))));
    assert!(!claims.has_flow(flow(name(2))));
    assert!(holds.has_chosen(name(0)) && !holds.has_chosen(name(1)));
    holds.tend(at(60), &mut claims, &mut descriptors);
    assert!(!claims.has_flow(flow(name(0))) && !holds.has_chosen(name(0)));
    assert_eq!(holds.next_deadline(), Nanos::FAR_FUTURE);
    assert_eq!((holds.ports.of(5), holds.flows.of(5)), (0, 0));
}

#[test]
fn the_name_of_a_connection_that_the_kernel_goes_on_with_is_given_up_at_once_and_no_other() {
    let mut claims = Claims::new(Vec::new(), Vec::new());
    let (mut holds, mut descriptors) = (Holds::default(), Descriptors::of(100));
    for slot in 0..3 {
        let ends = name(slot as u16);
        claims.add_flow(flow(ends)).expect("there is no interface to refuse");
        holds.add(key((1, slot, 7)), 5, ends, true, None);
    }
    holds.finish(key((1, 2, 7)), Nanos::from_secs(60));
    holds.give_to_kernel(key((1, 0, 7)), &mut claims, &mut descriptors);
    let taken = [0, 1, 2].map(|port| claims.has_flow(flow(name(port))));
    assert_eq!(taken, [false, true, true]);
    assert!(!holds.has_chosen(name(0)) && holds.has(key((1, 1, 7))) && holds.has_chosen(name(2)));
}

#[test]
fn names_of_connections_that_are_over_go_early_by_who_has_most_of_them() {
    let mut claims = Claims::new(Vec::new(), Vec::new());
    let (mut holds, mut descriptors) = (Holds::default(), Descriptors::of(100));
    holds.add(key((2, 0, 1)), 6, name(60_000), true, None);
    holds.finish(key((2, 0, 1)), Nanos(1));
    for slot in 0..LEAVING_MAX as u32 + 100 {
        holds.add(key((1, slot, 1)), 5, name(slot as u16), true, None);
        holds.finish(key((1, slot, 1)), Nanos(1_000_000 + u64::from(slot)));
    }
    holds.tend(Nanos(0), &mut claims, &mut descriptors);
    assert_eq!(holds.leaving.len(), LEAVING_MAX);
    assert!(holds.has_chosen(name(60_000)), "another's does not go for them");
    assert!(!holds.has_chosen(name(100)) && holds.has_chosen(name(101)), "the oldest went");
}

#[test]
fn a_users_share_of_ports_is_used_up_by_what_is_open_and_not_by_what_is_over() {
    let mut claims = Claims::new(Vec::new(), Vec::new());
    let (mut holds, mut shares) = (Holds::of(40), Descriptors::of(100));
    for slot in 0..10 {
        assert_eq!(holds.make_room(5, &mut claims, &mut shares), Ok(true), "{slot}");
        holds.add(key((1, slot, 1)), 5, name(slot as u16), true, None);
    }
    assert_eq!(holds.make_room(5, &mut claims, &mut shares), Ok(false));
    assert_eq!(holds.make_room(6, &mut claims, &mut shares), Ok(true), "another user has its own");
    assert_eq!(holds.make_room(0, &mut claims, &mut shares), Ok(true));
    holds.finish(key((1, 3, 1)), Nanos::from_secs(60));
    let told = holds.make_room(5, &mut claims, &mut shares);
    assert_eq!(told, Ok(true), "what is over makes room");
    assert!(!holds.has_chosen(name(3)));
}

#[test]
fn a_port_is_shared_by_connections_of_one_user_to_different_peers() {
    let mut claims = Claims::new(Vec::new(), Vec::new());
    let (mut holds, mut descriptors) = (Holds::of(40), Descriptors::of(100));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let local = listener.local_addr().expect("it is bound");
    drop(listener);
    let peer = |port| SocketAddr::from(([10, 0, 0, 2], port));
    let guard =
        Guard::new(Payer { uid: 5, app: AppId(1) }, &mut descriptors, || PortGuard::hold(local));
    let guard = guard.expect("a share is left").expect("the port is free");
    holds.add(key((1, 0, 1)), 5, (local, peer(80)), true, Some(guard));
    assert!(holds.shared_port(local.ip(), peer(80), 5).is_none(), "that name is taken");
    assert!(holds.shared_port(local.ip(), peer(81), 6).is_none(), "another user's port");
    assert!(holds.shared_port(IpAddr::from([127, 0, 0, 2]), peer(81), 5).is_none());
    let (shared, guard) = holds.shared_port(local.ip(), peer(81), 5).expect("there is one");
    assert_eq!(shared, local);
    holds.add(key((1, 1, 1)), 5, (local, peer(81)), true, Some(guard));
    assert_eq!(holds.ports.of(5), 1, "one port for both");
    holds.finish(key((1, 0, 1)), Nanos::ZERO);
    holds.tend(Nanos(1), &mut claims, &mut descriptors);
    assert_eq!(holds.ports.of(5), 1);
    holds.finish(key((1, 1, 1)), Nanos::ZERO);
    holds.tend(Nanos(1), &mut claims, &mut descriptors);
    assert_eq!(holds.ports.of(5), 0);
}

#[test]
fn all_connections_from_one_port_share_a_guard_and_the_last_gives_it_back() {
    let mut claims = Claims::new(Vec::new(), Vec::new());
    let (mut holds, mut descriptors) = (Holds::default(), Descriptors::of(100));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let local = listener.local_addr().expect("it is bound");
    drop(listener);
    for slot in 0..3 {
        let guard = holds.guard_of(local).unwrap_or_else(|| {
            let guard = Guard::new(Payer { uid: 5, app: AppId(1) }, &mut descriptors, || {
                PortGuard::hold(local)
            });
            guard.expect("a share is left").expect("the port is free")
        });
        let remote = SocketAddr::from(([10, 0, 0, 2], 80 + slot as u16));
        holds.add(key((1, slot, 1)), 5, (local, remote), false, Some(guard));
    }
    assert_eq!(descriptors.of_user(5), 1);
    holds.finish(key((1, 0, 1)), Nanos::ZERO);
    holds.finish(key((1, 1, 1)), Nanos::ZERO);
    holds.tend(Nanos(1), &mut claims, &mut descriptors);
    assert!(descriptors.of_user(5) == 1 && holds.guard_of(local).is_some());
    holds.finish(key((1, 2, 1)), Nanos::ZERO);
    holds.tend(Nanos(1), &mut claims, &mut descriptors);
    assert!(descriptors.of_user(5) == 0 && holds.guard_of(local).is_none());
    let unused =
        Guard::new(Payer { uid: 5, app: AppId(1) }, &mut descriptors, || PortGuard::hold(local));
    let unused = unused.expect("a share is left").expect("the port is free again");
    assert!(unused.give_up(&mut descriptors) && descriptors.of_user(5) == 0);
}
