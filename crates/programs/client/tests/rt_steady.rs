//! A socket of the runtime in its steady state allocates nothing.
#![cfg(feature = "rt")]

mod common;

use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use attach::AttachListener;
use calisto_client::Nanos;
use calisto_client::rt::{self, UdpSocket};
use common::{Folder, MAC, Served};
use sys::counting_alloc::{CountingAllocator, thread_allocations};
use sys::poll;
use wire::build::UdpPacket;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// Packets until everything has its size, and those that are looked at.
const WARM_UP: usize = 300;
const STEADY: usize = 1000;

#[test]
fn receiving_answering_and_sleeping_allocate_nothing() {
    let folder = Folder::new("rt-steady");
    let listener = AttachListener::bind(&folder.socket(), 0o600).expect("the folder is ours");
    let options = folder.options().listen("udp:10.0.0.9:7");
    let (tell, told) = channel();
    let program = std::thread::spawn(move || {
        let tell = std::sync::Mutex::new(Some(tell));
        rt::run(options, |rt| {
            let tell = tell.lock().expect("nobody panics").take().expect("one worker");
            async move {
                let mut socket = UdpSocket::bind(&rt, "udp:10.0.0.9:7").expect("listened on");
                let mut bytes = [0; 64];
                let mut before = 0;
                for packet in 0..WARM_UP + STEADY {
                    if packet == WARM_UP {
                        before = thread_allocations();
                    }
                    let (len, from) = socket.recv_from(&mut bytes).await.expect("not stopped");
                    socket.send_to(&bytes[..len], from).await.expect("it is an answer");
                }
                let allocations = thread_allocations() - before;
                rt::yield_now().await;
                tell.send(allocations).expect("the test waits");
            }
        })
    });
    assert!(poll::wait_readable(listener.as_fd(), Nanos::from_secs(10)), "it does not come");
    let peer = listener.accept().expect("descriptors are left").expect("one has connected");
    let mut served = Served::welcome(peer).expect("it asks");
    let packet = UdpPacket {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: MAC,
        source: "10.0.0.1:4000".parse().expect("an address"),
        destination: "10.0.0.9:7".parse().expect("an address"),
        payload: b"hello",
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it fits");
    let end = Instant::now() + Duration::from_secs(60);
    let mut answers = 0;
    while answers < WARM_UP + STEADY {
        // One now and then, so that it sleeps in between, and some at once.
        for _ in 0..1 + answers % 3 {
            served.deliver(0, &bytes);
        }
        let asked = 1 + answers % 3;
        let mut heard = 0;
        while heard < asked && answers + heard < WARM_UP + STEADY {
            heard += usize::from(served.sent(0).is_some());
            assert!(Instant::now() < end, "it answers no more");
        }
        answers += heard;
    }
    assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(0));
    program.join().expect("it does not panic").expect("it was attached");
}
