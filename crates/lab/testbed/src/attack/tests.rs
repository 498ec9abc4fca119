//! Attacks against Linux's own TCP: each connection ends as it was meant to.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::TestbedConfig;

const PORT: u16 = 7000;

/// Longer than any of them takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer: more than any window of the attacker's.
const LONG: usize = 1 << 20;

/// Serves a connection a thread: a line is answered by [`LONG`] bytes, "x" by one, then the end.
fn serve(listener: &TcpListener, is_over: &AtomicBool) {
    std::thread::scope(|scope| {
        while !is_over.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            scope.spawn(move || {
                stream.set_nonblocking(false).expect("a TCP socket can be");
                let _ = stream.set_read_timeout(Some(Duration::from_secs(3)));
                let _ = stream.set_write_timeout(Some(Duration::from_secs(3)));
                let mut asked = [0; 64];
                let Ok(1..) = stream.read(&mut asked) else { return };
                // The attacker may have gone: that is what is tried here.
                let _ = stream.write_all(&vec![b'.'; if asked[0] == b'x' { 1 } else { LONG }]);
            });
        }
    });
}

fn run(abuse: Abuse, request: &[u8], connections: u64) -> AttackCounts {
    let bed = Testbed::new(TestbedConfig::default()).expect("this test needs root");
    let server = SocketAddrV4::new(bed.server().ipv4(), PORT);
    let listener = bed.server().enter(|| TcpListener::bind(server)).expect("it is there");
    let listener = listener.expect("the port is free");
    listener.set_nonblocking(true).expect("a TCP socket can be");
    let plan = AttackPlan {
        server,
        conducts: vec![Conduct::new(abuse, request)],
        connections,
        per_second: 200,
        holds: Nanos::from_millis(1500),
        first: 0,
    };
    let mut attack = Attack::new(&bed, plan).expect("this test needs root");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &is_over));
        let began = Instant::now();
        while !attack.is_over() && began.elapsed() < TIMEOUT {
            if !attack.turn(sys::clock::now()) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        attack.end(sys::clock::now());
        is_over.store(true, Ordering::Relaxed);
    });
    attack.counts()
}

#[test]
fn connections_end_each_by_its_own_kind_of_abuse() {
    for (abuse, request, ended, expired) in [
        (Abuse::ResetWhileWriting, "all\n", 20, 0),
        (Abuse::UnreadThenFin, "all\n", 20, 0),
        (Abuse::HalfClose, "x\n", 20, 0),
        (Abuse::Polite, "x\n", 20, 0),
        (Abuse::Silence, "all\n", 0, 20),
        (Abuse::TinySegments, "all\n", 0, 20),
        (Abuse::ZeroWindow, "all\n", 0, 20),
        (Abuse::SackSpam, "all\n", 0, 20),
        (Abuse::SlowRead, "all\n", 0, 20),
    ] {
        let counts = run(abuse, request.as_bytes(), 20);
        assert_eq!((counts.opened, counts.accepted), (20, 20), "{abuse:?}: {counts:?}");
        assert_eq!((counts.ended, counts.expired), (ended, expired), "{abuse:?}: {counts:?}");
        assert_eq!((counts.reset, counts.unanswered), (0, 0), "{abuse:?}: {counts:?}");
    }
    let counts = run(Abuse::SynOnly, b"", 20);
    assert_eq!((counts.opened, counts.unanswered, counts.accepted), (20, 20, 0), "{counts:?}");
}

#[test]
fn no_two_connections_have_the_same_name() {
    let mut names: Vec<SocketAddrV4> = (0..200_000).map(name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 200_000);
    assert!(names.iter().all(|name| matches!(name.ip().octets(), [198, 18 | 19, ..])));
}
