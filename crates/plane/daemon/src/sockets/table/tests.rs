//! The socket table without workers: who comes in, what they are told, and what is left when they
//! go.

mod closed_datagrams;
mod connected_elsewhere;
mod fixture;
mod held;
mod next_hops;
mod packet_mode;
mod processes;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use attach::{
    Call, FallbackReason, JoinRequest, PeerCredentials, Profile, RegionKind, Reply, SocketsRequest,
};
use base::{AppId, Generation, SlotId};
use datapath::DetachReason;
use shm::sockets::{Asks, Backlog, Entry, Kind, Side, SlotState};
use sys::clock;

use self::fixture::{Fixture, Process, listener, map, me, slot, socket, user};
use super::super::records::{Record, What};
use super::super::routes::Link;
use super::SocketTable;

#[test]
fn a_process_comes_in_another_joins_by_the_token_and_both_are_gone_when_they_have_left() {
    let mut place = Fixture::new("");
    let (process, join) = place.attach("one").expect("anybody may");
    let wrong = JoinRequest { token: "0".repeat(32), ..join.clone() };
    assert!(place.socket_table.join(&wrong, me()).is_err());
    let (child, streaming, _) = place.socket_table.join(&join, me()).expect("it knows the token");
    assert_eq!(streaming.region, process.region.0);
    place.socket_table.leave(process.member, DetachReason::Died, clock::now());
    assert_eq!(place.socket_table.count(), 1, "the child is still there");
    place.socket_table.leave(child, DetachReason::Left, clock::now());
    let gone = place.socket_table.take_gone();
    assert_eq!((place.socket_table.count(), gone.len()), (0, 1));
    assert_eq!(gone[0].reason, DetachReason::Left);
    assert!(place.socket_table.join(&join, me()).is_err(), "nobody is there to join");
}

#[test]
fn a_program_of_another_user_does_not_join_by_the_ticket_that_it_was_started_with() {
    let mut place = Fixture::new("");
    let request = SocketsRequest {
        name: "root".into(),
        profile: Profile::Safe,
        features: 0,
        token_before: None,
    };
    let came = place.socket_table.attach(&request, me(), clock::now());
    let (_member, streaming, _) = came.expect("anybody may");
    let ticket = JoinRequest { app: streaming.app, token: streaming.ticket };
    let helpers = [user(65534), PeerCredentials { gid: 65534, ..me() }];
    for helper in helpers {
        let refused = place.socket_table.join(&ticket, helper).err().expect("it is another's");
        assert!(refused.contains("another user's or group's"), "{refused}");
    }
    let totals: Vec<_> = place.socket_table.fallbacks.totals().collect();
    assert_eq!(totals, [(FallbackReason::OtherCredentials, 2)]);
    place.socket_table.join(&ticket, me()).expect("it is its own");
    let token = JoinRequest { token: streaming.token, ..ticket };
    place.socket_table.join(&token, helpers[0]).expect("only memory that was forked has that");
}

#[test]
fn pollers_are_of_the_process_that_asked_and_end_with_it() {
    let mut place = Fixture::new("");
    let (mut process, join) = place.attach("one").expect("anybody may");
    let answer = place.call(&mut process, &Call::Poller, None);
    assert_eq!((answer.reply.clone(), answer.descriptors.len()), (Reply::Poller { poller: 0 }, 1));
    let (child, ..) = place.socket_table.join(&join, me()).expect("it knows the token");
    let region = process.region;
    let mut child = Process { member: child, memory: process.memory.clone(), region };
    let answer = place.call(&mut child, &Call::DropPoller { poller: 0 }, None);
    assert_eq!(answer.reply, Reply::Errno { errno: 22 }, "it is not the child's");
    assert_eq!(place.call(&mut child, &Call::Poller, None).reply, Reply::Poller { poller: 1 });
    place.socket_table.leave(process.member, DetachReason::Died, clock::now());
    assert_eq!(place.call(&mut child, &Call::Poller, None).reply, Reply::Poller { poller: 0 });
    assert_eq!(place.call(&mut child, &Call::DropPoller { poller: 1 }, None).reply, Reply::Done);
    for _ in 1..256 {
        assert!(matches!(place.call(&mut child, &Call::Poller, None).reply, Reply::Poller { .. }));
    }
    assert_eq!(place.call(&mut child, &Call::Poller, None).reply, Reply::Errno { errno: 28 });
}

#[test]
fn two_programs_here_are_connected_and_everything_goes_back_when_descriptors_are_closed() {
    let mut place = Fixture::new("");
    let (mut server, _) = place.attach("server").expect("anybody may");
    let (mut client, _) = place.attach("client").expect("anybody may");
    let (listening, address) = listener();
    let listen = Call::Listen { backlog: 8 };
    let at = slot(&place.call(&mut server, &listen, Some(&listening)));
    assert_eq!(at.0, server.region);
    let again = place.call(&mut server, &listen, Some(&listening));
    assert_eq!(slot(&again), at, "listening twice is listening once");

    let connecting = [socket(), socket()];
    let connect = Call::Connect { remote: address };
    let first = place.call(&mut client, &connect, Some(&connecting[0]));
    let (_, one) = slot(&first);
    assert_eq!(first.descriptors.len(), 3, "memory, the other side's doorbell, the own one");
    let memory = map(first);
    let second = place.call(&mut client, &connect, Some(&connecting[1]));
    assert_eq!(second.descriptors.len(), 0, "it has been given already");
    let words = memory.slot(one).expect("it was lent");
    assert!(words.state().has(SlotState::CONNECTED) && words.state().has(SlotState::LOCAL));
    assert_eq!(words.remote.get(), Some(address));
    let bound = sys::socket::local_address(connecting[0].as_fd()).expect("it is a socket");
    assert_eq!(words.local.get(), Some(bound), "the port is reserved in the kernel too");

    // The server takes them, in order.
    let listener_words = server.memory.slot(at.1).expect("it was lent");
    let entry = Backlog::take(&server.memory, listener_words).expect("two wait");
    assert_eq!(entry.slot, one.next());
    let given = place.call(&mut server, &Call::Region { region: entry.region.0 }, None);
    assert_eq!(given.reply, Reply::Region { kind: RegionKind::LocalPair, side: 1 });
    assert_eq!(given.descriptors.len(), 3);
    let denied = place.call(&mut client, &Call::Region { region: server.region.0 }, None);
    assert_eq!(denied.reply, Reply::Errno { errno: 13 }, "another's memory");
    let peer = map(given);
    let accepted = peer.slot(entry.slot).expect("it was lent");
    assert_eq!((accepted.local.get(), accepted.remote.get()), (Some(address), Some(bound)));
    let visible = socket();
    let cookie = sys::socket::cookie_of(visible.as_fd()).expect("it is a socket");
    accepted.cookie.store(cookie, std::sync::atomic::Ordering::Relaxed);
    accepted.asks.fetch_or(Asks::NAMED, std::sync::atomic::Ordering::Release);

    // Whoever closes, the other is told; both gone, the pair is free.
    drop(visible);
    place.wait_until(|_| accepted.asks().has(Asks::CLOSE));
    assert!(!words.asks().has(Asks::CLOSE));
    let number_of_rows =
        |socket_table: &mut SocketTable| match socket_table.socket_rows(None, 0, 100) {
            admin::ReplyBody::Sockets { sockets, .. } => sockets.len(),
            other => panic!("{other:?}"),
        };
    place.wait_until(|socket_table| number_of_rows(socket_table) == 4);
    drop(connecting);
    // The second waits at the listener still: it ends with it.
    place.wait_until(|socket_table| number_of_rows(socket_table) == 2);
    drop(listening);
    place.wait_until(|socket_table| number_of_rows(socket_table) == 0);
    place.socket_table.leave(client.member, DetachReason::Left, clock::now());
    place.socket_table.leave(server.member, DetachReason::Left, clock::now());
    assert_eq!((place.socket_table.count(), place.socket_table.local_pairs.len()), (0, 0));
    assert!(place.socket_table.regions.is_empty());
}

#[test]
fn what_a_killed_process_had_taken_and_not_named_is_found_and_what_waits_is_left_alone() {
    let mut place = Fixture::new("");
    let (mut process, join) = place.attach("server").expect("anybody may");
    let (mut client, _) = place.attach("client").expect("anybody may");
    let (child, ..) = place.socket_table.join(&join, me()).expect("it knows the token");
    let (listening, address) = listener();
    let (region, listener) =
        slot(&place.call(&mut process, &Call::Listen { backlog: 8 }, Some(&listening)));
    // As a worker would: two connections have come. And two from a program here.
    let words = process.memory.slot(listener).expect("it was lent");
    let app = &place.socket_table.apps.get(process.member.app()).expect("it is here");
    let (_, _, at) = place.socket_table.records.listeners().next().expect("it listens");
    let server = &app.streams.server;
    let came = [0; 2].map(|_| server.lend_slot().expect("there are slots"));
    for slot in came {
        assert!(at.backlog.push(server.memory(), words, Entry { region, slot }));
    }
    let connecting = [socket(), socket()];
    let connect = Call::Connect { remote: address };
    for one in &connecting {
        slot(&place.call(&mut client, &connect, Some(one)));
    }
    let taken = [0; 3].map(|_| Backlog::take(&process.memory, words).expect("four wait"));
    // Whatever is written there.
    let violation = process.memory.slot(came[0]).expect("it was lent");
    violation.generation.store(77, std::sync::atomic::Ordering::Relaxed);
    place.socket_table.leave(child, DetachReason::Died, clock::now());
    let app = &place.socket_table.apps.get(process.member.app()).expect("it is here");
    let found: Vec<_> = place.socket_table.nameless(app).into_iter().map(|one| one.place).collect();
    let expected: Vec<_> = taken.iter().map(|entry| (entry.region, entry.slot)).collect();
    assert_eq!(found, expected);
    assert_eq!(
        place.socket_table.nameless(app)[0].generation,
        app.streams.server.generation(came[0])
    );
    // The one from here ends on the other side, soon after.
    let later = clock::now() + base::Nanos::from_secs(3);
    place.socket_table.tend(&mut place.claims, later);
    let local_pair = place.socket_table.local_pairs.values().next().expect("they have talked");
    let half = local_pair.words(taken[2].slot).expect("it was lent");
    assert!(half.asks().has(Asks::CLOSE));
}

#[test]
fn names_of_files_that_never_were_keep_no_application_that_has_no_process() {
    let mut place = Fixture::new("");
    let (process, _) = place.attach("liar").expect("anybody may");
    let number = process.member.app();
    let what = What::Unsent;
    let record =
        Record { app: number, generation: Generation(1), cookie: u64::MAX, inode: 0, what };
    place.socket_table.records.insert((process.region, SlotId(3)), record);
    place.socket_table.leave(process.member, DetachReason::Died, clock::now());
    assert_eq!(place.socket_table.count(), 1, "somebody might hold that file");
    place.socket_table.tend(&mut place.claims, clock::now() + base::Nanos::from_secs(3));
    assert_eq!(place.socket_table.count(), 0);
}

#[test]
fn a_name_that_comes_late_is_not_that_of_the_socket_that_has_the_slot_by_now() {
    let mut place = Fixture::new("");
    let (process, _) = place.attach("one").expect("anybody may");
    let number = process.member.app();
    let server = &place.socket_table.apps.get(number).expect("it is here").streams.server;
    let slot = server.lend_slot().expect("there are slots");
    let before = server.generation(slot);
    server.take_back_slot(slot);
    assert_eq!(server.lend_slot(), Some(slot));
    let generation = server.generation(slot);
    let at = (process.region, slot);
    let record = Record { app: number, generation, cookie: 7, inode: 0, what: What::Stream };
    place.socket_table.records.insert(at, record);
    place.socket_table.name(number, slot, before, 6, clock::now());
    let record = place.socket_table.records.get(at).expect("it is still there");
    assert_eq!((record.generation, record.cookie), (generation, 7));
}

#[test]
fn an_application_lives_as_long_as_one_of_its_sockets() {
    let mut place = Fixture::new("");
    let (mut process, _) = place.attach("one").expect("anybody may");
    let (listening, _) = listener();
    slot(&place.call(&mut process, &Call::Listen { backlog: 1 }, Some(&listening)));
    place.socket_table.leave(process.member, DetachReason::Left, clock::now());
    assert_eq!(place.socket_table.count(), 1, "a descriptor went elsewhere, or through exec");
    let (mut heir, _) = place.attach("heir").expect("anybody may");
    let adopted = slot(&place.call(&mut heir, &Call::Adopt, Some(&listening)));
    assert_eq!(adopted.0, process.region);
    let given = place.call(&mut heir, &Call::Region { region: adopted.0.0 }, None);
    assert_eq!(given.reply, Reply::Region { kind: RegionKind::App, side: 0 });
    let stranger = place.call(&mut heir, &Call::Adopt, Some(&socket()));
    assert_eq!(stranger.reply, Reply::Kernel { reason: FallbackReason::NotOurs });
    drop(listening);
    place.wait_until(|socket_table| socket_table.count() == 1);
}

#[test]
fn a_socket_that_another_group_was_handed_does_not_bring_its_applications_memory() {
    let mut place = Fixture::new("");
    let (mut process, _) = place.attach("one").expect("anybody may");
    let (listening, _) = listener();
    slot(&place.call(&mut process, &Call::Listen { backlog: 1 }, Some(&listening)));
    for who in [PeerCredentials { gid: 65534, ..me() }, user(65534)] {
        let (mut thief, _) = place.attach_as("thief", who).expect("anybody may");
        let refused = place.call(&mut thief, &Call::Adopt, Some(&listening));
        assert_eq!(refused.reply, Reply::Kernel { reason: FallbackReason::NotOurs });
        let given = place.call(&mut thief, &Call::Region { region: process.region.0 }, None);
        assert!(given.descriptors.is_empty());
    }
}

#[test]
fn both_ends_of_a_connection_within_the_host_can_be_adopted() {
    let mut place = Fixture::new("");
    let (mut server, _) = place.attach("server").expect("anybody may");
    let (mut heir, _) = place.attach("heir").expect("anybody may");
    let (listening, address) = listener();
    let (_, at) = slot(&place.call(&mut server, &Call::Listen { backlog: 8 }, Some(&listening)));
    let connecting = socket();
    let connect = Call::Connect { remote: address };
    let opened = place.call(&mut server, &connect, Some(&connecting));
    let own = slot(&opened);
    let memory = map(opened);
    let words = server.memory.slot(at).expect("it was lent");
    let entry = Backlog::take(&server.memory, words).expect("one waits");
    let accepted = socket();
    let half = memory.slot(entry.slot).expect("it was lent");
    let cookie = sys::socket::cookie_of(accepted.as_fd()).expect("it is a socket");
    half.cookie.store(cookie, std::sync::atomic::Ordering::Relaxed);
    half.asks.fetch_or(Asks::NAMED, std::sync::atomic::Ordering::Release);
    for (side, (visible, expected)) in
        [(&connecting, own), (&accepted, (entry.region, entry.slot))].into_iter().enumerate()
    {
        let adopted = place.call(&mut heir, &Call::Adopt, Some(visible));
        assert_eq!(slot(&adopted), expected);
        let region = expected.0;
        let given = place.call(&mut heir, &Call::Region { region: region.0 }, None);
        let side = side as u8;
        assert_eq!(given.reply, Reply::Region { kind: RegionKind::LocalPair, side });
        assert_eq!(given.descriptors.len(), 3);
    }
}

#[test]
fn a_connection_that_is_given_on_before_its_worker_has_told_its_name_can_be_adopted() {
    let mut place = Fixture::new("");
    let (process, _) = place.attach("server").expect("anybody may");
    let (mut heir, _) = place.attach("heir").expect("anybody may");
    let number = process.member.app();
    let server = &place.socket_table.apps.get(number).expect("it is here").streams.server;
    let at = server.lend_slot().expect("there are slots");
    let accepted = socket();
    let words = process.memory.slot(at).expect("it was lent");
    words.state.store(Kind::Stream as u32 | SlotState::CONNECTED, Ordering::Release);
    let cookie = sys::socket::cookie_of(accepted.as_fd()).expect("it is a socket");
    words.cookie.store(cookie, Ordering::Release);
    words.asks.fetch_or(Asks::NAMED, Ordering::Release);
    let (mut thief, _) = place.attach_as("thief", user(65534)).expect("anybody may");
    let refused = place.call(&mut thief, &Call::Adopt, Some(&accepted));
    assert_eq!(refused.reply, Reply::Kernel { reason: FallbackReason::NotOurs });
    let adopted = place.call(&mut heir, &Call::Adopt, Some(&accepted));
    assert_eq!(slot(&adopted), (process.region, at));
}

#[test]
fn a_socket_that_does_not_listen_yet_is_served_and_takes_the_port_from_nobody() {
    let mut place = Fixture::new("");
    let (mut process, _) = place.attach("one").expect("anybody may");
    let bound = |address: SocketAddr| {
        let socket = socket();
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
        let address = sys::socket::bind(socket.as_fd(), address).expect("nobody listens there");
        (socket, address)
    };
    let (first, address) = bound("127.0.0.1:0".parse().expect("an address"));
    let (second, _) = bound(address);
    let listen = Call::Listen { backlog: 8 };
    let at = slot(&place.call(&mut process, &listen, Some(&first)));
    assert_eq!(
        rustix::net::sockopt::socket_acceptconn(&first),
        Ok(true),
        "nobody may come between"
    );
    let late = place.call(&mut process, &listen, Some(&second));
    assert_eq!(late.reply, Reply::Errno { errno: 98 });
    assert_eq!(slot(&place.call(&mut process, &listen, Some(&first))), at, "it listens on");
    // Another may have it once the first is closed, also before that was heard of.
    drop(first);
    let begun = std::time::Instant::now();
    let answer = loop {
        // The copies that came with calls are closed where nobody waits.
        let answer = place.call(&mut process, &listen, Some(&second));
        if answer.reply != late.reply || begun.elapsed() > std::time::Duration::from_secs(10) {
            break answer;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert_ne!(slot(&answer), at);
}

#[test]
fn who_is_only_bound_takes_no_callers_from_a_listener_whoever_serves_that() {
    let mut place = Fixture::new("");
    let (mut honest, _) = place.attach("honest").expect("anybody may");
    let (mut thief, _) = place.attach("thief").expect("anybody may");
    let listen = Call::Listen { backlog: 8 };
    for is_served in [false, true] {
        let bound = |address: SocketAddr| {
            let socket = socket();
            rustix::net::sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
            let address = sys::socket::bind(socket.as_fd(), address).expect("nobody listens there");
            (socket, address)
        };
        let (stolen, address) = bound("127.0.0.1:0".parse().expect("an address"));
        let (own, _) = bound(address);
        rustix::net::listen(&own, 8).expect("it is the first");
        let listeners = place.socket_table.records.listeners().count();
        let served = is_served.then(|| slot(&place.call(&mut honest, &listen, Some(&own))));
        let answer = place.call(&mut thief, &listen, Some(&stolen));
        assert_eq!(answer.reply, Reply::Errno { errno: 98 });
        // Whoever calls on this host comes to the one that listens.
        let connect = Call::Connect { remote: address };
        let caller = socket();
        let (mut client, _) = place.attach("client").expect("anybody may");
        let answer = place.call(&mut client, &connect, Some(&caller));
        assert_eq!(matches!(answer.reply, Reply::Slot { .. }), is_served);
        let now: Vec<_> = place.socket_table.records.listeners().map(|(place, ..)| place).collect();
        assert_eq!(now.len(), listeners + usize::from(is_served), "the thief has none");
        assert!(served.is_none_or(|served| now.contains(&served)));
    }
}

#[test]
fn programs_of_two_users_share_no_memory() {
    let mut place = Fixture::new("");
    let (mut server, _) = place.attach("server").expect("anybody may");
    let (mut client, _) = place.attach_as("client", user(7)).expect("anybody may");
    let (listening, address) = listener();
    slot(&place.call(&mut server, &Call::Listen { backlog: 8 }, Some(&listening)));
    let connect = Call::Connect { remote: address };
    let answer = place.call(&mut client, &connect, Some(&socket()));
    assert_eq!(answer.reply, Reply::Kernel { reason: FallbackReason::OtherUser });
    assert_eq!((answer.descriptors.len(), place.socket_table.local_pairs.len()), (0, 0));
}

#[test]
fn an_end_is_told_by_the_pollers_own_pipe_and_waits_for_nobody() {
    let mut place = Fixture::new("");
    let (mut server, _) = place.attach("server").expect("anybody may");
    let (mut client, _) = place.attach("client").expect("anybody may");
    let (listening, address) = listener();
    slot(&place.call(&mut server, &Call::Listen { backlog: 8 }, Some(&listening)));
    let poller = place.call(&mut client, &Call::Poller, None);
    assert_eq!(poller.reply, Reply::Poller { poller: 0 });
    let connecting = socket();
    let answer = place.call(&mut client, &Call::Connect { remote: address }, Some(&connecting));
    let (_, at) = slot(&answer);
    // The client has the daemon's eventfds wait, and fills them.
    for wake in &answer.descriptors[1..] {
        rustix::io::write(wake, &(u64::MAX - 1).to_ne_bytes()).expect("it is empty");
        let flags = rustix::fs::fcntl_getfl(wake).expect("it is a descriptor");
        let flags = flags - rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(wake, flags).expect("it is a descriptor");
    }
    let memory = map(answer);
    memory.slot(at).expect("it was lent").pollers[0].fetch_or(1, Ordering::AcqRel);
    assert!(memory.poller(Side::Zero, 0).expect("it is there").arm(), "there is no news");
    place.socket_table.leave(server.member, DetachReason::Died, clock::now());
    drop(listening);
    let pipe = &poller.descriptors[0];
    let mut byte = [0];
    place.wait_until(|_| rustix::io::read(pipe, &mut byte[..]).is_ok_and(|count| count == 1));
}

#[test]
fn a_tenant_gets_an_error_or_the_kernel_for_what_it_may_not_do() {
    let rule = |denied| format!("[[tenant]]\nuid = 0\nlisten = []\napps = 1\ndenied = '{denied}'");
    for (denied, reply) in [
        ("refuse", Reply::Errno { errno: 13 }),
        ("kernel", Reply::Kernel { reason: FallbackReason::NotPermitted }),
    ] {
        let mut place = Fixture::new(&rule(denied));
        let (mut process, _) = place.attach("one").expect("one may");
        let (listening, _) = listener();
        let answer = place.call(&mut process, &Call::Listen { backlog: 1 }, Some(&listening));
        assert_eq!(answer.reply, reply);
        assert!(place.attach("two").is_err_and(|why| why.contains("may have no more")));
    }
}

#[test]
fn the_programs_of_a_user_share_its_connections_and_its_memory() {
    let mut place = Fixture::new("[[tenant]]\nuid = 0\nconnections = 5\nmemory_mib = 1");
    let (mut one, _) = place.attach("one").expect("anybody may");
    let (mut other, _) = place.attach("other").expect("anybody may");
    let listen = Call::Listen { backlog: 1 };
    let sockets = [0; 3].map(|_| listener());
    for (listening, _) in &sockets[..2] {
        slot(&place.call(&mut one, &listen, Some(listening)));
    }
    // A connection within the host has two ends.
    let connecting = [socket(), socket()];
    let connect = Call::Connect { remote: sockets[0].1 };
    slot(&place.call(&mut other, &connect, Some(&connecting[0])));
    let answer = place.call(&mut other, &connect, Some(&connecting[1]));
    let full = Reply::Kernel { reason: FallbackReason::TooManySockets };
    assert_eq!(answer.reply, full, "one of five is left");
    slot(&place.call(&mut other, &listen, Some(&sockets[2].0)));
    let more = listener().0;
    assert_eq!(place.call(&mut one, &listen, Some(&more)).reply, full);
    place.socket_table.leave(other.member, DetachReason::Left, clock::now());
    drop((sockets, connecting));
    place.wait_until(|socket_table| socket_table.apps.iter().all(|app| app.quota.slots() == 0));
    assert_eq!((place.socket_table.count(), place.socket_table.apps.count()), (1, 1));
    slot(&place.call(&mut one, &listen, Some(&more)));
}

#[test]
fn a_program_that_left_keeps_in_memory_only_what_its_last_connections_have() {
    let mut place = Fixture::new("");
    let (process, _) = place.attach("one").expect("anybody may");
    // As a worker has it that still sends what the program has left.
    let orphan = place.socket_table.apps.iter().next().map(|app| app.streams.clone());
    let orphan = orphan.expect("it is here");
    let heap = orphan.server.heap();
    let [_kept, free] = [14, 16].map(|log2| heap.lend(log2).expect("there is memory"));
    heap.take_back(free);
    place.socket_table.leave(process.member, DetachReason::Died, clock::now());
    place.socket_table.tend_memory(clock::now() + base::Nanos::from_secs(1));
    assert_eq!((place.socket_table.count(), heap.resident_bytes()), (0, 1 << 14));
}

#[test]
fn programs_that_were_put_out_are_remembered_with_why_and_as_many_of_a_user_as_there_is_room_for() {
    let mut place = Fixture::new("");
    let mut put_out = |reasons: &[DetachReason]| {
        for reason in reasons {
            let (_process, join) = place.attach("one").expect("anybody may");
            place.socket_table.detach(AppId(join.app as u16), *reason, clock::now());
        }
        match place.socket_table.fallback_rows(clock::now()) {
            admin::ReplyBody::Fallbacks { put_out, .. } => put_out,
            other => panic!("{other:?}"),
        }
    };
    let [left, died] = [DetachReason::Left, DetachReason::Died];
    let rows = put_out(&[left, DetachReason::Protocol, died, DetachReason::Operator]);
    let told: Vec<_> = rows.iter().map(|row| (row.reason.as_str(), row.pids[0])).collect();
    let pid = std::process::id();
    assert_eq!(told, [("operator", pid), ("protocol", pid)], "the others went by themselves");
    assert_eq!(put_out(&[DetachReason::Stalled; 40]).len(), 32);
}

#[test]
fn what_is_not_here_is_left_to_the_kernel_and_remembered_with_its_reason() {
    let mut place = Fixture::new("");
    let (mut process, _) = place.attach("one").expect("anybody may");
    let (_kernel, address) = listener();
    let one = socket();
    let answer = place.call(&mut process, &Call::Connect { remote: address }, Some(&one));
    let nobody = FallbackReason::LoopbackPeerNotAccelerated;
    assert_eq!(answer.reply, Reply::Kernel { reason: nobody });
    let many = Call::Connect { remote: "224.0.0.1:9".parse().expect("an address") };
    let answer = place.call(&mut process, &many, Some(&one));
    assert_eq!(answer.reply, Reply::Kernel { reason: FallbackReason::Multicast });
    let unbound = place.call(&mut process, &Call::Udp { remote: None }, Some(&one));
    assert_eq!(unbound.reply, Reply::Kernel { reason: FallbackReason::RawOrOtherProtocol });
    let said = Call::Fallback { reason: FallbackReason::TcpUlp };
    assert_eq!(place.call(&mut process, &said, Some(&one)).reply, Reply::Done);
    let out_of_room = place.call(&mut process, &Call::Listen { backlog: 1 }, None);
    assert_eq!(out_of_room.reply, Reply::Kernel { reason: FallbackReason::DaemonBusy });
    let admin::ReplyBody::Fallbacks { sockets, totals, .. } =
        place.socket_table.fallback_rows(base::Nanos::ZERO)
    else {
        panic!("it is asked for these");
    };
    assert_eq!((sockets.len(), totals.len()), (4, 4), "the latest first: {sockets:?}");
    assert_eq!(sockets[0].reason, "tcp_ulp");
    assert!(sockets.iter().all(|row| row.inode == sys::socket::inode_of(one.as_fd()).unwrap_or(0)));
    drop(one);
    place.wait_until(|socket_table| {
        let admin::ReplyBody::Fallbacks { sockets, .. } =
            socket_table.fallback_rows(base::Nanos::ZERO)
        else {
            return false;
        };
        sockets.is_empty()
    });
}

#[test]
fn a_socket_table_that_is_drained_takes_nothing_new_and_tells_everybody_at_the_end() {
    let mut place = Fixture::new("");
    let (mut process, _) = place.attach("one").expect("anybody may");
    let (listening, address) = listener();
    slot(&place.call(&mut process, &Call::Listen { backlog: 1 }, Some(&listening)));
    place.socket_table.drain(clock::now());
    place.wait_until(|socket_table| socket_table.is_drained());
    let answer = place.call(&mut process, &Call::Connect { remote: address }, Some(&socket()));
    assert_eq!(answer.reply, Reply::Kernel { reason: FallbackReason::DaemonBusy });
    assert!(place.attach("two").is_err());
    place.socket_table.detach_all(DetachReason::DaemonEnds, clock::now());
    let state = process.memory.state().load(std::sync::atomic::Ordering::Acquire);
    assert_eq!(state, attach::DetachReason::Stopping.number());
}

#[test]
fn a_connection_that_bears_a_listeners_cookie_does_not_pass_for_that_listener() {
    const LOOPBACK: u32 = 1;
    let lo = Link { interface: LOOPBACK, port: base::PortId(0), mac: [0; 6] };
    let mut place = Fixture::with_links("", vec![lo]);
    let (process, _) = place.attach_as("thief", user(1000)).expect("anybody may");
    let (listener, address) = listener();
    let table = &mut place.socket_table;
    assert!(table.is_anothers(address, 1000), "it is this process's user's");
    // What a program writes as the name of a connection that it has accepted is its own word.
    let cookie = sys::socket::cookie_of(listener.as_fd()).expect("every socket has one");
    let app = process.member.app;
    let forged = Record { app, generation: Generation(0), cookie, inode: 0, what: What::Stream };
    table.records.insert((process.region, SlotId(0)), forged);
    assert!(table.is_anothers(address, 1000), "a program's word takes it from its user");
    assert!(!table.is_anothers(address, 0), "nobody is another than himself");
}

#[test]
fn a_socket_that_listens_does_not_connect() {
    let mut place = Fixture::new("");
    let (mut process, _) = place.attach("confused").expect("anybody may");
    let (listener, address) = listener();
    let connect = Call::Connect { remote: address };
    let answer = place.call(&mut process, &connect, Some(&listener));
    assert_eq!(answer.reply, Reply::Kernel { reason: FallbackReason::WrongState });
}
