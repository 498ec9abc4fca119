//! `workers.cpus`, `workers.dispatcher_cpu`, `cores.set`: whether there are such CPUs.

use config::Config;

use super::finding::{Finding, Severity};
use super::machine::Machine;

/// Without its CPU a thread runs anywhere, and the daemon warns of it; a core that is not there
/// cannot be given out.
pub(super) fn check(config: &Config, machine: Option<&Machine>) -> Vec<Finding> {
    let Some(machine) = machine else { return Vec::new() };
    let dispatcher = config.workers.dispatcher_cpu.as_slice();
    let mut found = missing("workers.cpus", &config.workers.cpus, Severity::Doubtful, machine);
    found.extend(missing("workers.dispatcher_cpu", dispatcher, Severity::Doubtful, machine));
    found.extend(missing("cores.set", &config.cores.set, Severity::Wrong, machine));
    found
}

fn missing(key: &'static str, cpus: &[u16], severity: Severity, machine: &Machine) -> Vec<Finding> {
    let is_missing = |cpu: &u16| !machine.cpus.contains(usize::from(*cpu));
    let numbered = cpus.iter().enumerate().filter(|(_, cpu)| is_missing(cpu));
    let finding = |(at, cpu): (usize, &u16)| Finding {
        severity,
        key,
        index: Some(at),
        says: format!(
            "there is no CPU {cpu} for us: this machine, or our cpuset, has {}",
            machine.cpus
        ),
    };
    numbered.map(finding).collect()
}
