//! The engine's own work for a request and its response: 64 bytes in, their bytes delivered, 64
//! bytes back, one segment each way, both checksums included. The flow's hash is the caller's.
//!
//! In instructions, of one flow and segments that come one by one:
//!
//!     cargo build --release -p tcp --example requests
//!     valgrind --tool=callgrind target/release/examples/requests count 20000
//!     callgrind_annotate --inclusive=yes callgrind.out.* | grep server_
//!
//! In time, with few flows and with more than caches hold, each request of a random one:
//!
//!     cargo run --release -p tcp --example requests
//!
//! What the client does is neither counted (it is in no function named `server_`) nor timed.
#![expect(clippy::disallowed_methods, reason = "the engine is pure, who measures it is not")]
#![expect(clippy::disallowed_types, reason = "the engine is pure, who measures it is not")]

mod client;
mod server;

use std::time::{Duration, Instant};

use base::Nanos;
use client::{Client, Frame};
use server::{Server, answer, server_expire, server_receive, server_transmit};

/// Virtual time that passes for a request: five million of them a second.
const PACE: Nanos = Nanos(200);

struct Rig {
    client: Client,
    server: Server,
    now: Nanos,
    requests: Vec<Frame>,
}

impl Rig {
    /// `flows` connections that stand.
    fn new(flows: u32, batch: usize) -> Self {
        let now = Nanos::from_secs(1);
        let mut rig = Self {
            client: Client::new(flows),
            server: Server::new(flows, now),
            now,
            requests: vec![Frame::EMPTY; batch],
        };
        for flow in 0..flows {
            let syn = rig.client.syn(flow);
            rig.requests[0] = syn;
            rig.round(1);
            rig.requests[0] = rig.client.handshake_ack(flow, rig.now);
            rig.round(1);
        }
        rig
    }

    /// Brings the first `count` requests to the server, and its answers back. Returns what time the
    /// server took.
    fn round(&mut self, count: usize) -> Duration {
        let Self { client, server, now, requests } = self;
        *now += Nanos(PACE.0 * count as u64);
        let nothing = Frame::EMPTY;
        let mut batch = [nothing.incoming(); 64];
        let batch = &mut batch[..count];
        for (place, frame) in batch.iter_mut().zip(requests) {
            *place = frame.incoming();
        }
        let start = Instant::now();
        server_receive(server, *now, batch);
        server_expire(server, *now);
        answer(server);
        server_transmit(server, *now);
        let took = start.elapsed();
        for frame in server.answers() {
            client.take(frame);
        }
        server.forget_answers();
        took
    }

    /// So many rounds of requests. Returns what time the server took for the one in the middle: others
    /// who use the machine disturb some rounds, but not most.
    fn run(&mut self, rounds: u64) -> Duration {
        let batch = self.requests.len();
        let mut took = Vec::with_capacity(rounds as usize);
        for _ in 0..rounds {
            for place in 0..batch {
                self.requests[place] = self.client.request(place == 0, self.now);
            }
            took.push(self.round(batch));
        }
        let middle = took.len() / 2;
        match took.is_empty() {
            true => Duration::ZERO,
            false => *took.select_nth_unstable(middle).1,
        }
    }

    fn report(&self) {
        let counters = self.server.engine.counters();
        println!(
            "{} segments in, {} of them on the fast path, {} out; {} responses",
            counters.received, counters.fast, counters.transmitted, self.client.responses
        );
    }
}

/// What taking the time costs, so that it can be taken off.
fn cost_of_a_clock() -> Duration {
    let mut samples: Vec<Duration> = (0..10_001).map(|_| Instant::now().elapsed()).collect();
    *samples.select_nth_unstable(5_000).1
}

fn time() {
    let clock = cost_of_a_clock();
    println!("  flows  batch  ns per request");
    for flows in [100, 100_000] {
        for batch in [1, 32, 64] {
            let mut rig = Rig::new(flows, batch);
            let requests = 1_000_000;
            let rounds = requests / batch as u64;
            // Once for the caches, and for timers to come to where they stay.
            rig.run(rounds);
            let took = rig.run(rounds).saturating_sub(clock);
            let nanos = took.as_nanos() as f64 / batch as f64;
            println!("{flows:>7} {batch:>6} {nanos:>15.1}");
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    match arguments.first().map(String::as_str) {
        None => time(),
        Some("count") => {
            let batch = number(3, 1).clamp(1, 64);
            let mut rig = Rig::new(number(2, 1).clamp(batch, 1 << 20) as u32, batch as usize);
            rig.run(number(1, 20_000) / batch);
            rig.report();
        }
        Some(_) => println!("usage: requests [count REQUESTS [FLOWS [BATCH]]]"),
    }
}
