//! One stream of bytes over a veth, each way, against Linux's own TCP at both ends.

use base::Nanos;
use testbed::{Idle, Service, Side, Testbed, TestbedConfig};

use super::harness::{CONGESTION, serve, serve_linux};
use super::kernel_client::{connect, receive, send};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

const PORT: u16 = 7009;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "bulk",
        &format!(
            "one TCP stream over veth between two namespaces, MTU 1500, TSO, GSO, GRO and transmit \
             checksums off at both ends; client: Linux's socket on CPU {client}. Server on CPU \
             {server}: calistod with the jobs tcp-discard and tcp-chargen over AF_XDP (native, \
             copy), or Linux's socket behind epoll that never sleeps; CUBIC everywhere. To the \
             server: until it has closed, having read all. Each in namespaces of its own, in turns."
        ),
    )?;
    plan.cpus.need_two()?;
    let length = plan.pick(Nanos::from_secs(1), Nanos::from_millis(200));
    let bed = Testbed::new(TestbedConfig::default()).or_needs("pair of namespaces")?;
    let ways = [(Service::Discard, "to the server"), (Service::Chargen, "from the server")];
    for (service, way) in ways {
        let harness = serve(plan.cpus, service, PORT..PORT + 1, "")?;
        let move_bytes = |side: &Side, address| {
            on_cpu(client, || moved(service, side, address, length)).map(to_mbit)
        };
        let [ours, linux] = turns_of(plan, report, way, |which, _| {
            if which == 0 {
                return move_bytes(harness.bed.client(), harness.address(PORT));
            }
            let kernel = serve_linux(server, bed.server(), PORT..PORT + 1, service, Idle::Spin)?;
            let rate = move_bytes(bed.client(), kernel.addresses()[0])?;
            kernel.end().or_needs("server of Linux")?;
            Ok(rate)
        })?;
        let figure = Figure::new(format!("{} {way}", service.job()), "Mbit/s", &ours)
            .against("Linux", &ours, &linux)
            .target(Target::RatioAtLeast(1.0));
        report.figure(figure)?;
        report.figure(Figure::new(format!("Linux {way}"), "Mbit/s", &linux))?;
    }
    Ok(())
}

/// Bytes a second of one stream.
fn moved(
    service: Service,
    side: &Side,
    server: std::net::SocketAddr,
    length: Nanos,
) -> Result<f64, Error> {
    let mut streams = connect(side, server, 1, CONGESTION)?;
    match (service, streams.pop()) {
        (Service::Discard, Some(stream)) => send(stream, length),
        (_, Some(stream)) => {
            let rates = receive(&mut [stream], length, Idle::Spin)?;
            Ok(rates.into_iter().sum())
        }
        (_, None) => Err("none was opened").or_needs("connection"),
    }
}

fn to_mbit(bytes_per_second: f64) -> f64 {
    bytes_per_second * 8.0 / 1e6
}
