//! Next hops of datagrams, of which programs choose some and strangers others.

use std::net::IpAddr;

use base::{Nanos, PortId};
use stack::Command;
use sys::clock;

use super::super::super::reach::{Cause, REACH_MAX};
use super::super::super::routes::{Link, Whither};
use super::super::super::waiting::Unresolved;
use super::fixture::{Fixture, in_namespace, ip};

const USER: u32 = 1000;

/// A socket table in a network namespace of its own, with a port on 10.0.0.2/24 and a router at
/// 10.0.0.1, whose link address the kernel has if it `is_known`. Nobody else answers.
fn with_router(name: &str, is_known: bool, work: impl FnOnce(Fixture) + Send + 'static) {
    in_namespace(name, move || {
        // The other end is there, and silent.
        ip("link add veth0 type veth peer name veth1");
        ip("addr add 10.0.0.2/24 dev veth0");
        ip("link set veth0 up");
        ip("link set veth1 up");
        ip("route add default via 10.0.0.1");
        if is_known {
            ip("neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 dev veth0");
        }
        let interface = sys::interface::index_of("veth0").expect("it was made");
        let link = Link { interface, port: PortId(0), mac: [2; 6] };
        work(Fixture::with_links("", vec![link]));
    });
}

fn invented(at: u32) -> IpAddr {
    (0x0c00_0000 + at).to_be_bytes().into()
}

fn is_found(told: Option<Command>) -> bool {
    matches!(told, Some(Command::Resolved { next_hop: Some(_), .. }))
}

#[test]
fn invented_sources_behind_the_gateway_leave_a_users_own_new_destinations_their_way() {
    with_router("hop-a", true, |mut place| {
        let table = &mut place.socket_table;
        let now = clock::now();
        let answers = (0..10_000).map(|at| table.seek(invented(at), (USER, Cause::Answer), now));
        let found = answers.filter(|told| is_found(told.clone())).count();
        assert!((50..=100).contains(&found), "{found} looks at once");
        for at in 10_000..10_020 {
            assert!(is_found(table.seek(invented(at), (USER, Cause::Send), now)), "{at}");
        }
    });
}

#[test]
fn sources_on_the_link_that_do_not_answer_leave_a_users_own_new_destinations_their_way() {
    with_router("hop-b", true, |mut place| {
        let table = &mut place.socket_table;
        let now = clock::now();
        let on_link = |at: u32| IpAddr::from([10, 0, (at >> 8) as u8, at as u8]);
        ip("addr add 10.0.0.3/16 dev veth0");
        table.network.neighbours.hear();
        let found = table.network.neighbours.find(on_link(9), None);
        let Whither::Out(hop) = found else { panic!("{found:?}") };
        // As many as may wait. (The kernel's own table would be full before.)
        let (whose, until) = ((USER, Cause::Answer), now + REACH_MAX);
        let mut at = 256;
        while table.waiting.has_room(whose) {
            let (remote, look_at) = (on_link(at), until);
            table.waiting.add_datagrams(Unresolved { remote, whose, hop, look_at, until });
            at += 1;
        }
        assert!(table.seek(on_link(at), whose, now).is_none());
        assert!(!table.waiting.has_datagrams_to(on_link(at), Cause::Answer));
        assert!(is_found(table.seek(invented(1), (USER, Cause::Send), now)));
        // Of the silent ones, too, there is room for those that the user's programs began with.
        let is_refused = |told| matches!(told, Some(Command::Unasked { .. }));
        assert!(!is_refused(table.seek(on_link(9), (USER, Cause::Send), now)));
        assert!(table.waiting.has_datagrams_to(on_link(9), Cause::Send));
        // One that waits for an answer waits for what is sent there from now on.
        let (both, waiting) = (on_link(256), &table.waiting);
        assert!(waiting.has_datagrams_to(both, Cause::Answer));
        assert!(!waiting.has_datagrams_to(both, Cause::Send));
        assert!(table.seek(both, (USER, Cause::Send), now).is_none());
        assert!(table.waiting.has_datagrams_to(both, Cause::Send));
        // Whoever asks too often is told so, and may ask again.
        let more = (0..1000).map(|at| table.seek(on_link(10_000 + at), (USER, Cause::Send), now));
        assert!(more.filter(|told| is_refused(told.clone())).count() > 900);
    });
}

#[test]
fn a_destination_whose_next_hop_is_known_waits_for_no_look() {
    with_router("hop-c", true, |mut place| {
        let table = &mut place.socket_table;
        let now = clock::now();
        let whose = (USER, Cause::Answer);
        assert!(is_found(table.seek(invented(1), whose, now)));
        let wasted = (2..1000).map(|at| table.seek(invented(at), whose, now));
        assert!(wasted.filter(|told| !is_found(told.clone())).count() > 900);
        // No look is left: but the route there is known, and the router.
        assert!(is_found(table.seek(invented(1), whose, now)));
    });
}

#[test]
fn a_destination_that_nobody_had_looked_for_is_not_said_to_be_out_of_reach() {
    with_router("hop-d", false, |mut place| {
        let table = &mut place.socket_table;
        let now = clock::now();
        assert!(table.seek(invented(1), (USER, Cause::Send), now).is_none());
        let late = now + Nanos::from_secs(4);
        let mut looks = 0;
        while table.seek(invented(10_000 + looks), (USER, Cause::Send), late).is_none() {
            looks += 1;
        }
        let due = table.waiting.take_due_datagrams(late).remove(0);
        let told = table.look_again(due, late);
        assert!(matches!(told, Some(Command::Unasked { remote }) if remote == invented(1)));
    });
}

#[test]
fn a_destination_that_a_route_drops_has_no_next_hop_from_then_on() {
    with_router("hop-e", true, |mut place| {
        let table = &mut place.socket_table;
        let (now, whose) = (clock::now(), (USER, Cause::Send));
        assert!(is_found(table.seek(invented(1), whose, now)));
        ip("route add blackhole 12.0.0.0/8");
        // Workers hear of it, and ask again.
        assert!(table.network.neighbours.hear().routes);
        let told = table.seek(invented(1), whose, now);
        assert!(matches!(told, Some(Command::Resolved { next_hop: None, .. })), "{told:?}");
        ip("route del blackhole 12.0.0.0/8");
        table.network.neighbours.hear();
        assert!(is_found(table.seek(invented(1), whose, now)));
    });
}
