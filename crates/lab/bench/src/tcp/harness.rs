//! The daemon with a TCP service in its data path, in a namespace of its own.

use std::ops::Range;

use testbed::{Idle, LinuxServer, Service, Side, linux_listeners};

use crate::apps::harness::Harness;
use crate::error::{Error, OrNeeds};
use crate::place::Cpus;

/// Linux's, at both ends: its default elsewhere may pace.
pub(crate) const CONGESTION: &str = "cubic";

/// Starts it, at these ports; `settings` are lines of its section `[tcp]`.
pub(crate) fn serve(
    cpus: Cpus,
    service: Service,
    ports: Range<u16>,
    settings: &str,
) -> Result<Harness, Error> {
    let listen: Vec<String> = ports.map(|port| format!("tcp:0.0.0.0:{port}")).collect();
    let sections =
        format!("listen = {listen:?}\n[workers]\njob = {:?}\n[tcp]\n{settings}\n", service.job());
    Harness::start_with(cpus, &sections)
}

/// Starts what it is held against at these ports of a namespace: Linux, on that CPU, with CUBIC.
pub(crate) fn serve_linux(
    cpu: usize,
    side: &Side,
    ports: Range<u16>,
    service: Service,
    idle: Idle,
) -> Result<LinuxServer, Error> {
    let listeners = linux_listeners(side, side.ipv4(), ports, Some(CONGESTION));
    let listeners = listeners.or_needs("listener of Linux")?;
    LinuxServer::start(Some(cpu), listeners, service, idle).or_needs("server of Linux")
}

/// Writes into a setting of the kernel for a namespace: a path below /proc/sys.
pub(crate) fn set(side: &testbed::Side, name: &str, value: &str) -> Result<(), Error> {
    let path = format!("/proc/sys/{name}");
    let written = side.enter(|| std::fs::write(path, value)).or_needs("thread in a namespace")?;
    written.or_needs("setting of the kernel")
}
