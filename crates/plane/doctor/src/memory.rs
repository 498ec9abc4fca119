//! Memory: huge pages, NUMA nodes, and how much is left.

use crate::Finding;
use crate::text::{chosen, cpu_list, field, read, read_number};

/// The machine's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryFacts {
    /// KiB that can be had without swapping; `None`: not known.
    pub available_kib: Option<u64>,
    /// KiB of huge pages that are set aside and not in use.
    pub reserved_idle_kib: u64,
    /// When private memory gets huge pages by itself: always, madvise, never; `None`: not known.
    pub transparent: Option<String>,
    /// NUMA nodes that have memory; 0: a kernel without NUMA.
    pub nodes: usize,
    /// Whether the kernel moves memory after its users (`kernel.numa_balancing`).
    pub balancing: bool,
}

/// What a daemon takes at most with a million flow groups: tested to stay under it.
const DAEMON_KIB: u64 = 64 << 10;

pub(crate) fn gather() -> MemoryFacts {
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let nodes = read("/sys/devices/system/node/has_memory").map_or(0, |list| cpu_list(&list).len());
    MemoryFacts {
        available_kib: number(&meminfo, "MemAvailable"),
        reserved_idle_kib: reserved_idle_kib(&meminfo),
        transparent: read("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| chosen(&text).map(str::to_owned)),
        nodes,
        balancing: read_number("/proc/sys/kernel/numa_balancing").is_some_and(|mode| mode != 0),
    }
}

fn number(meminfo: &str, key: &str) -> Option<u64> {
    field(meminfo, key)?.split_whitespace().next()?.parse().ok()
}

fn reserved_idle_kib(meminfo: &str) -> u64 {
    let free = number(meminfo, "HugePages_Free").unwrap_or(0);
    free.saturating_mul(number(meminfo, "Hugepagesize").unwrap_or(0))
}

/// What that means.
pub(crate) fn judge(facts: &MemoryFacts) -> Vec<Finding> {
    let mut findings = vec![available(facts), huge(facts)];
    findings.extend(reserved(facts));
    findings.extend(numa(facts));
    findings
}

fn available(facts: &MemoryFacts) -> Finding {
    let subject = "memory";
    match facts.available_kib {
        None => Finding::note(subject, "cannot be read here"),
        Some(kib) if kib < DAEMON_KIB => {
            Finding::worse(subject, format!("{} MiB are available", kib >> 10))
                .cost(format!(
                    "a daemon with a million flow groups takes up to {} MiB",
                    DAEMON_KIB >> 10
                ))
                .mend(
                    "end something, or choose fewer groups and frames (steer.groups, frames.count)",
                )
        }
        Some(kib) => Finding::fine(subject, format!("{} MiB are available", kib >> 10)),
    }
}

fn huge(facts: &MemoryFacts) -> Finding {
    let subject = "huge pages";
    match facts.transparent.as_deref() {
        Some("always") => Finding::fine(subject, "are given to large tables by themselves"),
        Some(mode) => Finding::note(subject, format!("are given on request only ({mode})"))
            .cost("tables of a million flow groups lie in 4 KiB pages: more TLB misses")
            .mend("echo always > /sys/kernel/mm/transparent_hugepage/enabled"),
        None => Finding::note(subject, "transparent ones are not built in, or cannot be read here"),
    }
}

fn reserved(facts: &MemoryFacts) -> Option<Finding> {
    let mib = facts.reserved_idle_kib >> 10;
    (mib > 0).then(|| {
        Finding::note("huge pages", format!("{mib} MiB are reserved and idle"))
            .cost("no part of this data plane asks for reserved ones: unless another program does, they lie idle")
            .mend("sysctl -w vm.nr_hugepages=0")
    })
}

fn numa(facts: &MemoryFacts) -> Option<Finding> {
    let (subject, nodes) = ("numa", facts.nodes);
    if nodes < 2 {
        return None;
    }
    Some(if facts.balancing {
        Finding::worse(subject, format!("{nodes} nodes, and the kernel moves memory between them"))
            .cost("it unmaps pages to see who uses them: page faults between packets")
            .mend("sysctl -w kernel.numa_balancing=0")
    } else {
        Finding::fine(subject, format!("{nodes} nodes, and memory stays where it is"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Level;

    fn healthy() -> MemoryFacts {
        MemoryFacts {
            available_kib: Some(16 << 20),
            reserved_idle_kib: 0,
            transparent: Some("always".to_owned()),
            nodes: 1,
            balancing: true,
        }
    }

    #[test]
    fn one_node_needs_no_balancing_and_is_not_told_about_it() {
        let findings = judge(&healthy());
        assert_eq!(findings.len(), 2);
        assert!(findings.iter().all(|finding| finding.level == Level::Fine));
    }

    #[test]
    fn balancing_between_nodes_costs_faults() {
        let findings = judge(&MemoryFacts { nodes: 8, ..healthy() });
        assert_eq!(findings[2].level, Level::Worse);
        assert_eq!(findings[2].mend.as_deref(), Some("sysctl -w kernel.numa_balancing=0"));
        let still = judge(&MemoryFacts { nodes: 8, balancing: false, ..healthy() });
        assert_eq!(still[2].level, Level::Fine);
    }

    #[test]
    fn memory_that_is_short_or_set_aside_is_told() {
        let short = judge(&MemoryFacts { available_kib: Some(1024), ..healthy() });
        assert_eq!(short[0].level, Level::Worse);
        let reserved = judge(&MemoryFacts { reserved_idle_kib: 512 * 2048, ..healthy() });
        assert!(reserved[2].what.starts_with("1024 MiB"), "{reserved:?}");
    }

    #[test]
    fn huge_pages_on_request_are_none_for_us() {
        let findings = judge(&MemoryFacts { transparent: Some("madvise".to_owned()), ..healthy() });
        assert_eq!(findings[1].level, Level::Note);
    }

    #[test]
    fn idle_huge_pages_are_pages_times_size() {
        let meminfo = "MemAvailable:   100 kB\nHugePages_Free:      3\nHugepagesize:   2048 kB\n";
        assert_eq!(reserved_idle_kib(meminfo), 6144);
        assert_eq!(number(meminfo, "MemAvailable"), Some(100));
        assert_eq!(number(meminfo, "MemFree"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in ".*", pages: u64) {
            number(&text, "MemAvailable");
            reserved_idle_kib(&format!("HugePages_Free: {pages}\nHugepagesize: {pages} kB"));
        }
    }
}
