//! TCP echo from inside the data path over a veth, against the least that an AF_XDP server can do
//! and against Linux's own TCP.

use base::Nanos;
use testbed::{Testbed, TestbedConfig};

use super::end::REQUEST_BYTES;
use super::harness::serve;
use super::kernel_client::{ask, connect};
use super::kernel_server::{Idle, KernelServer, Service, listeners_in};
use crate::cases::Plan;
use crate::echo_wire::{Answers, EchoWire};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;
use crate::steer;

const PORT: u16 = 7007;

/// Linux's, at both ends: its default elsewhere may pace.
const CONGESTION: &str = "cubic";

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "echo",
        &format!(
            "TCP, {REQUEST_BYTES} bytes each way, over veth between two namespaces; client: Linux's \
             sockets behind epoll that never sleeps, a request under way on every connection, on \
             CPU {client}. Server on CPU {server}: calistod with the job tcp-echo over AF_XDP \
             (native, copy), as `calisto serve echo` starts it; Linux: one thread behind epoll that \
             never sleeps; bare: an AF_XDP loop that turns UDP packets of 18 bytes around, with a \
             UDP client. Each in namespaces of its own, in turns."
        ),
    )?;
    plan.cpus.need_two()?;
    let length = plan.pick(Nanos::from_millis(500), Nanos::from_millis(100));
    let harness = serve(plan.cpus, Service::Echo, PORT..PORT + 1, "")?;
    let bed = Testbed::new(TestbedConfig::default()).or_needs("pair of namespaces")?;
    let bare = EchoWire::new()?;
    for connections in [1, 16, 64] {
        let mut samples: [Vec<Answers>; 3] = Default::default();
        for round in 0..plan.rounds {
            plan.round(report, round, format_args!("{connections} connections"))?;
            let [ours, linux, least] = &mut samples;
            let address = harness.address(PORT);
            ours.push(asked(plan, harness.bed.client(), address, connections, length)?);
            let listeners = listeners_in(bed.server(), PORT..PORT + 1, CONGESTION)?;
            let kernel = KernelServer::start(server, listeners, Service::Echo, Idle::Spin)?;
            let address = (bed.server().ipv4(), PORT).into();
            linux.push(asked(plan, bed.client(), address, connections, length)?);
            kernel.end()?;
            least.push(bare.measure(plan, connections, length, steer::bare)?);
        }
        let rates = samples.each_ref().map(|runs| column(runs, |run| run.per_second));
        let delays = samples.each_ref().map(|runs| column(runs, |run| run.p50_us));
        let unit = "requests/s";
        let name = format!("tcp-echo, {connections} connections");
        let mut figure =
            Figure::new(&name, unit, &rates[0]).against("bare UDP", &rates[0], &rates[2]);
        if connections == 64 {
            figure = figure.target(Target::RatioAtLeast(0.75));
        }
        report.figure(figure)?;
        report.figure(Figure::new(format!("{name}, p50"), "us", &delays[0]))?;
        let name = format!("Linux, {connections} connections");
        let figure = Figure::new(&name, unit, &rates[1]).against("tcp-echo", &rates[1], &rates[0]);
        report.figure(figure)?;
        report.figure(Figure::new(format!("{name}, p50"), "us", &delays[1]))?;
        let name = format!("bare UDP, {connections} outstanding");
        report.figure(Figure::new(name, unit, &rates[2]))?;
    }
    Ok(())
}

fn column(runs: &[Answers], value: fn(&Answers) -> f64) -> Vec<f64> {
    runs.iter().map(value).collect()
}

/// One client of a server, for `length`; what comes first finds everything cold.
fn asked(
    plan: &Plan,
    client: &testbed::Side,
    server: std::net::SocketAddr,
    connections: usize,
    length: Nanos,
) -> Result<Answers, Error> {
    on_cpu(plan.cpus.client, || {
        let mut streams = connect(client, server, connections, CONGESTION)?;
        ask(&mut streams, Nanos(length.0 / 5))?;
        ask(&mut streams, length)
    })
}
