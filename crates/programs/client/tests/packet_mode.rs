//! An application and a daemon, turn by turn.

use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::{Folder, MAC, RING_SLOTS, Served, attached};
use attach::{AttachListener, Attached, ToApp as Message};
use base::{Epoch, FlowGroup};
use calisto_client::{
    App, AttachError, Batch, DetachReason, Detached, Frame, Handover, Moving, Nanos, PortId,
    Verdict, Worker,
};
use shm::packets::{Delivery, FromApp, ToApp};
use sys::poll;

fn one(folder: &Folder) -> (Served, App, Worker) {
    let (served, app, mut workers) = attached(folder, &folder.options());
    (served, app, workers.remove(0))
}

fn own(worker: &mut Worker, packet: &[u8]) -> Frame {
    let mut frame = worker.take().expect("one is free");
    assert!(frame.fill(packet));
    frame
}

#[test]
fn an_application_gets_what_it_asked_for() {
    let folder = Folder::new("asked");
    let options = folder.options().workers(3).frames(40).frame_bytes(4096);
    let (served, app, workers) = attached(&folder, &options);
    assert_eq!(workers.len(), 3);
    assert_eq!(served.server.sizes().receive_chunks, 40);
    assert_eq!(served.server.sizes().chunk_bytes, 4096);
    assert_eq!(app.id(), 7);
    assert_eq!((app.ports()[0].mac, app.ports()[0].mtu), (Some(MAC), 1500));
    assert!(app.is_attached());
    assert_eq!(app.detached_reason(), None);
    fn is_send(_: &impl Send) {}
    is_send(&workers);
}

#[test]
fn a_packet_is_received_with_its_meta_data_answered_and_counted() {
    let folder = Folder::new("answer");
    let (mut served, _app, mut worker) = one(&folder);
    let mut batch = Batch::new();
    assert_eq!(worker.receive(&mut batch), Ok(0));
    served.deliver_as(0, b"question", |frame| frame.meta_mut().port = PortId(3));
    served.deliver(0, b"nonsense");
    assert_eq!(worker.receive(&mut batch), Ok(2));
    assert_eq!(batch[0].bytes(), b"question");
    assert_eq!(batch[0].meta().port, PortId(3));
    batch[0].bytes_mut()[..4].copy_from_slice(b"ANSW");
    let mut nonsense = Batch::new();
    nonsense.extend(batch.pop());
    assert_eq!(worker.send(&mut batch), Ok(1));
    assert_eq!(worker.done(&mut nonsense), Ok(1));
    assert!(batch.is_empty() && nonsense.is_empty());
    assert_eq!(served.sent(0), None, "not yet shown");
    worker.flush();
    assert_eq!(served.sent(0).as_deref(), Some(&b"ANSWtion"[..]));
    assert_eq!(served.sent(0), None);
    assert_eq!(served.server.held(), 0, "both are home");
    let counters = worker.counters();
    assert_eq!((counters.received, counters.sent, counters.done), (2, 1, 1));
    assert_eq!(counters.empty_polls, 1);
}

#[test]
fn a_full_batch_receives_nothing_and_the_rest_waits() {
    let folder = Folder::new("batch");
    let (mut served, _app, mut workers) = attached(&folder, &folder.options().frames(64));
    let mut worker = workers.remove(0);
    let mut batch = Batch::new();
    for _ in 0..60 / 15 {
        for _ in 0..15 {
            assert_eq!(served.deliver(0, b"x"), Delivery::Staged);
        }
        assert_eq!(worker.receive(&mut batch), Ok(15));
    }
    for _ in 0..4 {
        assert_eq!(served.deliver(0, b"y"), Delivery::Staged);
    }
    batch.extend(worker.take());
    assert_eq!(worker.receive(&mut batch), Ok(3));
    assert!(batch.is_full());
    assert_eq!(worker.receive(&mut batch), Ok(0));
    let polls = worker.counters().empty_polls;
    assert_eq!(polls, 0, "that was no look at an empty ring");
    let mut rest = Batch::new();
    assert_eq!(worker.receive_up_to(&mut rest, 0), Ok(0));
    assert_eq!(worker.receive(&mut rest), Ok(1));
    assert_eq!(rest[0].bytes(), b"y");
    assert_eq!(worker.done(&mut rest), Ok(1));
}

#[test]
fn an_unused_own_frame_goes_back_even_when_the_ring_is_full() {
    let folder = Folder::new("unused");
    let (_served, _app, mut worker) = one(&folder);
    let mut batch = Batch::new();
    for _ in 0..RING_SLOTS + 2 {
        let frame = own(&mut worker, b"x");
        batch.push(frame);
    }
    assert_eq!(worker.send(&mut batch), Ok(RING_SLOTS as usize));
    assert_eq!(worker.done(&mut batch), Ok(2));
}

#[test]
fn what_a_full_ring_does_not_take_stays_in_the_batch_in_its_order() {
    let folder = Folder::new("full");
    let (mut served, _app, mut worker) = one(&folder);
    let mut batch = Batch::new();
    let count = RING_SLOTS as usize + 5;
    for packet in 0..count {
        let frame = own(&mut worker, &[packet as u8]);
        batch.push(frame);
    }
    assert_eq!(worker.send(&mut batch), Ok(RING_SLOTS as usize));
    assert_eq!(batch.len(), 5);
    assert_eq!(worker.send(&mut batch), Ok(0));
    let mut sent = Vec::new();
    while let Some(packet) = served.sent(0) {
        sent.extend(packet);
    }
    assert_eq!(worker.send(&mut batch), Ok(5));
    worker.flush();
    while let Some(packet) = served.sent(0) {
        sent.extend(packet);
    }
    assert_eq!(sent, (0..count as u8).collect::<Vec<_>>());
}

#[test]
fn answers_of_a_step_that_a_full_ring_does_not_take_are_sent_later_in_their_order() {
    let folder = Folder::new("step");
    let (mut served, _app, mut worker) = one(&folder);
    // The ring to the daemon is full but for 4 places.
    let mut batch = Batch::new();
    for _ in 0..RING_SLOTS - 4 {
        let frame = own(&mut worker, b"first");
        batch.push(frame);
    }
    assert_eq!(worker.send(&mut batch), Ok(RING_SLOTS as usize - 4));
    for packet in 0..10 {
        served.deliver(0, &[packet]);
    }
    // Every third is not answered.
    let decide = |frame: &mut Frame| {
        if frame.bytes()[0].is_multiple_of(3) { Verdict::Done } else { Verdict::Send }
    };
    assert_eq!(worker.step(decide), Ok(10));
    served.deliver(0, &[10]);
    assert_eq!(worker.step(decide), Ok(0), "the daemon is slow: nothing more is taken on");
    let begun = Instant::now();
    assert_eq!(worker.wait(Nanos::from_secs(600)), Ok(true));
    assert!(begun.elapsed() >= Duration::from_millis(1), "it does not hurry a slow daemon");
    let mut sent = Vec::new();
    while let Some(packet) = served.sent(0) {
        sent.push(packet);
    }
    assert_eq!(worker.step(decide), Ok(1));
    while let Some(packet) = served.sent(0) {
        sent.push(packet);
    }
    let answers: Vec<u8> =
        sent.iter().filter(|packet| *packet != b"first").map(|packet| packet[0]).collect();
    assert_eq!(answers, [1, 2, 4, 5, 7, 8, 10]);
    assert_eq!(served.server.held(), 0);
    assert_eq!(
        (worker.counters().sent, worker.counters().done),
        (u64::from(RING_SLOTS) - 4 + 7, 4)
    );
}

#[test]
fn a_worker_that_waits_offers_its_answers_again() {
    let folder = Folder::new("again");
    let (mut served, _app, mut worker) = one(&folder);
    let mut batch = Batch::new();
    for _ in 0..RING_SLOTS {
        let frame = own(&mut worker, b"first");
        batch.push(frame);
    }
    assert_eq!(worker.send(&mut batch), Ok(RING_SLOTS as usize));
    served.deliver(0, b"last");
    assert_eq!(worker.step(|_| Verdict::Send), Ok(1));
    let begun = Instant::now();
    assert_eq!(worker.wait(Nanos::from_secs(600)), Ok(false), "short, for the sake of the answer");
    assert!(begun.elapsed() < Duration::from_secs(300));
    while served.sent(0).is_some() {}
    assert_eq!(worker.wait(Nanos::ZERO), Ok(false));
    assert_eq!(served.sent(0).as_deref(), Some(&b"last"[..]));
}

#[test]
fn a_frame_of_another_worker_stays_in_the_batch_and_holds_nothing_up() {
    let folder = Folder::new("foreign");
    let (mut served, _app, mut workers) = attached(&folder, &folder.options().workers(2));
    let foreign = own(&mut workers[0], b"foreign");
    let mine = own(&mut workers[1], b"mine");
    let mut batch = Batch::new();
    batch.push(foreign);
    batch.push(mine);
    assert_eq!(workers[1].send(&mut batch), Ok(1));
    assert_eq!((batch.len(), batch[0].bytes()), (1, &b"foreign"[..]));
    workers[1].flush();
    assert_eq!(served.sent(1).as_deref(), Some(&b"mine"[..]));
    assert_eq!(workers[0].done(&mut batch), Ok(1));
}

#[test]
fn a_sleeping_daemon_is_woken_once_and_an_awake_one_never() {
    let folder = Folder::new("wake");
    let (mut served, _app, mut worker) = one(&folder);
    let send = |worker: &mut Worker| {
        let mut batch = Batch::new();
        let frame = own(worker, b"x");
        batch.push(frame);
        assert_eq!(worker.send(&mut batch), Ok(1));
        worker.flush();
    };
    send(&mut worker);
    assert_eq!(served.wake.drain(), 0);
    served.server.arm();
    send(&mut worker);
    send(&mut worker);
    assert_eq!(served.wake.drain(), 1);
    assert_eq!(worker.counters().wakes, 1);
    while served.sent(0).is_some() {}
}

#[test]
fn a_wait_ends_by_a_packet_or_by_its_timeout() {
    let folder = Folder::new("wait");
    let (mut served, _app, mut worker) = one(&folder);
    assert_eq!(worker.wait(Nanos::from_millis(5)), Ok(false));
    served.deliver(0, b"before");
    assert_eq!(worker.wait(Nanos::FAR_FUTURE), Ok(true), "it does not sleep");
    assert_eq!(worker.counters().sleeps, 1);
    assert_eq!(worker.step(|_| Verdict::Done), Ok(1));
    for spin in [Nanos::ZERO, Nanos::from_millis(2)] {
        worker.set_spin(spin);
        let (sleep, sleeping) = channel();
        let waiter = std::thread::spawn(move || {
            sleep.send(()).expect("the test waits");
            let woken = worker.wait(Nanos::from_secs(60));
            (worker, woken)
        });
        sleeping.recv().expect("it is about to wait");
        std::thread::sleep(Duration::from_millis(20));
        served.deliver(0, b"during");
        let (back, woken) = waiter.join().expect("waiting does not panic");
        worker = back;
        assert_eq!(woken, Ok(true));
        assert_eq!(worker.step(|_| Verdict::Done), Ok(1));
        assert!(!poll::wait_readable(worker.fd(), Nanos::ZERO), "the pipe is empty again");
    }
    assert_eq!(served.sent(0), None);
}

#[test]
fn a_late_byte_for_an_earlier_sleep_does_not_end_a_wait() {
    let folder = Folder::new("late");
    let (served, _app, mut worker) = one(&folder);
    rustix::io::write(&served.doorbells[0], &[1]).expect("the worker has the other end");
    let begun = Instant::now();
    assert_eq!(worker.wait(Nanos::from_millis(50)), Ok(false));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert_eq!(worker.counters().sleeps, 2);
}

#[test]
fn a_pipe_that_hangs_up_is_the_end_even_before_the_connection_is() {
    let folder = Folder::new("hang-up");
    let (mut served, app, mut worker) = one(&folder);
    served.doorbells.clear();
    let detached = worker.wait(Nanos::FAR_FUTURE).expect_err("nobody can wake it any more");
    assert_eq!(detached.reason, DetachReason::DaemonGone);
    assert!(!app.is_attached());
}

#[test]
fn a_message_that_this_release_does_not_know_changes_nothing() {
    let folder = Folder::new("unknown");
    let (served, app, mut worker) = one(&folder);
    let text = br#"{"v":1,"weather":{"sky":"blue"}}"#;
    let flags = rustix::net::SendFlags::NOSIGNAL;
    rustix::net::send(&served.peer, text, flags).expect("the application is there");
    assert_eq!(worker.wait(Nanos::from_millis(20)), Ok(false));
    assert!(app.is_attached());
}

#[test]
fn a_loop_of_its_own_is_woken_through_the_descriptor() {
    let folder = Folder::new("loop");
    let (mut served, app, mut worker) = one(&folder);
    assert!(!worker.arm(), "nothing is there yet");
    assert!(!poll::wait_readable(worker.fd(), Nanos::ZERO));
    served.deliver(0, b"x");
    assert!(poll::wait_readable(worker.fd(), Nanos::from_secs(20)));
    worker.disarm();
    assert!(!poll::wait_readable(worker.fd(), Nanos::ZERO));
    assert!(worker.arm(), "it is there already");
    worker.disarm();
    assert_eq!(worker.step(|_| Verdict::Done), Ok(1));
    assert!(!poll::wait_readable(app.closed_fd(), Nanos::ZERO));
    drop(served);
    assert!(poll::wait_readable(app.closed_fd(), Nanos::from_secs(20)));
    assert!(poll::wait_readable(worker.fd(), Nanos::from_secs(20)), "hung up");
}

#[test]
fn a_hand_over_waits_for_frames_then_tells_the_handler_then_the_daemon() {
    let folder = Folder::new("handover");
    let (mut served, _app, mut worker) = one(&folder);
    let (note, noted) = channel();
    worker.on_handover(Box::new(move |handover| note.send(handover).expect("the test listens")));
    let handovers = served.server.handovers();
    let moving = Moving::Group(FlowGroup(5));
    let ticket = handovers.open(0);
    served.deliver(0, b"before");
    assert_eq!(served.worker_queues[0].control(ToApp::Barrier { ticket, moving }), Ok(true));
    assert_eq!(served.worker_queues[0].control(ToApp::Attach(Moving::Epoch(Epoch(9)))), Ok(true));
    served.publish(0);

    let mut batch = Batch::new();
    assert_eq!(worker.receive(&mut batch), Ok(1));
    assert_eq!(worker.receive(&mut Batch::new()), Ok(0));
    assert!(noted.try_recv().is_err(), "a frame is still out");
    assert_eq!(
        worker.wait(Nanos::from_millis(5)),
        Ok(false),
        "it is this worker that is waited for"
    );
    assert!(!handovers.is_detached(ticket));
    assert_eq!(worker.done(&mut batch), Ok(1));
    assert_eq!(worker.wait(Nanos::FAR_FUTURE), Ok(true), "now it can go on");
    assert_eq!(worker.receive(&mut batch), Ok(0));
    assert_eq!(noted.try_recv(), Ok(Handover::Detach(moving)));
    assert_eq!(noted.try_recv(), Ok(Handover::Attach(Moving::Epoch(Epoch(9)))));
    assert!(handovers.is_detached(ticket));
    let said =
        |served: &mut Served| served.server.collect(&mut served.worker_queues[0]).expect("honest");
    assert!(matches!(said(&mut served), Some(FromApp::Packet(_))), "the frame came first");
    assert_eq!(said(&mut served), Some(FromApp::Passed(ticket)), "without a flush by the caller");

    assert_eq!(served.worker_queues[0].control(ToApp::Retire), Ok(true));
    served.publish(0);
    assert!(!worker.is_retired());
    assert_eq!(worker.receive(&mut batch), Ok(0));
    assert!(worker.is_retired());
    assert_eq!(said(&mut served), Some(FromApp::Retired));
}

#[test]
fn the_daemons_last_words_reach_every_worker() {
    let folder = Folder::new("words");
    let (served, app, mut workers) = attached(&folder, &folder.options().workers(2));
    let words = Detached { reason: DetachReason::Stalled, message: "you were slow".into() };
    assert_eq!(served.peer.send(&Message::Detached(words.clone()), &[]), Ok(true));
    served.server.detach(DetachReason::Stalled.number());
    drop(served);
    let mut batch = Batch::new();
    assert_eq!(workers[0].receive(&mut batch), Err(words.clone()));
    assert_eq!(workers[1].wait(Nanos::FAR_FUTURE), Err(words.clone()));
    assert_eq!(workers[1].send(&mut batch), Err(words.clone()));
    assert_eq!(app.detached_reason(), Some(words.clone()));
    assert!(words.to_string().contains("you were slow"));
}

#[test]
fn the_word_in_shared_memory_is_enough_and_needs_no_system_call() {
    let folder = Folder::new("word");
    let (served, _app, mut worker) = one(&folder);
    served.server.detach(DetachReason::Operator.number());
    let detached = worker.step(|_| Verdict::Done).expect_err("detached");
    assert_eq!(detached.reason, DetachReason::Operator);
    assert!(detached.to_string().contains("operator"), "{detached}");
}

#[test]
fn an_application_leaves_by_detaching_or_by_dropping_everything() {
    let folder = Folder::new("leave");
    let (served, app, mut worker) = one(&folder);
    app.detach();
    assert_eq!(served.peer.receive(), Ok(attach::Received::Closed));
    let detached = worker.receive(&mut Batch::new()).expect_err("it has left");
    assert_eq!(detached.reason, DetachReason::Left);

    let (served, app, worker) = one(&folder);
    drop(app);
    assert_eq!(served.peer.receive(), Ok(attach::Received::Nothing), "a worker is left");
    drop(worker);
    assert_eq!(served.peer.receive(), Ok(attach::Received::Closed));
}

#[test]
fn without_a_daemon_the_error_says_so_at_once_or_after_the_wait() {
    let folder = Folder::new("nobody");
    let error = App::attach(&folder.options()).expect_err("nobody is there");
    assert_eq!(error, AttachError::NoSocket(folder.socket()));
    let begun = Instant::now();
    let options = folder.options().wait(Duration::from_millis(120));
    let error = App::attach(&options).expect_err("nobody comes");
    assert_eq!(error, AttachError::NoSocket(folder.socket()));
    assert!(begun.elapsed() >= Duration::from_millis(120));
}

/// What attaching says to a daemon that answers so.
fn answered(
    message: &Message,
    descriptors: fn(&Served) -> Vec<std::os::fd::BorrowedFd<'_>>,
) -> String {
    let folder = Folder::new("answered");
    let other = Folder::new("other");
    let (served, _app, _workers) = attached(&other, &other.options());
    let listener = AttachListener::bind(&folder.socket(), 0o600).expect("the folder is ours");
    std::thread::scope(|scope| {
        let error = scope.spawn(|| {
            let options = folder.options().wait(Duration::from_secs(10));
            App::attach(&options).expect_err("the answer is wrong")
        });
        assert!(poll::wait_readable(listener.as_fd(), Nanos::from_secs(10)));
        let peer = listener.accept().expect("descriptors are left").expect("one has connected");
        assert!(poll::wait_readable(peer.as_fd(), Nanos::from_secs(10)));
        assert_eq!(peer.send(message, &descriptors(&served)), Ok(true));
        error.join().expect("attaching does not panic").to_string()
    })
}

#[test]
fn an_answer_that_cannot_be_used_is_refused_with_a_sentence() {
    let welcome = |workers| {
        Message::Attached(Attached {
            id: 1,
            workers,
            ports: Vec::new(),
            on_granted_cores: false,
            features: 0,
        })
    };
    let error = answered(&Message::Refused { message: "port 53 is taken".into() }, |_| Vec::new());
    assert_eq!(error, "the daemon refused: port 53 is taken");
    let error = answered(&welcome(1), |_| Vec::new());
    assert!(error.contains("without shared memory"), "{error}");
    let error = answered(&welcome(1), |served| vec![served.server.as_fd(), served.wake.as_fd()]);
    assert!(error.contains("pipe for each worker"), "{error}");
    let error = answered(&welcome(1), |served| vec![served.wake.as_fd(); 3]);
    assert!(error.contains("shared memory is not sealed"), "{error}");
    let error = answered(&welcome(2), |served| {
        let pipe = served.doorbells[0].as_fd();
        vec![served.server.as_fd(), served.wake.as_fd(), pipe, pipe]
    });
    assert!(error.contains("another number of workers"), "{error}");
}
