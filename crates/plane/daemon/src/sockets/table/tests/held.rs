//! Programs that keep what they pass from being asked or closed: by memory whose pages never come,
//! from which or to which they have the kernel copy.

use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::channel;
use std::time::Duration;

use attach::{Call, FallbackReason, Profile, Reply, SocketsRequest};
use datapath::DetachReason;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use shm::sockets::Kind;
use sys::clock;
use sys::held_memory::HeldMemory;

use super::fixture::{Fixture, listener, slot, user};

/// Of linux/socket.h: more of the datagram comes.
const MSG_MORE: i32 = 0x8000;

/// What waits for a program waits for ever.
const EVER: Duration = Duration::from_secs(60);

const FALLBACK: Call = Call::Fallback { reason: FallbackReason::UnsupportedOption };
const BUSY: Reply = Reply::Kernel { reason: FallbackReason::DaemonBusy };

fn copy(fd: &impl AsFd) -> OwnedFd {
    fd.as_fd().try_clone_to_owned().expect("descriptors are left")
}

/// Does it in a thread of its own, which could not be ended; whether it comes to an end.
fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, heard) = channel();
    std::thread::spawn(move || done.send(work()));
    heard.recv_timeout(EVER).ok()
}

/// A socket that is only in a set which a thread has, while it waits for `memory` to come.
fn in_a_held_set(memory: &HeldMemory, fd: &impl AsFd) -> std::thread::JoinHandle<()> {
    let set = epoll::create(CreateFlags::CLOEXEC).expect("descriptors are left");
    epoll::add(&set, fd, EventData::new_u64(0), EventFlags::IN).expect("it can be polled");
    memory.wait(set)
}

#[test]
fn a_descriptor_whose_lock_its_program_holds_keeps_nobody_elses_call_waiting() {
    let mut place = Fixture::new("");
    let (mut hostile, _) = place.attach_as("hostile", user(1000)).expect("anybody may");
    let (mut honest, _) = place.attach_as("honest", user(1001)).expect("anybody may");
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    datagrams.connect(datagrams.local_addr().expect("it is bound")).expect("it is UDP");
    let (listening, address) = listener();
    let stream = TcpStream::connect(address).expect("it listens");
    let memory = HeldMemory::new().expect("root may");
    let held = [memory.send(copy(&datagrams), MSG_MORE), memory.send(copy(&stream), 0)];
    let answers = ends(move || {
        let udp = [FALLBACK, Call::Udp { remote: None }];
        let udp = udp.map(|call| place.call(&mut hostile, &call, Some(&datagrams)).reply);
        let listen = Call::Listen { backlog: 8 };
        let tcp = [FALLBACK, listen.clone(), Call::Connect { remote: address }, Call::Adopt];
        let tcp = tcp.map(|call| place.call(&mut hostile, &call, Some(&stream)).reply);
        let served = place.call(&mut honest, &listen, Some(&listening));
        (udp, tcp, slot(&served), honest.memory)
    });
    drop(memory);
    held.into_iter().for_each(|held| held.join().expect("it does not panic"));
    let (udp, tcp, (_, slot), memory) = answers.expect("nobody waits for a program's memory");
    assert_eq!(udp, [Reply::Done, BUSY]);
    let not_ours = Reply::Kernel { reason: FallbackReason::NotOurs };
    assert_eq!(tcp, [Reply::Done, BUSY, BUSY, not_ours]);
    assert_eq!(memory.slot(slot).expect("it was lent").state().kind(), Kind::Listener);
}

#[test]
fn the_last_copy_of_what_a_program_keeps_in_a_set_is_closed_by_nobody_who_is_waited_for() {
    let mut place = Fixture::new("");
    let (mut hostile, _) = place.attach_as("hostile", user(1000)).expect("anybody may");
    let (mut honest, _) = place.attach_as("honest", user(1001)).expect("anybody may");
    let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let own = datagrams.local_addr().expect("it is bound");
    datagrams.send_to(&[1], own).expect("loopback is up");
    let memory = HeldMemory::new().expect("root may");
    let held = in_a_held_set(&memory, &datagrams);
    let answers = ends(move || {
        let Fixture { socket_table, claims } = &mut place;
        let now = clock::now();
        let last = Some(datagrams.into());
        let first = socket_table.call(&mut hostile.member, &FALLBACK, last, claims, now);
        let (listening, _) = listener();
        let served = place.call(&mut honest, &Call::Listen { backlog: 8 }, Some(&listening));
        (first.reply, slot(&served))
    });
    drop(memory);
    held.join().expect("it does not panic");
    let (first, _) = answers.expect("nobody waits for a program's memory");
    assert_eq!(first, Reply::Done);
}

#[test]
fn what_a_program_has_of_the_daemon_and_keeps_in_a_set_is_closed_by_nobody_who_is_waited_for() {
    let mut place = Fixture::new("");
    let request = SocketsRequest {
        name: "hostile".to_owned(),
        profile: Profile::Safe,
        features: 0,
        token_before: None,
    };
    let came = place.socket_table.attach(&request, user(1000), clock::now());
    let (member, _, answer) = came.expect("anybody may");
    let doorbell = answer.descriptors.into_iter().nth(1).expect("behind the memory");
    rustix::io::write(&doorbell, &1_u64.to_ne_bytes()).expect("a program may ring");
    let memory = HeldMemory::new().expect("root may");
    let held = in_a_held_set(&memory, &doorbell);
    drop(doorbell);
    let left = ends(move || {
        place.socket_table.leave(member, DetachReason::Left, clock::now());
        place.socket_table.count()
    });
    drop(memory);
    held.join().expect("it does not panic");
    assert_eq!(left, Some(0));
}
