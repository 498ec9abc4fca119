//! A slice between the kernels of two namespaces. Needs root.

mod common;

use std::time::Duration;

use base::{Nanos, PortId};
use common::Middle;
use port::Port;
use shm::Batch;
use slice::{Slice, SliceSpec};

/// Sends what comes to one port out of the other until `done` says that it is enough.
fn bridge(slice: &mut Slice, mut done: impl FnMut() -> bool) {
    let mut batch = Batch::new();
    let end = sys::clock::now() + Nanos::from_secs(20);
    while !done() && sys::clock::now() < end {
        slice.wait(Nanos::from_millis(1));
        slice.read_multi(&mut batch, sys::clock::now());
        for frame in &mut batch {
            let meta = frame.meta_mut();
            (meta.port, meta.transmit) = (PortId(1 - meta.port.0), true);
        }
        slice.write_multi(&mut batch, sys::clock::now());
        slice.give_back(&mut batch);
    }
}

#[test]
fn two_kernels_talk_through_a_slice_that_only_carries() {
    let middle = Middle::new();
    let mut slice = middle.slice(SliceSpec::new("bridge", middle.ports()));
    let (left, right) = (middle.socket_left(7001), middle.socket_right(7002));
    let echo = std::thread::spawn(move || {
        let mut packet = [0; 2048];
        for _ in 0..50 {
            let (len, from) = right.recv_from(&mut packet).expect("a request comes through");
            right.send_to(&packet[..len], from).expect("the link is up");
        }
    });
    let asker = std::thread::spawn(move || {
        let mut answer = [0; 2048];
        for number in 0..50usize {
            let request = vec![number as u8; 1 + number * 29];
            left.send_to(&request, Middle::right_address(7002)).expect("the link is up");
            let len = left.recv(&mut answer).expect("an answer comes through");
            assert_eq!(answer[..len], request);
        }
    });
    bridge(&mut slice, || asker.is_finished() && echo.is_finished());
    asker.join().expect("all 50 were answered");
    echo.join().expect("all 50 were asked");
    let counters = slice.counters();
    assert!(counters.read >= 100 && counters.written == counters.read, "{counters:?}");
    assert_eq!(slice.close(), 0, "every frame came home");
}

#[test]
fn a_thread_that_waits_for_the_poll_descriptor_is_told_of_packets() {
    let middle = Middle::new();
    let mut slice = middle.slice(SliceSpec::new("poll", middle.ports()));
    let left = middle.socket_left(7001);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            left.send_to(b"hello", Middle::right_address(7002)).expect("the link is up");
        });
        let mut batch = Batch::new();
        let end = sys::clock::now() + Nanos::from_secs(20);
        while sys::clock::now() < end {
            slice.prepare_wait();
            if slice.read_multi(&mut batch, sys::clock::now()) > 0 {
                break;
            }
            sys::poll::wait_readable(slice.poll_fd(), Nanos::from_secs(20));
        }
        assert!(!batch.is_empty(), "it slept on although there was a packet");
        slice.give_back(&mut batch);
    });
}

#[test]
fn a_queue_has_one_owner_and_comes_free_with_its_slice() {
    let middle = Middle::new();
    let first = middle.slice(SliceSpec::new("first", middle.ports()));
    assert_eq!(first.ports().len(), 2);
    let Err(error) = middle.open(&SliceSpec::new("second", middle.ports())) else {
        panic!("the queues are taken")
    };
    assert!(error.to_string().contains("slice second, port xdp:veth0"), "{error}");
    drop(first);
    let second = middle.slice(SliceSpec::new("second", middle.ports()));
    assert!(second.ports().iter().all(|port| port.fault().is_none()));

    let mut twice = middle.ports();
    twice.push(twice[0].clone());
    let Err(error) = middle.open(&SliceSpec::new("twice", twice)) else { panic!("one is twice") };
    assert!(error.to_string().contains("twice"), "{error}");
}
