//! Many UDP flows from kernel sockets, each of which checks every reply that it gets.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testbed::Testbed;

use crate::wait_for;

/// Connected sockets, each a flow, with the number of the next request and of the next reply.
#[derive(Debug)]
pub struct Flows {
    flows: Vec<Flow>,
    /// Replies whose number was lower than one that had come before.
    pub reordered: u64,
    /// Replies that were not what was sent.
    pub corrupt: u64,
    /// Replies received.
    pub received: u64,
    /// Requests sent.
    pub sent: u64,
}

#[derive(Debug)]
struct Flow {
    socket: UdpSocket,
    sent: u64,
    highest: Option<u64>,
    received: u64,
}

impl Flows {
    /// `count` flows from addresses of `local`'s family to `server`. Call it inside the client's
    /// namespace.
    ///
    /// # Panics
    /// The sockets cannot be made.
    pub fn new(count: usize, local: SocketAddr, server: SocketAddr) -> Self {
        let open = |_| {
            let socket = UdpSocket::bind(local).expect("an ephemeral port is free");
            socket.connect(server).expect("the wire leads there");
            socket.set_nonblocking(true).expect("a UDP socket can be");
            Flow { socket, sent: 0, highest: None, received: 0 }
        };
        let flows = (0..count).map(open).collect();
        Self { flows, reordered: 0, corrupt: 0, received: 0, sent: 0 }
    }

    /// One request on every flow: a number, and bytes that depend on it.
    ///
    /// # Panics
    /// A socket refuses for a reason that is no passing one.
    pub fn send_all(&mut self) {
        for flow in &mut self.flows {
            match flow.socket.send(&payload(flow.sent)) {
                Ok(_) => {
                    flow.sent += 1;
                    self.sent += 1;
                }
                // A port unreachable from before the daemon was there; the next one counts.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("cannot send: {error}"),
            }
        }
    }

    /// Takes all replies that are there.
    pub fn receive_all(&mut self) {
        let mut bytes = [0; 256];
        for flow in &mut self.flows {
            while let Ok(len) = flow.socket.recv(&mut bytes) {
                self.received += 1;
                flow.received += 1;
                let number =
                    bytes[..len].first_chunk().map_or(u64::MAX, |n| u64::from_be_bytes(*n));
                if bytes[..len] != payload(number) {
                    self.corrupt += 1;
                }
                if flow.highest.is_some_and(|highest| number < highest) {
                    self.reordered += 1;
                }
                flow.highest = flow.highest.max(Some(number));
            }
        }
    }

    /// Requests and replies until `rounds` requests per flow are sent, never more than
    /// `window` unanswered per flow; then waits for the last replies.
    pub fn run(&mut self, rounds: usize, window: u64) {
        for _ in 0..rounds {
            self.send_all();
            let began = Instant::now();
            loop {
                self.receive_all();
                if self.sent - self.received <= window * self.flows.len() as u64
                    || began.elapsed() > Duration::from_millis(500)
                {
                    break;
                }
            }
        }
        self.settle();
    }

    /// Waits until every request is answered, or for five seconds without any reply.
    pub fn settle(&mut self) {
        let (mut last, mut since) = (self.received, Instant::now());
        while self.received < self.sent && since.elapsed() < Duration::from_secs(5) {
            self.receive_all();
            if self.received != last {
                (last, since) = (self.received, Instant::now());
            }
        }
    }

    /// Asserts that every request was answered once, in order, unharmed.
    ///
    /// # Panics
    /// If not.
    pub fn assert_perfect(&self) {
        let Self { flows: _, reordered, corrupt, received, sent } = self;
        assert!(*sent > 0, "nothing was sent");
        assert_eq!(
            (*reordered, *corrupt, *received),
            (0, 0, *sent),
            "reordered, corrupt, received"
        );
    }
}

/// A few flows from the client's end of `bed` to the server's `port`; every request must be
/// answered, once and in order. How many were.
///
/// # Panics
/// One was not.
pub fn answered(bed: &Testbed, port: u16) -> u64 {
    let server = SocketAddr::from((bed.server().ipv4(), port));
    let flows = bed.client().enter(|| {
        let mut flows = Flows::new(10, "0.0.0.0:0".parse().expect("an address"), server);
        flows.run(10, 1);
        flows
    });
    let flows = flows.expect("the client's namespace is there");
    flows.assert_perfect();
    flows.received
}

/// What [`serve_with_the_kernel`] knows its own question by; no request is like it.
const PROBE: &[u8] = b"whose?";

/// A kernel socket of the server's end on `port` that answers until it drops; the first packets
/// have come to it.
///
/// # Panics
/// The port is taken, or its packets do not come to the kernel.
pub fn serve_with_the_kernel(bed: &Testbed, port: u16) -> KernelEcho {
    let address = SocketAddr::from((bed.server().ipv4(), port));
    let socket = bed.server().enter(|| UdpSocket::bind(address).expect("the port is free"));
    let socket = socket.expect("the server's namespace is there");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("no zero");
    // That an application is detached is known a moment before its port is given back.
    wait_for("the kernel's packets", || {
        let sent = bed.client().enter(|| UdpSocket::bind("0.0.0.0:0")?.send_to(PROBE, address));
        sent.expect("the client's namespace is there").map_err(|error| error.to_string())?;
        socket.recv(&mut [0; 256]).map_err(|error| error.to_string())
    });
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let (mut bytes, mut count) = ([0; 256], 0);
        while !stops.load(Ordering::Relaxed) {
            if let Ok((len, from)) = socket.recv_from(&mut bytes)
                && bytes[..len] != *PROBE
            {
                count += 1;
                let _ = socket.send_to(&bytes[..len], from);
            }
        }
        count
    });
    KernelEcho { stop, thread: Some(thread) }
}

/// What [`serve_with_the_kernel`] gives.
#[derive(Debug)]
pub struct KernelEcho {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl KernelEcho {
    /// Ends it; how many requests it got.
    ///
    /// # Panics
    /// It has panicked.
    pub fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is ended once");
        thread.join().expect("it does not panic")
    }
}

impl Drop for KernelEcho {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn payload(number: u64) -> Vec<u8> {
    let len = 16 + (number % 64) as usize;
    let mut bytes = vec![number as u8 ^ 0x5a; len];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}
