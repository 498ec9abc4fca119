//! Sockets against the daemon's half of the shared memory.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base::{RegionId, SlotId};

use crate::ends::{SOON, connected, connecting, ours, pair, receive_text, to};
use crate::streams::{Daemon, LOCAL_PORTS, SILENT_PORT, address_of, kernel_socket};
use calisto_client::DetachReason;
use calisto_client::sockets::{
    Errno, FallbackReason, Outcome, Poller, Profile, Readiness, ReceiveFlags, SendFlags, Shutdown,
    SocketOption, Waited,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketType;
use shm::sockets::{Asks, HEADER_BYTES, RingDesc, SlotState};
use std::os::fd::AsFd;

#[test]
fn a_connection_is_waited_for_and_then_carries_bytes_both_ways() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let socket = connecting(&session);
    let slot = socket.key().1;
    assert_eq!(socket.connected(), Err(Errno::AGAIN));
    assert_eq!(socket.readiness(), Readiness::EMPTY);
    assert_eq!(socket.send(b"early"), Err(Errno::AGAIN));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| socket.wait(Readiness::OUT, SOON));
        daemon.establish(slot);
        assert_eq!(waiter.join().expect("it does not panic"), Ok(Waited::Ready));
    });
    assert_eq!(socket.connected(), Ok(()));
    assert_eq!(socket.peer_address(), Some(to(SILENT_PORT)));
    assert_eq!(socket.receive(&mut [0; 9]), Err(Errno::AGAIN));
    assert_eq!(socket.send(b"question"), Ok(8));
    assert_eq!(socket.unsent_bytes(), 8);
    assert_eq!(daemon.acknowledge(slot), b"question");
    assert_eq!(socket.unsent_bytes(), 0);
    daemon.deliver(slot, b"answer");
    assert_eq!(socket.unread_bytes(), 6);
    assert_eq!(receive_text(&socket), "answer");
    daemon.become_state(slot, SlotState::PEER_CLOSED, 0);
    assert_eq!(socket.receive(&mut [0; 9]), Ok(0));
}

#[test]
fn a_refused_connection_says_so_once() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let socket = connecting(&session);
    daemon.become_state(socket.key().1, SlotState::BROKEN, 111);
    assert_eq!(socket.wait(Readiness::OUT, SOON), Ok(Waited::Ready));
    assert!(socket.readiness().contains(Readiness::ERR | Readiness::HUP));
    assert_eq!(socket.connected(), Err(Errno::CONNREFUSED));
    assert_eq!(socket.connected(), Err(Errno::CONNABORTED));
    assert_eq!(socket.take_error(), None);
    let fd = kernel_socket(SocketType::STREAM, 0);
    let nobody = session.connect(fd.as_fd(), to(9)).expect("the daemon answers");
    assert!(matches!(nobody, Outcome::Errno(Errno::CONNREFUSED)), "{nobody:?}");
    let kernel = session.connect(fd.as_fd(), to(0)).expect("the daemon answers");
    assert!(matches!(kernel, Outcome::Kernel(FallbackReason::NoRouteHere)), "{kernel:?}");
    session.fallback(fd.as_fd(), FallbackReason::Multicast);
    assert_eq!(daemon.fallbacks(), [FallbackReason::Multicast]);
}

#[test]
fn a_reset_lets_what_came_be_read_and_is_then_said_once() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    daemon.deliver(slot, b"last");
    daemon.become_state(slot, SlotState::BROKEN, 104);
    assert_eq!(receive_text(&socket), "last");
    assert_eq!(socket.receive(&mut [0; 9]), Err(Errno::CONNRESET));
    assert_eq!(socket.receive(&mut [0; 9]), Ok(0));
    assert_eq!(socket.send(b"more"), Err(Errno::PIPE));
}

#[test]
fn peeked_bytes_stay_and_a_copy_that_fails_takes_nothing() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    daemon.deliver(slot, b"hello");
    let peek = ReceiveFlags { peek: true, ..ReceiveFlags::default() };
    let mut bytes = [0; 9];
    let peeked = socket.receive_with(peek, |piece| Ok(piece.copy_out(&mut bytes)));
    assert_eq!((peeked, &bytes[..5]), (Ok(5), &b"hello"[..]));
    let failed = socket.receive_with(ReceiveFlags::default(), |_| Err(Errno::FAULT));
    assert_eq!(failed, Err(Errno::FAULT));
    assert_eq!(receive_text(&socket), "hello");
    let failed = socket.send_with(Default::default(), 5, |_| Err(Errno::FAULT));
    assert_eq!(failed, Err(Errno::FAULT));
    assert_eq!((socket.send(b"ok"), daemon.acknowledge(slot)), (Ok(2), b"ok".to_vec()));
}

#[test]
fn a_writer_that_finds_its_ring_full_gets_a_longer_one_and_loses_nothing() {
    let daemon = Daemon::start();
    daemon.limit_rings(16);
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let mut written = 0;
    let mut read = Vec::new();
    let until = Instant::now() + Duration::from_secs(20);
    while written < bytes.len() {
        assert!(Instant::now() < until, "{written} written, {} read", read.len());
        match socket.send(&bytes[written..]) {
            Ok(count) => written += count,
            Err(Errno::AGAIN) => {
                // At its longest it is emptied; until then a longer one comes by itself.
                if socket.unsent_bytes() >= 1 << 16 {
                    read.extend(daemon.acknowledge(slot));
                } else {
                    assert_eq!(socket.wait(Readiness::OUT, SOON), Ok(Waited::Ready));
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    read.extend(daemon.acknowledge(slot));
    assert!(read == bytes);
    let ring = daemon.words(slot, |words| words.tx_ring_used.load(Ordering::Relaxed));
    assert_eq!(RingDesc::of_word(ring).bytes(), 1 << 16, "as long as it may become");
}

#[test]
fn shutting_one_half_leaves_the_other_and_wakes_who_sleeps() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (client, server) = pair(&session, 0);
    client.send(b"all").expect("there is room");
    client.shutdown(Shutdown::Write).expect("it is connected");
    assert_eq!(client.send(b"more"), Err(Errno::PIPE));
    assert_eq!(receive_text(&server), "all");
    assert_eq!(receive_text(&server), "");
    assert_eq!(server.send(b"answer"), Ok(6));
    assert_eq!(receive_text(&client), "answer");
    let poller = session.poller().expect("there is one");
    poller.add(&client).expect("it is open");
    taken(&poller);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| client.wait(Readiness::IN, SOON));
        assert!(poller.arm());
        client.shutdown(Shutdown::Read).expect("it is connected");
        assert_eq!(waiter.join().expect("it does not panic"), Ok(Waited::Ready));
        assert!(is_readable(&poller, 1000));
    });
    assert_eq!(client.receive(&mut [0; 9]), Ok(0));
}

#[test]
fn an_aborted_connection_is_reset_at_the_other_end() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    for port in [0, LOCAL_PORTS.start + 1] {
        let (client, server) = pair(&session, port);
        assert_eq!(client.is_local(), port != 0);
        client.abort();
        assert_eq!(server.wait(Readiness::IN, SOON), Ok(Waited::Ready));
        assert_eq!(server.receive(&mut [0; 9]), Err(Errno::CONNRESET));
        assert_eq!(client.receive(&mut [0; 9]), Ok(0));
    }
}

#[test]
fn waits_end_by_time_by_signal_and_not_without_reason() {
    let daemon = Daemon::start();
    for profile in [Profile::Latency, Profile::Safe] {
        let session = daemon.attach_as(profile);
        let socket = connecting(&session);
        let timeout = Some(Duration::from_millis(2));
        assert_eq!(socket.wait(Readiness::IN, timeout), Ok(Waited::TimedOut));
        assert_eq!(socket.wait(Readiness::IN, Some(Duration::ZERO)), Ok(Waited::TimedOut));
    }
}

fn taken(poller: &Poller) -> Vec<SlotId> {
    let mut found = Vec::new();
    poller.take(&mut found, 100);
    let mut slots: Vec<SlotId> = found.into_iter().map(|(_, slot)| slot).collect();
    slots.sort_unstable();
    slots
}

fn is_readable(poller: &Poller, timeout_ms: i64) -> bool {
    let fd = poller.fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let timeout = Timespec { tv_sec: timeout_ms / 1000, tv_nsec: timeout_ms % 1000 * 1_000_000 };
    poll(&mut fds, Some(&timeout)).expect("the kernel is well") > 0
}

#[test]
fn an_poller_hears_of_its_sockets_and_of_no_other() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (one, first) = connected(&daemon, &session);
    let (two, second) = connected(&daemon, &session);
    let (_other, third) = connected(&daemon, &session);
    let poller = session.poller().expect("there is one");
    poller.add(&one).expect("it is open");
    poller.add(&two).expect("it is open");
    assert_eq!(taken(&poller), [first, second], "what is added is looked at");
    assert!(poller.arm() && !is_readable(&poller, 0));
    daemon.deliver(third, b"x");
    assert!(!is_readable(&poller, 10));
    daemon.deliver(second, b"x");
    assert!(is_readable(&poller, 10_000));
    poller.disarm();
    poller.drain();
    assert!(!is_readable(&poller, 0));
    assert!(!poller.arm(), "there is something already");
    assert_eq!(taken(&poller), [second]);
    poller.remove(&two);
    daemon.deliver(second, b"x");
    daemon.deliver(first, b"x");
    assert_eq!(taken(&poller), [first]);
    assert_eq!(daemon.pollers(), 1);
    drop(poller);
    assert_eq!(daemon.pollers(), 0);
    assert_eq!(daemon.words(first, |words| words.pollers[0].load(Ordering::Relaxed)), 0);
}

#[test]
fn all_pollers_of_an_application_are_eight_here_and_one_more_is_refused() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let pollers: Vec<_> = (0..8).map(|_| session.poller().expect("there is one")).collect();
    assert!(session.poller().is_err());
    drop(pollers);
    assert!(session.poller().is_ok());
}

#[test]
fn two_programs_on_one_machine_talk_without_the_daemon() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.attach(), daemon.attach());
    let listening = kernel_socket(SocketType::STREAM, LOCAL_PORTS.start);
    let listener = ours(b.listen(listening.as_fd(), 8).expect("the daemon answers"));
    let fd = kernel_socket(SocketType::STREAM, 0);
    let client = ours(a.connect(fd.as_fd(), address_of(&listening)).expect("it answers"));
    assert!(client.is_local() && client.connected() == Ok(()));
    assert_eq!(listener.wait(Readiness::IN, SOON), Ok(Waited::Ready));
    let server = listener.accept().expect("it has connected");
    assert_eq!(listener.accept().expect_err("there was one"), Errno::AGAIN);
    assert_eq!(server.peer_address(), client.local_address());

    let poller = b.poller().expect("there is one");
    poller.add(&server).expect("it is open");
    taken(&poller);
    assert!(poller.arm() && !is_readable(&poller, 0));
    assert_eq!(client.send(b"hello"), Ok(5));
    assert!(is_readable(&poller, 10_000));
    poller.disarm();
    poller.drain();
    assert!(!is_readable(&poller, 0));
    assert_eq!(taken(&poller), [server.key().1]);
    assert_eq!(receive_text(&server), "hello");

    // A full ring stops the writer until the reader has read.
    let mut written = 0;
    while let Ok(count) = client.send(&[7; 1000]) {
        written += count;
    }
    assert_eq!((written, client.send(b"x")), (4096, Err(Errno::AGAIN)));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| client.wait(Readiness::OUT, SOON));
        let mut bytes = [0; 4096];
        assert_eq!(server.receive(&mut bytes), Ok(4096));
        assert_eq!(writer.join().expect("it does not panic"), Ok(Waited::Ready));
    });
    client.close();
    assert_eq!(receive_text(&server), "");
    // The end was heard before the reset that these bytes get (`tcp_reset` of Linux, CLOSE-WAIT).
    assert_eq!(server.send(b"into the void"), Ok(13));
    assert_eq!(server.send(b"again"), Err(Errno::PIPE));
    assert_eq!(server.send(b"again"), Err(Errno::PIPE));
}

#[test]
fn a_writer_within_the_host_hears_of_room_in_buffers_that_are_shorter_than_the_ring() {
    let daemon = Daemon::start();
    let (a, b) = (daemon.attach(), daemon.attach());
    let listening = kernel_socket(SocketType::STREAM, LOCAL_PORTS.start + 4);
    let listener = ours(b.listen(listening.as_fd(), 8).expect("the daemon answers"));
    let fd = kernel_socket(SocketType::STREAM, 0);
    let client = ours(a.connect(fd.as_fd(), address_of(&listening)).expect("it answers"));
    assert_eq!(listener.wait(Readiness::IN, SOON), Ok(Waited::Ready));
    let server = listener.accept().expect("it has connected");
    client.set_option(SocketOption::SendBuffer, 300);
    server.set_option(SocketOption::ReceiveBuffer, 300);
    assert_eq!(client.send(&[7; 1000]), Ok(600));
    let poller = a.poller().expect("there is one");
    poller.add(&client).expect("it is open");
    taken(&poller);
    assert!(poller.arm() && !is_readable(&poller, 0));
    assert_eq!(server.receive(&mut [0; 1000]), Ok(600), "less than a quarter of the ring");
    assert!(is_readable(&poller, 10_000));
    assert!(client.readiness().contains(Readiness::OUT));
}

#[test]
fn a_program_that_is_put_out_hears_why_and_may_attach_again() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, _) = connected(&daemon, &session);
    assert_eq!(session.detach_reason(), None);
    daemon.put_out(DetachReason::Violation);
    assert!(!session.is_alive());
    assert_eq!(session.detach_reason(), Some(DetachReason::Violation));
    assert!(socket.send(b"too late").is_err());
    assert!(daemon.attach().is_alive());
}

#[test]
fn a_dead_daemon_ends_every_wait_and_every_connection() {
    let mut daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    let poller = session.poller().expect("there is one");
    poller.add(&socket).expect("it is open");
    taken(&poller);
    daemon.deliver(slot, b"last");
    taken(&poller);
    assert_eq!(receive_text(&socket), "last");
    assert!(poller.arm());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| socket.wait(Readiness::IN, SOON));
        daemon.kill();
        assert_eq!(waiter.join().expect("it does not panic"), Ok(Waited::Ready));
    });
    assert!(is_readable(&poller, 0));
    assert!(!session.is_alive());
    assert_eq!(session.detach_reason(), Some(DetachReason::DaemonGone));
    assert_eq!(taken(&poller), [slot], "it is told once");
    assert_eq!(socket.receive(&mut [0; 9]), Err(Errno::CONNRESET));
    assert_eq!(socket.receive(&mut [0; 9]), Ok(0));
    assert_eq!(socket.send(b"x"), Err(Errno::PIPE));
    poller.drain();
    assert!(!is_readable(&poller, 0), "and does not keep anybody awake");
    assert!(taken(&poller).is_empty());
    assert!(session.poller().is_err());
    let fd = kernel_socket(SocketType::STREAM, 0);
    assert!(session.connect(fd.as_fd(), to(9)).is_err());
}

#[test]
fn a_socket_that_is_no_more_is_not_mistaken_for_its_successor() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    daemon.words(slot, |words| words.generation.fetch_add(1, Ordering::AcqRel));
    assert_eq!(socket.receive(&mut [0; 9]), Err(Errno::NOTCONN));
    assert_eq!(socket.send(b"x"), Err(Errno::NOTCONN));
    assert_eq!(socket.wait(Readiness::IN, SOON), Ok(Waited::Ready));
    socket.close();
    assert_eq!(daemon.words(slot, |words| words.asks()), Asks(0));
}

#[test]
fn options_flags_and_names_are_the_same_for_all_who_hold_a_socket() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    let (region, number) = socket.key();
    let same = session.socket(region, number).expect("there is such a socket");
    assert_eq!(same, socket);
    socket.set_option(SocketOption::NoDelay, 1);
    socket.set_flags(0o4000);
    socket.mark_shared();
    socket.name(77);
    assert_eq!((same.option(SocketOption::NoDelay), same.flags()), (1, 0o4000));
    assert!(same.is_shared());
    daemon.words(slot, |words| {
        assert_eq!(words.cookie.load(Ordering::Relaxed), 77);
        assert!(words.asks().has(Asks::NAMED));
    });
    assert!(session.socket(region, SlotId(5000)).is_err());
}

#[test]
fn datagrams_keep_their_edges_and_addresses() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let fd = kernel_socket(SocketType::DGRAM, 0);
    let socket = ours(session.udp(fd.as_fd(), None).expect("the daemon answers"));
    let slot = socket.key().1;
    assert!(socket.is_datagram());
    assert_eq!(socket.readiness(), Readiness::OUT);
    assert_eq!(socket.send_to(b"x", None), Err(Errno::DESTADDRREQ));
    assert_eq!(socket.send_to(b"hello", Some(to(53))), Ok(5));
    let record = daemon.acknowledge(slot);
    assert_eq!(record.len(), HEADER_BYTES + 8);
    assert_eq!(&record[HEADER_BYTES..][..5], b"hello");
    let mut back = record.clone();
    back.extend(&record);
    daemon.deliver(slot, &back);
    assert_eq!(socket.next_datagram_bytes(), 5);
    let mut bytes = [0; 3];
    let cut = socket.receive_from(&mut bytes).expect("there is one");
    assert_eq!((cut.bytes, cut.is_cut, cut.from), (3, true, Some(to(53))));
    let mut bytes = [0; 9];
    let whole = socket.receive_from(&mut bytes).expect("there is one");
    assert_eq!((whole.bytes, whole.is_cut, &bytes[..5]), (5, false, &b"hello"[..]));
    assert_eq!(socket.receive_from(&mut bytes), Err(Errno::AGAIN));
    assert_eq!(socket.send_to(&[0; 65_508], Some(to(53))), Err(Errno::MSGSIZE));
    while socket.send_to(&[0; 500], Some(to(53))).is_ok() {}
    assert_eq!(socket.send_to(&[0; 500], Some(to(53))), Err(Errno::AGAIN));
    assert_eq!(socket.readiness(), Readiness::EMPTY);
    daemon.acknowledge(slot);
    assert_eq!(socket.readiness(), Readiness::OUT);
    daemon.become_state(slot, 0, 111);
    assert_eq!(socket.receive_from(&mut bytes), Err(Errno::CONNREFUSED));
    assert_eq!(socket.receive_from(&mut bytes), Err(Errno::AGAIN));
}

#[test]
fn what_is_told_about_a_connection_is_brought_up_to_date() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    socket.send(b"four").expect("there is room");
    daemon.acknowledge(slot);
    let until = Instant::now() + Duration::from_secs(10);
    while socket.info().rtt_us != 1234 {
        assert!(Instant::now() < until, "{:?}", socket.info());
    }
    assert_eq!((socket.info().state, socket.info().acknowledged), (1, 4));
    daemon.become_state(slot, SlotState::BROKEN, 104);
    assert_eq!(socket.info().state, 7);
}

#[test]
fn a_process_that_has_joined_uses_a_connection_of_its_own() {
    let mut daemon = Daemon::start();
    let session = daemon.attach();
    let listening = kernel_socket(SocketType::STREAM, LOCAL_PORTS.start + 2);
    let listener = ours(session.listen(listening.as_fd(), 8).expect("the daemon answers"));
    let (socket, slot) = connected(&daemon, &session);
    let poller = session.poller().expect("there is one");
    poller.add(&socket).expect("it is open");
    let child = session.rejoin().expect("the daemon answers");
    assert_eq!(child.app(), session.app());
    // What the parent's poller hears, the child does not end.
    drop(poller);
    assert_eq!(daemon.pollers(), 1);
    assert_ne!(daemon.words(slot, |words| words.pollers[0].load(Ordering::Relaxed)), 0);
    // The listener from before accepts over the new connection, and maps what it has to.
    let fd = kernel_socket(SocketType::STREAM, 0);
    let address = address_of(&listening);
    let client = ours(session.connect(fd.as_fd(), address).expect("the daemon answers"));
    let server = listener.accept().expect("it has connected");
    client.send(b"over there").expect("there is room");
    assert_eq!(receive_text(&server), "over there");
    assert!(session.is_alive() && child.is_alive());
    daemon.kill();
    assert!(!session.is_alive() && !child.is_alive());
}

#[test]
fn urgent_bytes_are_read_apart_and_reading_stops_before_them() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    daemon.deliver(slot, b"ab!cd");
    daemon.words(slot, |words| words.rx_urgent.store(4, Ordering::Release));
    assert!(socket.readiness().contains(Readiness::PRI) && !socket.at_mark());
    assert_eq!(receive_text(&socket), "ab");
    assert!(socket.at_mark());
    assert_eq!(socket.receive_urgent(true), Ok(b'!'), "who only peeks");
    assert!(socket.readiness().contains(Readiness::PRI));
    assert_eq!(socket.receive_urgent(false), Ok(b'!'));
    assert_eq!(socket.receive_urgent(false), Err(Errno::INVAL), "it was read");
    assert!(!socket.readiness().contains(Readiness::PRI));
    assert_eq!(receive_text(&socket), "cd");
    assert_eq!(socket.receive_urgent(false), Err(Errno::INVAL));
    assert!(!socket.readiness().contains(Readiness::PRI));
    socket.set_option(SocketOption::UrgentInline, 1);
    daemon.deliver(slot, b"ef!");
    daemon.words(slot, |words| words.rx_urgent.store(9, Ordering::Release));
    assert_eq!(receive_text(&socket), "ef!");
    let urgent = SendFlags { urgent: true, ..SendFlags::default() };
    assert_eq!(socket.send_with(urgent, 1, |piece| Ok(piece.copy_in(b"!"))), Ok(1));
    assert_eq!(daemon.words(slot, |words| words.tx_urgent.load(Ordering::Relaxed)), 2);
}

#[test]
fn who_only_reads_tells_of_every_quarter_of_the_ring() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let (socket, slot) = connected(&daemon, &session);
    let mut told = 0;
    for _ in 0..64 {
        daemon.deliver(slot, &[7; 1024]);
        assert_eq!(socket.receive(&mut [0; 1024]), Ok(1024));
        told += u32::from(daemon.was_marked(slot));
    }
    assert_eq!(told, 16, "64 KiB through a ring of 16");
}

#[test]
fn a_socket_of_another_application_is_adopted_used_and_heard() {
    let mut daemon = Daemon::start();
    let (theirs, session) = (daemon.attach(), daemon.attach());
    let (_socket, slot) = connected(&daemon, &theirs);
    let fd = kernel_socket(SocketType::STREAM, 0);
    assert!(session.adopt(fd.as_fd()).expect("the daemon answers").is_none());
    daemon.adopt_as(RegionId(1), slot);
    let socket = session.adopt(fd.as_fd()).expect("the daemon answers").expect("it knows it");
    let poller = session.poller().expect("there is one");
    let their_poller = theirs.poller().expect("there is one");
    assert_eq!(poller.number(), their_poller.number(), "pollers are numbered by application");
    poller.add(&socket).expect("it is open");
    assert_eq!(daemon.words(slot, |words| words.pollers[0].load(Ordering::Relaxed)), 0);
    let hears = |poller: &Poller| {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if poller.arm() {
                assert!(is_readable(poller, 10_000), "it is told");
            }
            poller.disarm();
            poller.drain();
            let found = taken(poller);
            if !found.is_empty() || Instant::now() > until {
                return found;
            }
        }
    };
    assert_eq!(hears(&poller), [slot], "what is added is looked at");
    for round in 0..3 {
        daemon.deliver(slot, b"news");
        assert_eq!(hears(&poller), [slot], "round {round}");
        assert_eq!(receive_text(&socket), "news");
        socket.send(b"answer").expect("there is room");
        assert_eq!(daemon.acknowledge(slot), b"answer");
    }
    daemon.kill();
    assert_eq!(hears(&poller), [slot]);
    assert_eq!(socket.receive(&mut [0; 9]), Err(Errno::CONNRESET));
}

#[test]
fn who_sleeps_says_so_and_is_woken_by_the_notify_word() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    for port in [0, LOCAL_PORTS.start + 3] {
        let (client, server) = pair(&session, port);
        let slot = server.key().1;
        let words = || {
            let read = |words: &shm::sockets::SlotWords| {
                let load = |word: &AtomicU32| word.load(Ordering::Acquire);
                (load(&words.sleepers), load(&words.notify_word))
            };
            if port == 0 { daemon.words(slot, read) } else { daemon.local_words(slot, read) }
        };
        for change in [0, 1] {
            let (_, notify_word) = words();
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| server.wait(Readiness::IN, SOON));
                let until = Instant::now() + Duration::from_secs(10);
                while words().0 == 0 {
                    assert!(Instant::now() < until, "it does not say that it sleeps");
                    std::thread::yield_now();
                }
                if change == 0 {
                    client.send(b"x").expect("there is room");
                } else {
                    server.shutdown(Shutdown::Read).expect("it is connected");
                }
                assert_eq!(waiter.join().expect("it does not panic"), Ok(Waited::Ready));
            });
            assert_ne!(words().1, notify_word, "it was not the notify word");
            let _ = server.receive(&mut [0; 9]);
        }
    }
}
