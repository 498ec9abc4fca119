//! How many processes may be here.

use datapath::DetachReason;
use sys::clock;

use super::super::super::Member;
use super::fixture::{Fixture, me, user};

#[test]
fn processes_come_and_go_and_only_so_many_are_here_at_once() {
    let mut place = Fixture::new("");
    let (_process, join) = place.attach("one").expect("anybody may");
    let mut children: Vec<Member> = Vec::new();
    let refused = loop {
        match place.socket_table.join(&join, me()) {
            Ok((child, ..)) => children.push(child),
            Err(why) => break why,
        }
    };
    assert_eq!(children.len(), 1023, "{refused}");
    for child in children {
        place.socket_table.leave(child, DetachReason::Left, clock::now());
    }
    assert!(place.socket_table.endings.suspects.len() <= 1, "one list, whoever leaves");
    place.socket_table.join(&join, me()).expect("there is room again");
    // Those of a user count together, whichever of its applications they are of.
    let (others, _) = place.attach_as("two", user(1000)).expect("anybody may");
    let app = place.socket_table.apps.get_mut(others.member.app()).expect("it is here");
    app.pids.resize(4096, 1);
    assert!(place.attach_as("three", user(1000)).is_err(), "a quarter of all is its share");
    place.attach_as("four", user(1001)).expect("others have theirs");
}
