//! What `streams` promises, case by case: mostly about servers that misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Nanos;

use super::Streams;
use super::kernel::Kernel;
use crate::protocol::{Cache, Page, Protocol};
use crate::{Pace, Plan, Report, Transport};

/// A server on loopback whose every connection is in the hands of one function; it lives as long as
/// the value.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// `serve` is given each connection and its number, and ends it by returning.
    fn start(serve: impl Fn(TcpStream, usize) + Send + Sync + Clone + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("it is a socket");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let accepting = std::thread::spawn(move || {
            let (mut number, mut serving) = (0, Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                stream.set_nonblocking(false).expect("it is a socket");
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("no zero");
                let serve = serve.clone();
                serving.push(std::thread::spawn(move || serve(stream, number)));
                number += 1;
            }
            serving.into_iter().for_each(|one| one.join().expect("no assertion failed"));
        });
        Self { address, stop, accepting: Some(accepting) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn echo(mut stream: TcpStream, most: usize) {
    let (mut bytes, mut left) = ([0; 4096], most);
    while left > 0
        && let Ok(count) = stream.read(&mut bytes)
        && count > 0
    {
        let count = count.min(left);
        left -= count;
        if stream.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// For servers that leave something out. Longer than a busy machine keeps a thread waiting.
fn plan(pace: Pace) -> Plan {
    Plan {
        pace,
        flows: 3,
        payload_bytes: 40,
        length: Nanos::from_millis(600),
        grace: Nanos::from_millis(100),
        ..Plan::default()
    }
}

/// For servers that answer everything in the end; the run ends when they have.
fn patient(pace: Pace) -> Plan {
    Plan { grace: Nanos::from_secs(20), ..plan(pace) }
}

fn load(plan: &Plan, address: SocketAddr, protocol: &Protocol) -> Report {
    let open = |own: &Plan, _| {
        Streams::open(Kernel::new(own.flows, None)?, protocol.clone(), address, own.flows)
    };
    crate::run(plan, &crate::Options::default(), open, None).expect("loopback is there")
}

fn paces() -> [Pace; 2] {
    let arrival = crate::Arrival::Constant;
    [Pace::Open { arrival, rate: 1000.0 }, Pace::Closed { outstanding: 4 }]
}

const ECHO: Protocol = Protocol::Echo { payload_bytes: 40 };

#[test]
fn an_honest_server_answers_everything_on_as_many_connections_as_there_are_flows() {
    for pace in paces() {
        let server = Server::start(|stream, _| echo(stream, usize::MAX));
        let report = load(&patient(pace), server.address, &ECHO);
        assert!(report.requests.sent + report.requests.never_sent > 3, "{report:?}");
        assert_eq!(report.requests.received, report.requests.sent, "{report:?}");
        let troubles = [
            report.requests.lost,
            report.replies.corrupted,
            report.replies.reordered,
            report.replies.duplicates,
        ];
        assert_eq!(troubles, [0; 4], "{report:?}");
        assert_eq!(
            [
                report.transport.closed,
                report.transport.broken,
                report.transport.resent,
                report.replies.errors
            ],
            [0; 4]
        );
        assert!(report.run.generator.contains("3 TCP connection(s)"), "{}", report.run.generator);
    }
}

#[test]
fn what_is_asked_for_follows_from_the_seed_that_the_run_begins_with() {
    let server = Server::start(|stream, _| echo(stream, usize::MAX));
    let redis = Protocol::Redis(Cache::new(Default::default(), 1));
    let asks = |seed| -> Vec<_> {
        let kernel = Kernel::new(1, None).expect("descriptors are left");
        let streams = Streams::open(kernel, redis.clone(), server.address, 1);
        let mut streams = streams.expect("it listens");
        streams.begin(seed);
        (0..50).map(|_| streams.protocol.ask()).collect()
    };
    assert_eq!(asks(1), asks(1));
    assert_ne!(asks(1), asks(2));
}

#[test]
fn what_a_closing_server_owed_is_asked_again_and_nothing_is_lost() {
    for pace in paces() {
        // Each connection answers five and a half requests.
        let server = Server::start(|stream, _| echo(stream, 220));
        let report = load(&patient(pace), server.address, &ECHO);
        assert!(report.transport.closed > 0 && report.transport.resent > 0, "{report:?}");
        assert_eq!((report.requests.lost, report.replies.corrupted), (0, 0), "{report:?}");
        assert_eq!(report.requests.received, report.requests.sent);
    }
}

#[test]
fn a_server_that_closes_at_once_loses_everything_in_bounded_time_and_tries() {
    for pace in paces() {
        let server = Server::start(|stream, _| drop(stream));
        let report = load(&plan(pace), server.address, &ECHO);
        assert_eq!(report.requests.received, 0);
        assert!(report.transport.closed > 3, "{report:?}");
        // With 100 ms between tries at last, three connections cannot be made often.
        assert!(report.transport.closed < 200, "{report:?}");
        assert!(report.requests.sent > 0, "{report:?}");
    }
}

#[test]
fn garbage_ends_its_connection_and_is_counted() {
    let http = Protocol::Http(Page::new("here", "/"));
    for pace in paces() {
        let server = Server::start(|mut stream, _| {
            let mut bytes = [0; 4096];
            if stream.read(&mut bytes).is_ok() {
                let _ = stream.write_all(b"\0\x01\x02 this is no answer of any protocol");
                let _ = stream.read(&mut bytes);
            }
        });
        let report = load(&plan(pace), server.address, &http);
        assert_eq!(report.requests.received, 0, "{report:?}");
        assert!(
            report.transport.broken > 0 && report.requests.lost == report.requests.sent,
            "{report:?}"
        );
    }
}

#[test]
fn an_answer_without_end_is_given_up_and_nothing_of_it_is_kept() {
    let redis = Protocol::Redis(Cache::new(Default::default(), 1));
    let server = Server::start(|mut stream, _| {
        let mut bytes = [b'x'; 4096];
        while stream.write_all(&bytes).is_ok() {}
        let _ = stream.read(&mut bytes);
    });
    let report = load(&plan(paces()[0]), server.address, &redis);
    assert_eq!(report.requests.received, 0);
    assert!(report.transport.broken > 0, "{report:?}");
}

#[test]
fn bytes_that_nobody_asked_for_end_the_connection() {
    let server = Server::start(|mut stream, number| {
        // Only the first connections are too talkative.
        if number < 3 {
            let _ = stream.write_all(&[7; 40]);
        }
        echo(stream, usize::MAX);
    });
    let report = load(&plan(paces()[0]), server.address, &ECHO);
    assert!(report.transport.broken + report.replies.corrupted > 0, "{report:?}");
    assert!(report.requests.received > 0, "{report:?}");
}

#[test]
fn half_an_answer_and_silence_is_lost_when_the_grace_is_over() {
    for pace in paces() {
        let server = Server::start(|mut stream, _| {
            let mut bytes = [0; 39];
            if stream.read_exact(&mut bytes).is_ok() {
                let _ = stream.write_all(&bytes);
                while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
            }
        });
        let report = load(&plan(pace), server.address, &ECHO);
        assert_eq!((report.requests.received, report.transport.broken), (0, 0), "{report:?}");
        assert_eq!(report.requests.lost, report.requests.sent);
    }
}

#[test]
fn damaged_and_swapped_copies_are_corrupted() {
    let server = Server::start(|mut stream, _| {
        let mut bytes = [0; 40];
        while stream.read_exact(&mut bytes).is_ok() {
            bytes[20] ^= 1;
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
    });
    let report = load(&plan(paces()[0]), server.address, &ECHO);
    // Those that had not come back when the grace was over are lost whatever they were.
    assert!(
        report.replies.corrupted > 0 && report.replies.corrupted <= report.requests.sent,
        "{report:?}"
    );
    assert_eq!(
        (report.requests.received, report.requests.lost),
        (0, report.requests.sent),
        "{report:?}"
    );
}

#[test]
fn a_server_that_does_not_read_holds_up_only_its_own_requests() {
    let server = Server::start(|mut stream, number| {
        if number == 0 {
            std::thread::sleep(Duration::from_millis(400));
            // Closed with unread bytes: a reset.
            let _ = stream.read(&mut [0; 1]);
            return;
        }
        echo(stream, usize::MAX);
    });
    // 64 kB a request: what the kernel's buffers hold is soon full.
    let length = Nanos::from_millis(200);
    let grace = Nanos::from_secs(20);
    let plan = Plan { payload_bytes: 65_000, length, grace, ..plan(paces()[0]) };
    let protocol = Protocol::Echo { payload_bytes: 65_000 };
    let report = load(&plan, server.address, &protocol);
    assert!(report.requests.received > report.requests.sent / 3, "{report:?}");
    assert!(report.requests.sent + report.requests.never_sent == 200, "{report:?}");
}

#[test]
fn a_page_that_ends_its_connection_is_no_trouble() {
    for length in ["Content-Length: 5\r\nConnection: close\r\n", ""] {
        let server = Server::start(move |mut stream, _| {
            let (mut bytes, mut seen) = ([0; 4096], Vec::new());
            while !seen.ends_with(b"\r\n\r\n") {
                match stream.read(&mut bytes) {
                    Ok(count) if count > 0 => seen.extend_from_slice(&bytes[..count]),
                    _ => return,
                }
            }
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{length}\r\nhello").as_bytes());
        });
        let http = Protocol::Http(Page::new("here", "/"));
        let one_by_one = Plan { flows: 1, ..patient(Pace::Closed { outstanding: 1 }) };
        let report = load(&one_by_one, server.address, &http);
        assert!(report.requests.received > 0, "{report:?}");
        let troubles = [
            report.replies.errors,
            report.transport.broken,
            report.transport.closed,
            report.transport.resent,
            report.requests.lost,
        ];
        assert_eq!(troubles, [0; 5], "{report:?}");
    }
}

#[test]
fn where_nobody_listens_nothing_begins() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let kernel = Kernel::new(3, None).expect("descriptors are left");
    let error = Streams::open(kernel, ECHO, address, 3).err().expect("nobody listens");
    assert!(error.to_string().contains(&format!("connect to {address}")), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}
