//! TCP echo from inside the data path over a veth, against the least that an AF_XDP server can do
//! and against Linux's own TCP.

use base::Nanos;
use testbed::{Idle, Service, Testbed, TestbedConfig};

use super::end::REQUEST_BYTES;
use super::harness::{CONGESTION, serve, serve_linux};
use super::kernel_client::connect;
use crate::cases::{Plan, turns_of};
use crate::echo_wire::EchoWire;
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;
use crate::sockets::client::Clients;
use crate::sockets::dialogue::Dialogue;
use crate::steer;

const PORT: u16 = 7007;

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
        let what = format!("{connections} connections");
        let samples: [_; 3] = turns_of(plan, report, what, |which, _| match which {
            0 => asked(plan, harness.bed.client(), harness.address(PORT), connections, length),
            1 => {
                let ports = PORT..PORT + 1;
                let kernel = serve_linux(server, bed.server(), ports, Service::Echo, Idle::Spin)?;
                let answers =
                    asked(plan, bed.client(), kernel.addresses()[0], connections, length)?;
                kernel.end().or_needs("server of Linux")?;
                Ok(answers)
            }
            _ => {
                let answers = bare.measure(plan, connections, length, steer::bare)?;
                Ok([answers.per_second, answers.p50_us])
            }
        })?;
        let rates = samples.each_ref().map(|runs| column(runs, 0));
        let delays = samples.each_ref().map(|runs| column(runs, 1));
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

fn column(runs: &[[f64; 2]], at: usize) -> Vec<f64> {
    runs.iter().map(|run| run[at]).collect()
}

/// What one client gets a second of a server, and its median latency in microseconds, for
/// `length`; what comes first finds everything cold.
fn asked(
    plan: &Plan,
    client: &testbed::Side,
    server: std::net::SocketAddr,
    connections: usize,
    length: Nanos,
) -> Result<[f64; 2], Error> {
    on_cpu(plan.cpus.client, || {
        let streams = connect(client, server, connections, CONGESTION)?;
        let mut clients = Clients::new(streams)?;
        clients.ask(&mut Dialogue::Echo, connections, Nanos(length.0 / 5))?;
        let answers = clients.ask(&mut Dialogue::Echo, connections, length)?;
        Ok([answers.per_second, answers.p50_us])
    })
}
