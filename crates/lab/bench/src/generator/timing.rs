//! The latencies that the load generator records, against the same requests' by the time-stamp
//! counter, read where they leave for the port and where they come from it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::Nanos;
use load::transport::packets::{Packets, PacketsConfig};
use load::{
    Answer, Arrival, Latencies, Pace, Plan as LoadPlan, Reply, Request, Shard, ShardCount,
    Transport, TransportCounters,
};
use shm::{FramePool, PoolConfig};
use sys::clock::{TscRate, now};

use super::echo_port::{EchoPort, Stamps};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::place::on_cpu;
use crate::report::Report;

const RATE: f64 = 100_000.0;
/// Mean time of the server, about that of a real one on a veth.
const DELAY: Nanos = Nanos::from_micros(20);
/// What leaves later is late.
const LATE: Nanos = Nanos::from_micros(5);
/// After the last request, answers are waited for this long.
const GRACE: Nanos = Nanos::from_millis(50);

/// One round.
struct Round {
    errors: Latencies,
    recorded: Latencies,
    counted: Latencies,
    late_share: f64,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpu = plan.cpus.server;
    report.begin(
        "timing",
        &format!(
            "open loop, Poisson, {RATE} requests/s through a wire in memory to a server on the same \
             thread on CPU {cpu}, which answers in order after {DELAY} on average (exponential). Error: \
             of each request, the difference between the latency that the generator records from the \
             moment of sending and that between its packet's way into the port and its answer's way \
             out of it, by the time-stamp counter."
        ),
    )?;
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    let length = plan.pick(Nanos::from_secs(2), Nanos::from_millis(100));
    let [rounds] = turns_of(plan, report, "", |_, round| {
        on_cpu(cpu, || measure(length, rate, u64::from(round)))
    })?;
    let of = |value: fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
    fn at(latencies: &Latencies, share: f64) -> f64 {
        latencies.quantile(share).as_micros_f64()
    }
    let p95 = of(|round| at(&round.errors, 0.95));
    report.figure(Figure::new("error, p95", "us", &p95).target(Target::AtMost(2.0)))?;
    report.figure(Figure::new("error, p50", "us", &of(|round| at(&round.errors, 0.5))))?;
    report.figure(Figure::new("error, p99", "us", &of(|round| at(&round.errors, 0.99))))?;
    for (name, share) in [("latency, p50", 0.5), ("latency, p95", 0.95), ("latency, p99", 0.99)] {
        let own: Vec<f64> = rounds.iter().map(|round| at(&round.recorded, share)).collect();
        let other: Vec<f64> = rounds.iter().map(|round| at(&round.counted, share)).collect();
        report.figure(Figure::new(name, "us", &own).against("TSC", &own, &other))?;
    }
    report.figure(Figure::new("left over 5 us late", "%", &of(|round| round.late_share)))
}

fn measure(length: Nanos, rate: TscRate, round: u64) -> Result<Round, Error> {
    let ticks_per_nano = rate.ticks_per_second() / 1e9;
    // More than a Poisson process of that mean will ever send.
    let most = (RATE * length.as_secs_f64() * 1.2) as usize + 1000;
    let stamps = Rc::new(RefCell::new(Stamps { sent: vec![0; most], heard: vec![0; most] }));
    let port = EchoPort::new(Rc::clone(&stamps), DELAY.0 as f64 * ticks_per_nano, round);
    let pool = FramePool::new(PoolConfig { frames: 8192, ..PoolConfig::default() });
    let config = PacketsConfig {
        target: ([10, 0, 0, 2], 7).into(),
        sources: "10.78.0.0/24".parse().or_needs("prefix")?,
        first_port: 10_000,
        source_mac: [2, 0, 0, 0, 0, 1],
        next_hop_mac: [2, 0, 0, 0, 0, 2],
        flows: 100,
        payload_bytes: load::REQUEST_BYTES,
    };
    let packets = Packets::new(port, pool.or_needs("pool of frames")?, config);
    let clock = Rc::new(Cell::new(Nanos::ZERO));
    let book = Book { noted: vec![Nanos::ZERO; most], recorded: vec![0; most], late: 0 };
    let book = Rc::new(RefCell::new(book));
    let watched = Watched {
        inner: packets.or_needs("way for packets")?,
        clock: Rc::clone(&clock),
        book: Rc::clone(&book),
    };
    let wanted = LoadPlan {
        pace: Pace::Open { arrival: Arrival::Poisson, rate: RATE },
        flows: config.flows,
        length,
        grace: GRACE,
        seed: round + 1,
        ..LoadPlan::default()
    };
    let start = now() + Nanos::from_millis(1);
    let mut shard = Shard::new(&wanted, ShardCount::ALONE, watched, start);
    let read = || {
        let time = now();
        clock.set(time);
        time
    };
    loop {
        let turn = shard.turn(&read);
        let (sent, received) = shard.progress();
        let is_done = turn.next_due == Nanos::FAR_FUTURE && received >= sent;
        if is_done || clock.get() > start + length + GRACE {
            break;
        }
    }
    let (stamps, book) = (stamps.borrow(), book.borrow());
    let (mut errors, mut recorded, mut counted) =
        (Latencies::default(), Latencies::default(), Latencies::default());
    for ((&sent, &heard), &own) in stamps.sent.iter().zip(&stamps.heard).zip(&book.recorded) {
        if sent > 0 && heard > 0 && own > 0 {
            let truth = (heard.wrapping_sub(sent) as f64 / ticks_per_nano) as u64;
            errors.record(Nanos(own.abs_diff(truth)));
            recorded.record(Nanos(own));
            counted.record(Nanos(truth));
        }
    }
    let (sent, received) = shard.progress();
    // Without a processor for all of the round nothing leaves: that is no error of zero.
    if sent == 0 || received < sent || counted.count() != received {
        return Err(format!("{received} of {sent} answers, {} in both books", counted.count()))
            .or_needs("answer to every request");
    }
    let late = book.late as f64 / sent.max(1) as f64;
    Ok(Round { errors, recorded, counted, late_share: 100.0 * late })
}

/// What the generator has noted of each request, by index.
struct Book {
    noted: Vec<Nanos>,
    /// Nanoseconds from sending; zero: not answered.
    recorded: Vec<u64>,
    /// Requests that left more than [`LATE`] after they were due.
    late: u64,
}

/// A transport that looks over the generator's shoulder: the clock that it read last is what it
/// notes of a request, and of an answer the time that comes with it.
struct Watched {
    inner: Packets<EchoPort>,
    clock: Rc<Cell<Nanos>>,
    book: Rc<RefCell<Book>>,
}

impl Transport for Watched {
    fn group(&self, requests: &[Request]) -> usize {
        self.inner.group(requests)
    }

    fn send(&mut self, requests: &[Request]) -> usize {
        let time = self.clock.get();
        let mut book = self.book.borrow_mut();
        for request in requests {
            book.late += u64::from(time.since(request.intended) > LATE);
            if let Some(place) = book.noted.get_mut(request.index as usize) {
                *place = time;
            }
        }
        drop(book);
        let taken = self.inner.send(requests);
        if let Some(at) = self.inner.sent_at() {
            let mut book = self.book.borrow_mut();
            for request in &requests[..taken.min(requests.len())] {
                if let Some(place) = book.noted.get_mut(request.index as usize) {
                    *place = at;
                }
            }
        }
        taken
    }

    fn sent_at(&self) -> Option<Nanos> {
        self.inner.sent_at()
    }

    fn receive(&mut self, mut sink: impl FnMut(&Reply<'_>)) -> usize {
        let Self { inner, clock, book } = self;
        inner.receive(|reply| {
            sink(reply);
            let heard = reply.at.unwrap_or_else(|| clock.get());
            let Answer::Copy(payload) = reply.answer else { return };
            let index = payload.get(8..).and_then(|bytes| bytes.first_chunk());
            let Some(index) = index.map(|bytes| u64::from_be_bytes(*bytes) as usize) else {
                return;
            };
            let mut book = book.borrow_mut();
            if let Some(noted) = book.noted.get(index).copied()
                && let Some(place) = book.recorded.get_mut(index)
            {
                *place = heard.since(noted).0.max(1);
            }
        })
    }

    fn wait(&mut self, timeout: Nanos) {
        self.inner.wait(timeout);
    }

    fn counters(&self) -> TransportCounters {
        self.inner.counters()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
