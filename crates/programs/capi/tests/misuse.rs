//! What C programs do wrong is an error, not a crash.

use std::ffi::{CStr, CString, c_int};
use std::os::fd::AsFd;
use std::ptr::{null, null_mut};

use crate::common::{Folder, RING_SLOTS, Served};
use attach::AttachListener;
use base::Nanos;
use calisto::*;
use sys::poll;

fn error(app: *const CalistoApp) -> String {
    // SAFETY: `app` is null or attached, and the text is good until the next call in this thread.
    unsafe { CStr::from_ptr(calisto_error(app)) }.to_str().expect("it is text").to_owned()
}

fn options(name: &CStr, socket: &CStr) -> CalistoOptions {
    CalistoOptions {
        socket: socket.as_ptr(),
        name: name.as_ptr(),
        listen: null(),
        listen_count: 0,
        workers: 2,
        frames: 0,
        frame_bytes: 0,
        wait_ns: 0,
        reserved: [0; 4],
    }
}

/// An attached application, and its daemon on this thread.
struct Stage {
    served: Served,
    app: *mut CalistoApp,
    _folder: Folder,
}

impl Stage {
    fn new(test: &str) -> Self {
        let folder = Folder::new(test);
        let listener = AttachListener::bind(&folder.socket(), 0o600).expect("the folder is ours");
        let path = folder.socket();
        let attaching = std::thread::spawn(move || {
            let path = CString::new(path.to_str().expect("a plain path")).expect("without zeros");
            let mut app = null_mut();
            let options = options(c"misuse", &path);
            // SAFETY: both are good.
            assert_eq!(unsafe { calisto_attach(&options, &mut app) }, 0, "{}", error(null()));
            app as usize
        });
        assert!(poll::wait_readable(listener.as_fd(), Nanos::from_secs(20)));
        let peer = listener.accept().expect("descriptors are left").expect("one has connected");
        let served = Served::welcome(peer).expect("it asks");
        let app = attaching.join().expect("no assertion failed") as *mut CalistoApp;
        Self { served, app, _folder: folder }
    }

    fn worker(&self, n: u32) -> *mut CalistoWorker {
        // SAFETY: it is attached.
        unsafe { calisto_worker(self.app, n) }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // SAFETY: the tests use it no more.
        unsafe { calisto_detach(self.app) };
    }
}

/// A place for a packet, with something in it that a careful library must not believe.
fn any() -> CalistoPacket {
    CalistoPacket {
        data: 8 as *mut u8,
        len: u32::MAX,
        room: u32::MAX,
        received_at_ns: 0,
        flow_hash: 0,
        flow_group: 0,
        port: 9,
        l3_offset: 14,
        l4_offset: 34,
        checksum: 7,
        reserved: 1,
        handle: 1 << 32,
    }
}

fn take(worker: *mut CalistoWorker) -> CalistoPacket {
    let mut packet = any();
    // SAFETY: both are good.
    assert_eq!(unsafe { calisto_take(worker, &mut packet) }, 1);
    assert!(!packet.data.is_null() && packet.len == 0 && packet.room > 1500);
    packet
}

#[test]
fn null_is_an_error_everywhere_and_detaching_it_is_nothing() {
    let stage = Stage::new("null");
    let worker = stage.worker(0);
    let mut app = null_mut();
    // SAFETY: null is allowed everywhere, which is what is tested.
    unsafe {
        assert_eq!(calisto_attach(null(), &mut app), CALISTO_INVALID);
        assert_eq!(calisto_attach(&options(c"a", c"/nowhere"), null_mut()), CALISTO_INVALID);
        assert!(calisto_worker(null(), 0).is_null());
        assert_eq!(calisto_port(null(), 0, null_mut()), CALISTO_INVALID);
        assert_eq!(calisto_port(stage.app, 0, null_mut()), CALISTO_INVALID);
        for call in [calisto_flush, calisto_fd, calisto_arm, calisto_disarm] {
            assert_eq!(call(null_mut()), CALISTO_INVALID);
        }
        assert_eq!(calisto_wait(null_mut(), 0), CALISTO_INVALID);
        assert_eq!(calisto_receive(worker, null_mut(), 1), CALISTO_INVALID);
        assert_eq!(calisto_receive(worker, null_mut(), 0), 0);
        assert_eq!(calisto_send(worker, null_mut(), 1), CALISTO_INVALID);
        assert_eq!(calisto_done(worker, null_mut(), 0), 0);
        assert_eq!(calisto_take(worker, null_mut()), CALISTO_INVALID);
        assert_eq!(calisto_reply(worker, null_mut(), null(), 0), CALISTO_INVALID);
        calisto_detach(null_mut());
    }
    assert!(error(null()).contains("calisto_reply: `packet` is null"));
    assert!(stage.worker(2).is_null(), "there are two");
}

#[test]
fn options_that_cannot_be_are_refused_with_a_sentence() {
    let attach = |change: fn(&mut CalistoOptions)| -> (c_int, String) {
        let mut options = options(c"fine", c"/nowhere/apps.sock");
        change(&mut options);
        let mut app = std::ptr::dangling_mut::<CalistoApp>();
        // SAFETY: what it points to lives long enough.
        let code = unsafe { calisto_attach(&options, &mut app) };
        assert!(app.is_null());
        (code, error(null()))
    };
    let (code, text) = attach(|_| ());
    assert_eq!(code, CALISTO_NO_DAEMON, "{text}");
    assert!(text.contains("/nowhere/apps.sock"), "{text}");
    for (change, sentence) in [
        ((|options| options.name = null()) as fn(&mut CalistoOptions), "`name` is null"),
        (|options| options.name = c"\xff".as_ptr(), "UTF-8"),
        (|options| options.listen_count = 1, "64 addresses"),
        (|options| options.listen_count = u32::MAX, "64 addresses"),
        (|options| options.reserved[3] = 1, "reserved"),
    ] {
        let (code, text) = attach(change);
        assert_eq!(code, CALISTO_INVALID, "{text}");
        assert!(text.contains(sentence), "{text}");
    }
}

#[test]
fn a_packet_that_was_given_back_or_never_given_or_is_anothers_is_refused() {
    let mut stage = Stage::new("handles");
    let (zero, one) = (stage.worker(0), stage.worker(1));
    // SAFETY: pointers and counts are right; what the packets say is not, which is tested.
    unsafe {
        assert_eq!(calisto_send(zero, &mut any(), 1), CALISTO_INVALID);
        let mut packet = take(zero);
        packet.len = 3;
        packet.data.copy_from(b"abc".as_ptr(), 3);
        assert_eq!(calisto_send(one, &mut packet, 1), CALISTO_INVALID, "worker 0 has it");
        assert!(error(null()).contains("another worker's"));
        let mut copy = packet;
        assert_eq!(calisto_send(zero, &mut packet, 1), 1);
        assert!(packet.data.is_null());
        assert_eq!(calisto_send(zero, &mut packet, 1), CALISTO_INVALID);
        assert_eq!(calisto_done(zero, &mut copy, 1), CALISTO_INVALID, "a copy is no second packet");
        assert_eq!(calisto_reply(zero, &mut copy, null(), 0), CALISTO_INVALID);
        assert_eq!(calisto_flush(zero), 0);
    }
    assert_eq!(stage.served.sent(0).as_deref(), Some(&b"abc"[..]));
    assert_eq!(stage.served.sent(0), None, "sent once");
}

#[test]
fn a_length_beyond_the_room_is_refused_and_what_comes_before_it_is_sent() {
    let mut stage = Stage::new("length");
    let worker = stage.worker(0);
    let mut packets = [take(worker), take(worker), take(worker)];
    let room = packets[1].room;
    packets[1].len = room + 1;
    // SAFETY: there are three.
    unsafe {
        assert_eq!(calisto_send(worker, packets.as_mut_ptr(), 3), 1);
        assert_eq!(calisto_send(worker, packets[1..].as_mut_ptr(), 2), CALISTO_INVALID);
        assert!(error(null()).contains("has no room"));
        packets[1].len = room;
        assert_eq!(calisto_send(worker, packets[1..].as_mut_ptr(), 2), 2);
        assert_eq!(calisto_flush(worker), 0);
    }
    assert_eq!(stage.served.sent(0).map(|packet| packet.len()), Some(0));
    assert_eq!(stage.served.sent(0).map(|packet| packet.len()), Some(room as usize));
    assert!(stage.served.sent(0).is_some());
}

#[test]
fn what_a_full_ring_does_not_take_stays_valid() {
    let mut stage = Stage::new("c-full");
    let worker = stage.worker(0);
    let mut packets: Vec<_> = (0..RING_SLOTS + 1).map(|_| take(worker)).collect();
    for (index, packet) in packets.iter_mut().enumerate() {
        packet.len = 1;
        // SAFETY: it has room.
        unsafe { packet.data.write(index as u8) };
    }
    // SAFETY: they are as many as is said.
    unsafe {
        let count = packets.len() as u32;
        assert_eq!(calisto_send(worker, packets.as_mut_ptr(), count), RING_SLOTS as c_int);
        let last = packets.last_mut().expect("it is there");
        assert_eq!(calisto_send(worker, last, 1), 0);
        while stage.served.sent(0).is_some() {}
        assert_eq!(calisto_send(worker, last, 1), 1);
        assert_eq!(calisto_flush(worker), 0);
    }
    assert_eq!(stage.served.sent(0), Some(vec![RING_SLOTS as u8]));
}

#[test]
fn a_second_thread_in_a_worker_is_turned_away() {
    let mut stage = Stage::new("busy");
    let worker = stage.worker(0) as usize;
    let (asleep, sleeping) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || {
        asleep.send(()).expect("the test waits");
        loop {
            // SAFETY: it is attached until the thread was joined.
            let woken = unsafe { calisto_wait(worker as *mut CalistoWorker, CALISTO_FOREVER) };
            // The test's own call may have come first.
            if woken != CALISTO_BUSY {
                return woken;
            }
        }
    });
    sleeping.recv().expect("it is about to wait");
    let worker = worker as *mut CalistoWorker;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    // SAFETY: as above.
    while unsafe { calisto_flush(worker) } != CALISTO_BUSY {
        assert!(std::time::Instant::now() < end, "two threads in one worker");
    }
    assert!(error(null()).contains("give each thread its own"));
    stage.served.deliver(0, b"wake up");
    assert_eq!(waiter.join().expect("no assertion failed"), 1);
    // SAFETY: as above.
    assert_eq!(unsafe { calisto_flush(worker) }, 0, "it is free again");
}

#[test]
fn more_packets_than_a_batch_are_received_at_once_and_ports_are_known() {
    let mut stage = Stage::new("many");
    let worker = stage.worker(1);
    for index in 0..10 {
        stage.served.deliver(1, &[index]);
    }
    let mut packets = vec![any(); 100];
    // SAFETY: there are that many.
    unsafe {
        assert_eq!(calisto_receive(worker, packets.as_mut_ptr(), 4), 4);
        assert_eq!(calisto_receive(worker, packets[4..].as_mut_ptr(), 96), 6);
        for (index, packet) in packets[..10].iter().enumerate() {
            assert_eq!((packet.len, packet.data.read()), (1, index as u8));
        }
        assert_eq!(calisto_done(worker, packets.as_mut_ptr(), 10), 10);
        assert_eq!(calisto_flush(worker), 0);
        let mut port = std::mem::zeroed::<CalistoPort>();
        assert_eq!(calisto_port(stage.app, 0, &mut port), 0);
        assert_eq!((port.mac, port.has_mac, port.mtu), (crate::common::MAC, 1, 1500));
        assert_eq!(CStr::from_ptr(port.name), c"test");
        assert_eq!(calisto_port(stage.app, 1, &mut port), CALISTO_INVALID);
    }
    assert_eq!(stage.served.sent(1), None);
    assert_eq!(stage.served.server.held(), 0);
}

#[test]
fn the_end_of_the_attachment_is_said_by_every_call_that_could_wait_for_the_daemon() {
    let stage = Stage::new("end");
    let worker = stage.worker(0);
    stage.served.server.detach(attach::DetachReason::Stalled.number());
    let mut packet = any();
    // SAFETY: there is one place.
    unsafe {
        assert_eq!(calisto_receive(worker, &mut packet, 1), CALISTO_DETACHED);
        assert_eq!(calisto_wait(worker, CALISTO_FOREVER), CALISTO_DETACHED);
        assert_eq!(calisto_send(worker, null_mut(), 0), CALISTO_DETACHED);
    }
    assert!(error(stage.app).contains("did not take its packets"), "{}", error(stage.app));
}
