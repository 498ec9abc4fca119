//! How many requests a second the load generator sends by one kernel socket, against a loop of
//! nothing but sendmmsg(2).

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::Nanos;
use load::transport::kernel::{KernelConfig, KernelUdp};
use load::transport::sources::FIRST_PORT;
use load::{Arrival, Options, Pace, Plan as LoadPlan, REQUEST_BYTES};
use rustix::io::Errno;
use sys::clock::now;
use sys::mmsg::{DATAGRAMS_MAX, Datagrams};
use testbed::{Testbed, TestbedConfig};

use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target, median};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

/// More than any machine can: the generator never waits.
const WANTED: f64 = 5e6;
/// What is enough, however much more the kernel can.
const ENOUGH: f64 = 200_000.0;
const PORT: u16 = 9;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "limit",
        &format!(
            "UDP, {REQUEST_BYTES} bytes, one connected socket, over veth between two namespaces to a \
             socket that is read on CPU {server} and does not answer. The generator on CPU {client}, \
             open loop with {WANTED} requests/s wanted, schedule, bookkeeping and looking for answers \
             included; in turns with a loop on the same CPU that sends the same {DATAGRAMS_MAX} \
             datagrams by sendmmsg, again and again. The kernel runs the receiver's path on the \
             sender's CPU. Wanted: {ENOUGH} a second, or 0.9 of the loop."
        ),
    )?;
    let bed = Testbed::new(TestbedConfig::default()).or_needs("pair of namespaces")?;
    let sink = Sink::start(&bed, server)?;
    let length = plan.pick(Nanos::from_secs(1), Nanos::from_millis(100));
    let mut delivered = Vec::new();
    let [plain, own] = turns_of(plan, report, "", |which, round| {
        if which == 0 {
            return on_cpu(client, || sendmmsg_rate(&bed, length));
        }
        let before = sink.count.load(Ordering::Relaxed);
        let (rate, sent) = generator_rate(&bed, client, length, u64::from(round))?;
        let came = sink.count.load(Ordering::Relaxed) - before;
        delivered.push(100.0 * came as f64 / sent.max(1) as f64);
        Ok(rate)
    })?;
    // Where the kernel itself cannot, nearly as much as it can is wanted.
    let target = match median(&own) {
        Some(rate) if rate >= ENOUGH => Target::AtLeast(ENOUGH),
        _ => Target::RatioAtLeast(0.9),
    };
    let figure = Figure::new("requests sent", "1/s", &own).against("sendmmsg loop", &own, &plain);
    report.figure(figure.target(target))?;
    report.figure(Figure::new("sendmmsg loop", "1/s", &plain))?;
    report.figure(Figure::new("read by the sink", "%", &delivered))
}

/// Requests a second of the generator, and how many they were.
fn generator_rate(
    bed: &Testbed,
    cpu: usize,
    length: Nanos,
    round: u64,
) -> Result<(f64, u64), Error> {
    let wanted = LoadPlan {
        pace: Pace::Open { arrival: Arrival::Poisson, rate: WANTED },
        length,
        grace: Nanos::from_millis(1),
        seed: round + 1,
        ..LoadPlan::default()
    };
    let options = Options { cpus: vec![cpu], ..Options::default() };
    let open = |plan: &LoadPlan, _| {
        let config = KernelConfig {
            target: (bed.server().ipv4(), PORT).into(),
            sources: None,
            flows: plan.flows,
            payload_bytes: plan.payload_bytes,
            first_port: FIRST_PORT,
        };
        let opened = bed.client().enter(|| KernelUdp::open(&config));
        opened.map_err(|error| load::Error::Failed(error.to_string()))?
    };
    let report = load::run(&wanted, &options, open, None).or_needs("load")?;
    Ok((report.rates.sent_rate, report.requests.sent))
}

/// Datagrams a second of nothing but the call.
fn sendmmsg_rate(bed: &Testbed, length: Nanos) -> Result<f64, Error> {
    let socket = bed.client().enter(|| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect((bed.server().ipv4(), PORT))?;
        Ok::<_, std::io::Error>(socket)
    });
    let socket = socket.or_needs("thread in a namespace")?.or_needs("socket")?;
    let mut datagrams = Datagrams::new(REQUEST_BYTES);
    while datagrams.add(REQUEST_BYTES, None).is_some() {}
    let start = now();
    let mut count = 0;
    while now() < start + length {
        match datagrams.send(socket.as_fd(), 0) {
            Ok(sent) => count += sent,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {}
            Err(errno) => return Err(errno).or_needs("way to the sink"),
        }
    }
    Ok(count as f64 / now().since(start).as_secs_f64())
}

/// Reads what comes, and counts it, as long as it lives.
struct Sink {
    count: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sink {
    fn start(bed: &Testbed, cpu: usize) -> Result<Self, Error> {
        let address = (bed.server().ipv4(), PORT);
        let socket = bed.server().enter(|| UdpSocket::bind(address));
        let socket = socket.or_needs("thread in a namespace")?.or_needs("socket")?;
        let (count, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, stopped) = (Arc::clone(&count), Arc::clone(&stop));
        let read = move || {
            // Anywhere else it would only be in the way of the sender.
            let _ = sys::thread::pin(cpu);
            let mut datagrams = Datagrams::new(REQUEST_BYTES);
            while !stopped.load(Ordering::Relaxed) {
                match datagrams.receive(socket.as_fd()) {
                    Ok(received) => drop(counter.fetch_add(received as u64, Ordering::Relaxed)),
                    Err(_) => {
                        sys::poll::wait_readable(socket.as_fd(), Nanos::from_millis(10));
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("sink".to_owned()).spawn(read);
        Ok(Self { count, stop, thread: Some(thread.or_needs("thread")?) })
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing that could panic.
            let _ = thread.join();
        }
    }
}
