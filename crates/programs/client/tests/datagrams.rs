//! Datagrams that are cut when they leave and joined when they come, and what is said beside them.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::streams::{Daemon, kernel_socket};
use calisto_client::sockets::{Errno, Outcome, Outgoing, Readiness, ReceiveFlags, Session, Socket};
use rustix::net::SocketType;
use shm::sockets::{HEADER_BYTES, PAYLOAD_MAX, Record, RingDesc};

fn socket(session: &Session) -> Socket {
    let fd = kernel_socket(SocketType::DGRAM, 0);
    match session.udp(fd.as_fd(), None).expect("the daemon answers") {
        Outcome::Ours(socket) => socket,
        other => panic!("it is not served: {other:?}"),
    }
}

fn peer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 53))
}

/// The records that stand in a ring one behind the other, each with its payload.
fn records(mut bytes: &[u8]) -> Vec<(Record, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let record = Record::decode(header).expect("an honest one");
        let payload = record.payload as usize;
        all.push((record, rest[..payload].to_vec()));
        bytes = &rest[Record::bytes(payload) - HEADER_BYTES..];
    }
    all
}

fn whole(record: &Record, payload: &[u8]) -> Vec<u8> {
    let record = Record { payload: payload.len() as u32, ..*record };
    let mut bytes = [&record.encode()[..], payload].concat();
    bytes.resize(Record::bytes(payload.len()), 0);
    bytes
}

/// Everything that waits, each call with room for `room` bytes and asking for joined ones.
fn joined(socket: &Socket, room: usize) -> Vec<(Vec<u8>, Option<u16>)> {
    let mut all = Vec::new();
    loop {
        match joined_once(socket, room, false) {
            Ok(got) => all.push(got),
            Err(errno) => {
                assert_eq!(errno, Errno::AGAIN);
                return all;
            }
        }
    }
}

/// One call of that kind, which leaves what it shows if it peeks.
fn joined_once(socket: &Socket, room: usize, peek: bool) -> Result<(Vec<u8>, Option<u16>), Errno> {
    let mut bytes = Vec::new();
    let flags = ReceiveFlags { join_bytes: room, peek, ..ReceiveFlags::default() };
    let got = socket.receive_from_with(flags, |piece| {
        let mut copied = vec![0; piece.len().min(room - bytes.len())];
        let count = piece.copy_out(&mut copied);
        bytes.extend(copied);
        Ok(count)
    })?;
    Ok((bytes, got.segment_bytes))
}

#[test]
fn what_is_cut_leaves_as_datagrams_of_one_length_and_all_say_the_same() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let socket = socket(&session);
    let how = Outgoing {
        to: Some(peer()),
        from: Some(IpAddr::from([10, 0, 0, 2])),
        class: Some(2),
        hop_limit: Some(9),
        segment_bytes: NonZeroU16::new(100),
    };
    let bytes: Vec<u8> = (0..=249).collect();
    let mut done = 0;
    let sent = socket.send_as_with(&how, bytes.len(), |piece| {
        let copied = piece.copy_in(&bytes[done..]);
        done += copied;
        Ok(copied)
    });
    assert_eq!(sent, Ok(250));
    let records = records(&daemon.acknowledge(socket.key().1));
    let lengths: Vec<usize> = records.iter().map(|(_, payload)| payload.len()).collect();
    assert_eq!(lengths, [100, 100, 50]);
    assert_eq!(records.iter().flat_map(|(_, payload)| payload).copied().collect::<Vec<_>>(), bytes);
    let is_so = |record: &Record| {
        record.remote == how.to
            && record.local == how.from
            && (record.class, record.hop_limit) == (Some(2), Some(9))
    };
    assert!(records.iter().all(|(record, _)| is_so(record)), "{records:?}");
}

#[test]
fn what_is_cut_enters_the_ring_whole_or_not_at_all() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let socket = socket(&session);
    let slot = socket.key().1;
    let how =
        Outgoing { to: Some(peer()), segment_bytes: NonZeroU16::new(500), ..Outgoing::default() };
    let send = |bytes: usize| socket.send_as_with(&how, bytes, |piece| Ok(piece.len()));
    while send(1000).is_ok() {}
    assert_eq!(send(1000), Err(Errno::AGAIN));
    assert_eq!(socket.readiness(), Readiness::EMPTY);
    let records = records(&daemon.acknowledge(slot));
    assert!(records.len() > 2 && records.len().is_multiple_of(2), "{} datagrams", records.len());
    assert_eq!(socket.readiness(), Readiness::OUT);
    assert_eq!(send(60_000), Err(Errno::NOBUFS), "the kernel's socket has room for it");
    assert!(daemon.acknowledge(slot).is_empty());
}

#[test]
fn from_an_address_that_the_daemon_may_not_have_allowed_the_kernel_sends() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let socket = socket(&session);
    let slot = socket.key().1;
    let [one, later] = [2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
    let version = daemon.tell_addresses(&[one]);
    let bind = |local: [u8; 4]| {
        daemon.words(slot, |words| words.local.set(Some(SocketAddr::from((local, 7)))));
    };
    bind([0; 4]);
    assert!(!socket.may_send_from(one), "nobody has said that it may");
    daemon.words(slot, |words| words.sources_version.store(version, Ordering::Relaxed));
    assert!(socket.may_send_from(one) && !socket.may_send_from(later));
    daemon.tell_addresses(&[one, later]);
    assert!(!socket.may_send_from(later), "it came after the socket was bound");
    bind([10, 0, 0, 2]);
    assert!(socket.may_send_from(one) && !socket.may_send_from(later));
}

#[test]
fn there_is_room_in_the_ring_that_is_used_while_a_longer_one_is_offered() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let socket = socket(&session);
    let slot = socket.key().1;
    let send = |bytes: &[u8]| socket.send_to(bytes, Some(peer()));
    while send(&[0; 1000]).is_ok() {}
    daemon.offer(slot, 20);
    assert_eq!(socket.readiness(), Readiness::EMPTY);
    daemon.acknowledge(slot);
    assert_eq!(socket.readiness(), Readiness::OUT, "it is empty");
    assert_eq!(send(&[0; 60_000]), Ok(60_000), "the longer one is used");
}

#[test]
fn who_is_to_send_what_is_cut_gets_a_ring_with_room_for_it() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let socket = socket(&session);
    let slot = socket.key().1;
    daemon.words(slot, |words| words.tx_log2_max.store(20, Ordering::Relaxed));
    socket.expect_segments();
    let offered = || daemon.words(slot, |words| words.tx_ring.load(Ordering::Acquire));
    let deadline = Instant::now() + Duration::from_secs(60);
    while RingDesc::of_word(offered()).bytes() < 2 * PAYLOAD_MAX as u64 {
        assert!(Instant::now() < deadline, "no longer ring is offered");
        std::thread::sleep(Duration::from_millis(5));
    }
    let how =
        Outgoing { to: Some(peer()), segment_bytes: NonZeroU16::new(1000), ..Outgoing::default() };
    assert_eq!(socket.send_as_with(&how, 60_000, |piece| Ok(piece.len())), Ok(60_000));
}

#[test]
fn datagrams_of_one_kind_and_length_come_as_one_and_others_do_not() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let socket = socket(&session);
    let slot = socket.key().1;
    let record = Record {
        remote: Some(peer()),
        local: Some(IpAddr::from([10, 0, 0, 2])),
        class: Some(2),
        hop_limit: Some(64),
        interface: 3,
        came_at: 7,
        ..Record::default()
    };
    let later = Record { came_at: 8, ..record };
    let marked = Record { class: Some(3), ..record };
    let other = Record { remote: Some(SocketAddr::from(([10, 0, 0, 1], 54))), ..record };
    for (record, payload) in [
        (&record, &[1; 100][..]),
        (&later, &[2; 100]),
        (&record, &[3; 60]),
        (&record, &[4; 60]),
        (&marked, &[5; 60]),
        (&other, &[6; 60]),
        (&other, &[7; 90]),
        (&other, &[]),
    ] {
        daemon.deliver(slot, &whole(record, payload));
    }
    let lengths = |all: Vec<(Vec<u8>, Option<u16>)>| -> Vec<(usize, Option<u16>)> {
        all.iter().map(|(bytes, segment)| (bytes.len(), *segment)).collect()
    };
    let all = joined(&socket, 1000);
    assert_eq!(all[0].0, [&[1; 100][..], &[2; 100], &[3; 60]].concat());
    let expected = [(260, Some(100)), (60, None), (60, None), (60, None), (90, None), (0, None)];
    assert_eq!(lengths(all), expected);
    for _ in 0..3 {
        daemon.deliver(slot, &whole(&record, &[8; 100]));
    }
    let shown = joined_once(&socket, 250, true);
    assert_eq!(shown, joined_once(&socket, 250, false), "as it was shown");
    assert_eq!(shown.map(|(bytes, segment)| (bytes.len(), segment)), Ok((200, Some(100))));
    assert_eq!(lengths(joined(&socket, 250)), [(100, None)], "what has not fitted");
}
