//! Limits of the kernel's network stack that traffic beside or through it meets.

use crate::Finding;
use crate::text::read_number;

/// Values below /proc/sys/net/core of our network namespace; `None`: not readable there (some
/// exist in the first namespace only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SysctlFacts {
    /// Bytes of a socket's receive buffer, at most.
    pub rmem_max: Option<u64>,
    /// Packets that wait for the stack of one CPU, at most.
    pub netdev_max_backlog: Option<u64>,
    /// Packets that one round of the receive softirq takes, at most.
    pub netdev_budget: Option<u64>,
    /// Microseconds that a read of any socket polls its device.
    pub busy_read: Option<u64>,
}

/// What `calisto load` asks for.
const RECEIVE_BUFFER_BYTES: u64 = 4 << 20;
/// The kernel's own values.
const BACKLOG: u64 = 1000;
const BUDGET: u64 = 300;

pub(crate) fn gather() -> SysctlFacts {
    let core = |name: &str| read_number(format!("/proc/sys/net/core/{name}"));
    SysctlFacts {
        rmem_max: core("rmem_max"),
        netdev_max_backlog: core("netdev_max_backlog"),
        netdev_budget: core("netdev_budget"),
        busy_read: core("busy_read"),
    }
}

/// What that means. Values as the kernel comes with are fine and said in one line.
pub(crate) fn judge(facts: &SysctlFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        [buffer(facts), backlog(facts), budget(facts), busy(facts)].into_iter().flatten().collect();
    if *facts == SysctlFacts::default() {
        findings.push(Finding::note("net.core", "limits cannot be read here"));
    } else if findings.is_empty() {
        findings.push(Finding::fine("net.core", "limits leave room for bursts"));
    }
    findings
}

fn buffer(facts: &SysctlFacts) -> Option<Finding> {
    let bytes = facts.rmem_max.filter(|&bytes| bytes < RECEIVE_BUFFER_BYTES)?;
    Some(
        Finding::note("net.core.rmem_max", format!("{} KiB", bytes >> 10))
            .cost(format!(
                "sockets of `calisto load` get no more, of {} KiB that they ask for: bursts of \
                 replies count as lost",
                RECEIVE_BUFFER_BYTES >> 10
            ))
            .mend(format!("sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}")),
    )
}

fn backlog(facts: &SysctlFacts) -> Option<Finding> {
    let packets = facts.netdev_max_backlog.filter(|&packets| packets < BACKLOG)?;
    Some(
        Finding::worse("net.core.netdev_max_backlog", packets.to_string())
            .cost("longer bursts over veth without native XDP, TAP and loopback are dropped")
            .mend(format!("sysctl -w net.core.netdev_max_backlog={BACKLOG}")),
    )
}

fn budget(facts: &SysctlFacts) -> Option<Finding> {
    let packets = facts.netdev_budget.filter(|&packets| packets < BUDGET)?;
    Some(
        Finding::worse("net.core.netdev_budget", packets.to_string())
            .cost("a receive round ends early, and the rest waits for the next softirq")
            .mend(format!("sysctl -w net.core.netdev_budget={BUDGET}")),
    )
}

fn busy(facts: &SysctlFacts) -> Option<Finding> {
    let micros = facts.busy_read.filter(|&micros| micros > 0)?;
    Some(
        Finding::note("net.core.busy_read", format!("{micros} us"))
            .cost("every socket of the machine polls its device before it sleeps, ours or not")
            .mend("sysctl -w net.core.busy_read=0 (a port's own option is xdp:NIC,busy_poll)"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn usual() -> SysctlFacts {
        SysctlFacts {
            rmem_max: Some(4 << 20),
            netdev_max_backlog: Some(1000),
            netdev_budget: Some(300),
            busy_read: Some(0),
        }
    }

    #[test]
    fn the_kernels_own_values_are_fine_in_one_line() {
        let findings = judge(&usual());
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Fine);
    }

    #[test]
    fn each_value_out_of_range_has_its_line_and_its_cure() {
        let facts = SysctlFacts {
            rmem_max: Some(212_992),
            netdev_max_backlog: Some(100),
            netdev_budget: Some(64),
            busy_read: Some(50),
        };
        let findings = judge(&facts);
        let levels: Vec<Level> = findings.iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [Level::Note, Level::Worse, Level::Worse, Level::Note]);
        for finding in findings {
            let mend = finding.mend.clone().unwrap_or_default();
            assert!(mend.starts_with(&format!("sysctl -w {}=", finding.subject)), "{finding}");
        }
    }

    #[test]
    fn values_that_are_hidden_are_noted() {
        assert_eq!(judge(&SysctlFacts::default())[0].level, Level::Note);
    }
}
