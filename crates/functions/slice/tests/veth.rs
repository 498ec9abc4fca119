//! A slice between the kernels of two namespaces. Needs root.

use std::time::Duration;

use crate::common::Middle;
use base::{Nanos, PortId};
use calisto_slice::{Judge, KernelSide, Slice, SliceSpec};
use port::{Port, PortSpec};
use shm::{Batch, Waited};
use sys::cpu_set::CpuSet;

/// Sends what comes to one port out of the other until `done` says that it is enough.
fn bridge(slice: &mut Slice, mut done: impl FnMut() -> bool) {
    let end = sys::clock::now() + Nanos::from_secs(20);
    while !done() && sys::clock::now() < end {
        bridge_once(slice);
    }
}

fn bridge_once(slice: &mut Slice) {
    let mut batch = Batch::new();
    slice.wait(Nanos::from_millis(1));
    slice.read_multi(&mut batch, sys::clock::now());
    for frame in &mut batch {
        let meta = frame.meta_mut();
        (meta.port, meta.transmit) = (PortId(1 - meta.port.0), true);
    }
    slice.write_multi(&mut batch, sys::clock::now());
    slice.give_back(&mut batch);
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
            let fd = slice.poll_fd().expect("descriptors are left");
            sys::poll::wait_readable(fd, Nanos::from_secs(20));
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

#[test]
fn a_slice_with_a_filter_leaves_the_rest_to_the_kernel_from_the_first_packet_on() {
    let middle = Middle::new();
    let mut spec = SliceSpec::new("filtered", middle.ports());
    spec.filter = Some("udp port 7002".to_owned());
    let mut slice = middle.slice(spec.clone());
    assert!(slice.judges().iter().all(|judge| *judge == Judge::Kernel), "{:?}", slice.judges());
    let left = middle.socket_left(7001);
    // To the middle's own address: the kernel's, but for the one port.
    let kernel = crate::common::socket(middle.middle(), ([10, 77, 0, 2], 7003).into());
    left.send_to(b"kernel", (middle.middle().ipv4(), 7003)).expect("the link is up");
    assert_eq!(kernel.recv(&mut [0; 64]).expect("it passes the slice by"), 6);
    left.send_to(b"slice", (middle.middle().ipv4(), 7002)).expect("the link is up");
    let mut batch = Batch::new();
    while slice.read_multi(&mut batch, sys::clock::now()) == 0 {
        assert_eq!(slice.wait(Nanos::from_secs(10)), Waited::Ready);
    }
    assert_eq!((batch.len(), &batch[0].bytes()[42..]), (1, &b"slice"[..]));
    slice.give_back(&mut batch);
    assert_eq!(slice.counters().judged_here, 0);

    spec.filter = Some("not a filter".to_owned());
    drop(slice);
    let Err(error) = middle.open(&spec) else { panic!("it makes no sense") };
    assert!(error.to_string().contains("slice filtered: \"not a filter\""), "{error}");
}

#[test]
fn packet_sockets_carry_a_slice_where_there_is_no_xdp_and_share_by_fanout() {
    let middle = Middle::new();
    let port = |text: &str| text.parse::<PortSpec>().expect("a port");
    // Two slices share both interfaces; which of them gets a packet its flow decides.
    let specs = ["one", "two"].map(|name| {
        let ports = vec![port("af_packet:veth0,fanout=7"), port("af_packet:veth1,fanout=8")];
        SliceSpec { filter: Some("udp or arp".to_owned()), ..SliceSpec::new(name, ports) }
    });
    let mut slices = specs.map(|spec| middle.slice(spec));
    assert!(slices[0].judges().iter().all(|judge| *judge == Judge::Kernel));
    // The kernel sees the packets as well: the address is not its own, so it only looks on.
    let right = middle.socket_right(7002);
    let lefts: Vec<_> = (0..32).map(|port| middle.socket_left(20_000 + port)).collect();
    let sender = std::thread::spawn(move || {
        for left in &lefts {
            left.send_to(b"hello", Middle::right_address(7002)).expect("the link is up");
        }
        for _ in &lefts {
            right.recv(&mut [0; 64]).expect("it comes through a slice");
        }
    });
    let [one, two] = &mut slices;
    bridge(one, || {
        bridge_once(two);
        sender.is_finished()
    });
    sender.join().expect("all came through");
    let read = slices.each_ref().map(|slice| slice.counters().read);
    assert!(read[0] > 0 && read[1] > 0, "32 flows reach both: {read:?}");
}

#[test]
fn the_kernels_half_of_a_slice_can_be_placed_on_a_cpu() {
    let middle = Middle::new();
    let mut slice = middle.slice(SliceSpec::new("placed", middle.ports()));
    assert_eq!(slice.kernel_cpus(), [KernelSide::Sender, KernelSide::Sender], "a veth's default");
    let cpu = sys::thread::allowed_cpus().into_iter().next_back().expect("we run on one");
    slice.set_kernel_cpus(&CpuSet::only(cpu)).unwrap_or_else(|error| panic!("{error}"));
    for side in slice.kernel_cpus() {
        let KernelSide::Thread { cpus, .. } = side else { panic!("{side}") };
        assert_eq!(cpus, CpuSet::only(cpu));
    }
    // And packets still come.
    let left = middle.socket_left(7001);
    left.send_to(b"hello", (middle.middle().ipv4(), 7002)).expect("the link is up");
    assert_eq!(slice.wait(Nanos::from_secs(10)), Waited::Ready);
    assert!(slice.set_kernel_cpus(&CpuSet::new()).is_err(), "no CPU is no place");

    drop(slice);
    let mut ports = middle.ports();
    if let PortSpec::Xdp { options, .. } = &mut ports[0] {
        options.busy_poll_micros = Some(20);
    }
    let slice = middle.slice(SliceSpec::new("busy", ports));
    assert_eq!(slice.kernel_cpus()[0], KernelSide::Slice);
}
