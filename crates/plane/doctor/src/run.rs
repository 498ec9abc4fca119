//! Looks at everything, in the order in which it is told.

use std::fs;
use std::path::Path;

use sys::interface::{self, Interface};

use crate::daemon::Listener;
use crate::kernel::KernelVersion;
use crate::nic::Context;
use crate::text::read_word;
use crate::{
    Args, Error, Finding, Report, clock, cpus, daemon, firewall, kernel, machine, memory, nic,
    power, rights, sockets, spin, stolen, sysctl, tools, wake,
};

/// Processes that are looked at for the name of one.
const PROCESSES_MAX: usize = 100_000;

/// Looks at this machine, and at the daemon of `admin_socket`. Changes nothing; what it may not
/// read is a finding, not an error. Takes about half a second, or much less with `args.quick`.
///
/// # Errors
/// There is no interface of a name in `args.nic`.
pub fn run(args: &Args, admin_socket: &Path) -> Result<Report, Error> {
    let chosen: Vec<Interface> = args
        .nic
        .iter()
        .map(|name| interface::by_name(name).map_err(Error::NoSuchNic))
        .collect::<Result<_, _>>()?;
    let mut findings = Vec::new();

    let kernel = kernel::gather();
    findings.extend(kernel::judge(&kernel));
    findings.extend(rights::judge(&rights::gather()));
    let daemon = daemon::gather(admin_socket);
    findings.extend(daemon::judge(&daemon));
    findings.extend(machine::judge(&machine::gather()));
    let cpus = cpus::gather();
    findings.extend(cpus::judge(&cpus));
    findings.extend(power::judge(&power::gather()));
    let memory = memory::gather();
    findings.extend(memory::judge(&memory));
    findings.extend(sysctl::judge(&sysctl::gather()));
    findings.extend(firewall::judge(&firewall::gather()));
    findings.extend(sockets::judge(&sockets::gather()));

    let context = Context {
        slice: args.slice_cpus,
        nodes: memory.nodes,
        irqbalance: runs("irqbalance"),
        daemon_runs: daemon.listener == Listener::Running,
        frame_bytes: config::Frames::default().bytes,
        allowed: cpus.allowed.clone(),
    };
    let version = KernelVersion::of_release(&kernel.release);
    findings.extend(nics(args, chosen, version, &context));

    findings.extend(clock::judge(&clock::gather(args.quick)));
    let watched: &[u16] = if args.quick { &[] } else { &cpus.allowed };
    findings.extend(stolen::judge(&stolen::gather(watched)));
    if !args.quick {
        let last = cpus.allowed.last();
        findings.extend(spin::judge(last.and_then(|&cpu| spin::gather(cpu)).as_ref()));
        findings.extend(wake::judge(wake::gather(&cpus.allowed).as_ref()));
    }
    findings.extend(tools::judge(&findings, tools::is_installed));
    Ok(Report { findings })
}

fn nics(
    args: &Args,
    chosen: Vec<Interface>,
    version: Option<KernelVersion>,
    context: &Context,
) -> Vec<Finding> {
    let interfaces = if args.nic.is_empty() {
        let all = match interface::list() {
            Ok(all) => all,
            Err(error) => return vec![Finding::note("interfaces", error.to_string())],
        };
        all.into_iter().filter(|one| one.up && one.name != "lo").collect()
    } else {
        chosen
    };
    if interfaces.is_empty() {
        return vec![
            Finding::missing("interfaces", "none is up but loopback")
                .cost("there is nothing to open a port of, in this network namespace")
                .mend("ip link set dev NAME up, or name one: calisto doctor --nic NAME"),
        ];
    }
    let judged = |one: &Interface| nic::judge(&nic::gather(one, version), context);
    interfaces.iter().flat_map(judged).collect()
}

/// Whether a process of this name runs, as far as /proc shows.
fn runs(name: &str) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else {
        return false;
    };
    entries
        .take(PROCESSES_MAX)
        .flatten()
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()))
        })
        .any(|entry| read_word(entry.path().join("comm")).is_some_and(|comm| comm == name))
}
