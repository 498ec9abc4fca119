//! A daemon that is killed is noticed by everything that uses it, and the next one is found.

mod common;

use std::time::{Duration, Instant};

use calisto_client::{App, AttachOptions, Batch, DetachReason, Detached, Nanos, Verdict, Worker};
use common::{Behaviour, DaemonProcess, Folder, RING_SLOTS, become_daemon_if_asked};

/// Every call says within a second that the daemon is dead; loaded machines get some more.
const SOON: Duration = Duration::from_secs(3);

const ENTRY: &str =
    "an_application_attaches_to_a_daemon_in_another_process_and_again_to_its_successor";

fn start(folder: &Folder, behaviour: Behaviour) -> DaemonProcess {
    DaemonProcess::start(ENTRY, &folder.socket(), behaviour)
}

fn options(folder: &Folder) -> AttachOptions {
    folder.options().wait(Duration::from_secs(20))
}

fn attach(folder: &Folder) -> (App, Worker) {
    let (app, mut workers) =
        App::attach(&options(folder)).unwrap_or_else(|error| panic!("{error}"));
    (app, workers.remove(0))
}

/// Sends a packet of its own and waits for its echo.
fn round_trip(worker: &mut Worker, packet: &[u8]) {
    let mut batch = Batch::new();
    let mut frame = worker.take().expect("the first is free");
    assert!(frame.fill(packet));
    batch.push(frame);
    assert_eq!(worker.send(&mut batch).expect("attached"), 1);
    worker.flush();
    let end = Instant::now() + Duration::from_secs(20);
    while worker.receive(&mut batch).expect("attached") == 0 {
        assert!(Instant::now() < end, "no echo");
        worker.wait(Nanos::from_secs(20)).expect("attached");
    }
    assert_eq!(batch[0].bytes(), packet);
    assert_eq!(worker.done(&mut batch).expect("attached"), 1);
}

fn assert_gone(detached: &Detached, killed: Instant) {
    assert_eq!(detached.reason, DetachReason::DaemonGone, "{detached}");
    assert!(killed.elapsed() < SOON, "noticed after {:?}", killed.elapsed());
}

#[test]
fn an_application_attaches_to_a_daemon_in_another_process_and_again_to_its_successor() {
    become_daemon_if_asked();
    let folder = Folder::new("successor");
    let first = start(&folder, Behaviour::Echo);
    let (app, mut worker) = attach(&folder);
    round_trip(&mut worker, b"to the first");
    assert!(app.is_attached());
    let killed = first.kill();
    while app.is_attached() {
        assert!(killed.elapsed() < SOON);
    }
    assert_gone(&app.detached_reason().expect("not attached"), killed);
    drop((app, worker));

    let attaching = std::thread::spawn({
        let options = options(&folder);
        move || App::attach(&options)
    });
    let _second = start(&folder, Behaviour::Echo);
    let attached = attaching.join().expect("attaching does not panic");
    let (app, mut workers) = attached.unwrap_or_else(|error| panic!("{error}"));
    round_trip(&mut workers[0], b"to the second");
    assert!(app.is_attached());
}

#[test]
fn a_worker_that_sleeps_is_told_at_once() {
    let folder = Folder::new("sleeps");
    let daemon = start(&folder, Behaviour::Echo);
    let (app, mut worker) = attach(&folder);
    let (told, tell) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        round_trip(&mut worker, b"hello");
        told.send(()).expect("the test waits");
        let result = worker.wait(Nanos::FAR_FUTURE);
        let noticed = Instant::now();
        // And ever after.
        assert!(worker.wait(Nanos::ZERO).is_err());
        assert!(worker.receive(&mut Batch::new()).is_err());
        assert!(worker.send(&mut Batch::new()).is_err());
        assert!(worker.step(|_| Verdict::Done).is_err());
        (result.expect_err("nothing else ends the wait"), noticed)
    });
    tell.recv_timeout(Duration::from_secs(20)).expect("the round trip ends");
    std::thread::sleep(Duration::from_millis(50));
    let killed = daemon.kill();
    let (detached, noticed) = sleeper.join().expect("no assertion failed");
    assert_gone(&detached, killed);
    assert!(noticed >= killed);
    assert!(!app.is_attached());
}

#[test]
fn a_worker_that_only_polls_finds_out() {
    let folder = Folder::new("polls");
    let daemon = start(&folder, Behaviour::Echo);
    let (_app, mut worker) = attach(&folder);
    round_trip(&mut worker, b"hello");
    let mut batch = Batch::new();
    let killed = daemon.kill();
    let detached = loop {
        match worker.receive(&mut batch) {
            Ok(_) => assert!(killed.elapsed() < SOON, "it polls for ever"),
            Err(detached) => break detached,
        }
    };
    assert_gone(&detached, killed);
}

#[test]
fn a_worker_whose_ring_is_full_finds_out() {
    let folder = Folder::new("full");
    let daemon = start(&folder, Behaviour::Deaf);
    let (_app, mut worker) = attach(&folder);
    let mut batch = Batch::new();
    for _ in 0..=RING_SLOTS {
        let mut frame = worker.take().expect("there are more buffers than slots");
        assert!(frame.fill(b"nobody takes this"));
        batch.push(frame);
    }
    assert_eq!(worker.send(&mut batch).expect("attached"), RING_SLOTS as usize);
    assert_eq!(worker.send(&mut batch).expect("attached"), 0);
    let killed = daemon.kill();
    let detached = loop {
        match worker.send(&mut batch) {
            Ok(_) => assert!(killed.elapsed() < SOON, "it tries for ever"),
            Err(detached) => break detached,
        }
    };
    assert_gone(&detached, killed);
}
