//! Connections a second that a server on real packets accepts and closes, and Linux's.

use base::Nanos;
use testbed::{Idle, Service, Side, Testbed, TestbedConfig};

use super::harness::{serve, serve_linux, set};
use super::kernel_client::open_and_close;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

/// Few enough that a client's ports do not run out while names of closed connections stay taken.
const PORTS: std::ops::Range<u16> = 7100..7116;

/// Connections under way.
const UNDER_WAY: usize = 64;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "accept",
        &format!(
            "TCP connections over veth between two namespaces: opened by Linux's sockets behind \
             epoll that never sleeps on CPU {client}, {UNDER_WAY} under way, accepted by the \
             server, closed by the client and then by the server, without data, at {} ports. \
             Server on CPU {server}: calistod with the job tcp-discard over AF_XDP (native, copy), \
             or Linux: one thread behind epoll that never sleeps. In turns.",
            PORTS.len()
        ),
    )?;
    plan.cpus.need_two()?;
    let length = plan.pick(Nanos::from_secs(1), Nanos::from_millis(200));
    let harness = serve(plan.cpus, Service::Discard, PORTS, "")?;
    let bed = Testbed::new(TestbedConfig::default()).or_needs("pair of namespaces")?;
    for side in [harness.bed.client(), bed.client()] {
        set(side, "net/ipv4/ip_local_port_range", "1024 65535")?;
    }
    let opened = |side: &Side, servers: &[std::net::SocketAddr]| {
        on_cpu(client, || open_and_close(side, servers, UNDER_WAY, length))
    };
    let [ours, linux] = turns_of(plan, report, "", |which, _| {
        if which == 0 {
            let servers: Vec<_> = PORTS.map(|port| harness.address(port)).collect();
            return opened(harness.bed.client(), &servers);
        }
        let kernel = serve_linux(server, bed.server(), PORTS, Service::Discard, Idle::Spin)?;
        let rate = opened(bed.client(), kernel.addresses())?;
        kernel.end().or_needs("server of Linux")?;
        Ok(rate)
    })?;
    let figure = Figure::new("calistod", "connections/s", &ours)
        .against("Linux", &ours, &linux)
        .target(Target::RatioAtLeast(1.3));
    report.figure(figure)?;
    report.figure(Figure::new("Linux", "connections/s", &linux))
}
