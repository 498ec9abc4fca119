//! Where and when the NIC interrupts, and which memory it is near to.

use std::collections::BTreeSet;

use sys::cpu_set::CpuSet;

use super::offloads::has_hardware;
use super::{Context, NicFacts};
use crate::Finding;
use crate::text::write_cpu_list;

/// Waiting that is longer than all the rest of a packet's way.
const WAIT_MICROS_LONG: u32 = 10;

/// What that means.
pub(super) fn judge(facts: &NicFacts, context: &Context) -> Vec<Finding> {
    [
        affinity(facts, context),
        coalescing(facts),
        deferral(facts),
        node(facts, context),
        slice(facts, context),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn affinity(facts: &NicFacts, context: &Context) -> Option<Finding> {
    let name = &facts.name;
    let subject = format!("{name} interrupts");
    let first = facts.interrupts.first()?;
    let cpus: BTreeSet<u16> =
        facts.interrupts.iter().flat_map(|interrupt| interrupt.cpus.iter().copied()).collect();
    let cpus: Vec<u16> = cpus.into_iter().collect();
    let count = facts.interrupts.len();
    let what = format!("{count}, to CPUs {}", write_cpu_list(&cpus));
    if context.irqbalance {
        return Some(
            Finding::note(subject, format!("{what}, and irqbalance moves them"))
                .cost("one may land on the CPU of a polling thread and take its time")
                .mend(
                    "systemctl disable --now irqbalance, or IRQBALANCE_BANNED_CPULIST= in \
                     /etc/default/irqbalance",
                ),
        );
    }
    // A CPU for the queues and one for a worker is all that two CPUs have.
    Some(if cpus.len() == 1 && facts.queues.rx > 1 && context.allowed.len() > 2 {
        Finding::worse(subject, what).cost("one CPU serves all queues of the NIC").mend(format!(
            "give each a CPU of its own: echo CPU > /proc/irq/{}/smp_affinity_list, and so on",
            first.number
        ))
    } else {
        Finding::fine(subject, what)
    })
}

fn coalescing(facts: &NicFacts) -> Option<Finding> {
    let name = &facts.name;
    let settings = facts.coalescing?;
    let subject = format!("{name} coalescing");
    let mend = format!("ethtool -C {name} adaptive-rx off rx-usecs 0");
    let micros = settings.rx_micros;
    let finding = if settings.rx_adaptive {
        Finding::note(subject, "is the driver's choice (adaptive)")
            .cost("a sleeping thread hears of a packet some tens of microseconds late")
    } else if micros > WAIT_MICROS_LONG {
        Finding::note(subject, format!("{micros} us"))
            .cost("a sleeping thread hears of a packet as late as that")
    } else {
        return None;
    };
    Some(finding.mend(mend))
}

fn deferral(facts: &NicFacts) -> Option<Finding> {
    let name = &facts.name;
    let deferral = facts.deferral.filter(|_| has_hardware(facts))?;
    let subject = format!("{name} busy poll");
    let directory = format!("/sys/class/net/{name}");
    Some(if deferral.hard_irqs == 0 || deferral.flush_nanos == 0 {
        Finding::note(subject, "interrupts are not put off while a port polls")
            .cost(format!("with xdp:{name},busy_poll the device interrupts nevertheless"))
            .mend(format!(
                "echo 2 > {directory}/napi_defer_hard_irqs; echo 200000 > \
                 {directory}/gro_flush_timeout (where busy_poll is used)"
            ))
    } else {
        let micros = deferral.flush_nanos / 1000;
        Finding::fine(subject, format!("interrupts are put off for {micros} us while a port polls"))
    })
}

fn node(facts: &NicFacts, context: &Context) -> Option<Finding> {
    let node = facts.node.as_ref().filter(|_| context.nodes > 1)?;
    let (number, near) = (node.number, write_cpu_list(&node.cpus));
    let subject = format!("{} numa", facts.name);
    let ours = context.allowed.iter().filter(|cpu| node.cpus.contains(cpu)).count();
    Some(if ours == 0 {
        Finding::worse(
            subject,
            format!("node {number}, and none of its CPUs ({near}) is allowed here"),
        )
        .cost("every packet crosses from node to node")
        .mend(format!("taskset -pc {near} $$ (a cpuset may forbid it)"))
    } else if ours < context.allowed.len() {
        Finding::note(subject, format!("node {number}: CPUs {near} are near"))
            .cost("packets cross from node to node for workers elsewhere")
            .mend("choose workers.cpus and workers.dispatcher_cpu among them")
    } else {
        Finding::fine(subject, format!("node {number}, as all CPUs that are allowed here"))
    })
}

fn slice(facts: &NicFacts, context: &Context) -> Option<Finding> {
    let cpus = context.slice?;
    let subject = format!("{} slice", facts.name);
    let Some(node) = facts.node.as_ref().filter(|_| context.nodes > 1) else {
        return Some(Finding::fine(subject, format!("as near to CPUs {cpus} as to any")));
    };
    let (number, near) = (node.number, write_cpu_list(&node.cpus));
    let is_far = |&cpu: &usize| !node.cpus.iter().any(|&of_node| usize::from(of_node) == cpu);
    let far: CpuSet = cpus.iter().filter(is_far).collect();
    Some(if far.is_empty() {
        Finding::fine(subject, format!("node {number}, as CPUs {cpus}"))
    } else {
        Finding::worse(subject, format!("node {number}, and CPUs {far} of the slice are elsewhere"))
            .cost("every packet of the slice crosses from node to node, most of all its bytes")
            .mend(format!("give the slice CPUs among {near}, or a NIC of its own node"))
    })
}

#[cfg(test)]
mod tests {
    use sys::ethtool::Coalescing;

    use super::super::facts::{Deferral, Interrupt, Node};
    use super::super::tests::{context, ice, veth};
    use super::*;
    use crate::Level;

    fn of(facts: &NicFacts, context: &Context, subject: &str) -> Finding {
        let mut findings = judge(facts, context).into_iter();
        findings.find(|finding| finding.subject.ends_with(subject)).expect("it is told")
    }

    fn lines(cpus: &[u16]) -> NicFacts {
        let interrupts = cpus
            .iter()
            .enumerate()
            .map(|(index, &cpu)| Interrupt { number: 90 + index as u32, cpus: vec![cpu] })
            .collect();
        NicFacts { interrupts, ..ice() }
    }

    #[test]
    fn interrupts_that_all_go_to_one_cpu_are_worse() {
        assert_eq!(of(&lines(&[0, 1, 2]), &context(), "interrupts").level, Level::Fine);
        let crowded = of(&lines(&[5, 5, 5]), &context(), "interrupts");
        assert_eq!(crowded.level, Level::Worse);
        assert!(crowded.mend.is_some_and(|mend| mend.contains("/proc/irq/90/smp_affinity_list")));
        let two = Context { allowed: vec![0, 1], ..context() };
        assert_eq!(of(&lines(&[1, 1]), &two, "interrupts").level, Level::Fine);
    }

    #[test]
    fn irqbalance_is_named_where_there_is_something_to_balance() {
        let balanced = Context { irqbalance: true, ..context() };
        assert!(of(&lines(&[0, 1]), &balanced, "interrupts").what.contains("irqbalance"));
        assert!(judge(&veth(), &balanced).is_empty());
    }

    #[test]
    fn waiting_for_more_packets_is_told_when_it_is_long() {
        let with = |rx_micros, rx_adaptive| NicFacts {
            coalescing: Some(Coalescing { rx_micros, rx_adaptive }),
            ..ice()
        };
        assert_eq!(of(&with(50, false), &context(), "coalescing").what, "50 us");
        assert!(of(&with(0, true), &context(), "coalescing").what.contains("adaptive"));
        assert!(judge(&with(3, false), &context()).iter().all(|f| !f.subject.contains("coal")));
    }

    #[test]
    fn busy_polling_needs_both_settings() {
        let with = |hard_irqs, flush_nanos| NicFacts {
            deferral: Some(Deferral { hard_irqs, flush_nanos }),
            ..ice()
        };
        assert_eq!(of(&with(0, 200_000), &context(), "busy poll").level, Level::Note);
        assert_eq!(of(&with(2, 0), &context(), "busy poll").level, Level::Note);
        assert_eq!(of(&with(2, 200_000), &context(), "busy poll").level, Level::Fine);
    }

    #[test]
    fn a_slice_on_another_node_than_its_nic_is_warned_of() {
        let facts = NicFacts { node: Some(Node { number: 1, cpus: (64..128).collect() }), ..ice() };
        let asked = |slice: &str| Context { slice: slice.parse().ok(), ..context() };
        let warned = of(&facts, &asked("63-65"), "slice");
        assert_eq!(warned.level, Level::Worse);
        assert!(warned.what.contains("CPUs 63 of the slice"), "{}", warned.what);
        assert_eq!(of(&facts, &asked("64,127"), "slice").level, Level::Fine);
        let one_node = Context { nodes: 1, ..asked("0") };
        assert_eq!(of(&facts, &one_node, "slice").level, Level::Fine);
        assert!(judge(&facts, &context()).iter().all(|found| !found.subject.ends_with("slice")));
    }

    #[test]
    fn a_nic_far_from_all_our_cpus_is_worse() {
        let facts = NicFacts { node: Some(Node { number: 1, cpus: (64..128).collect() }), ..ice() };
        let level = |allowed: Vec<u16>| of(&facts, &Context { allowed, ..context() }, "numa").level;
        assert_eq!(level(vec![0, 1]), Level::Worse);
        assert_eq!(level(vec![0, 64]), Level::Note);
        assert_eq!(level(vec![64, 65]), Level::Fine);
        let one_node = Context { nodes: 1, ..context() };
        assert!(judge(&facts, &one_node).iter().all(|f| !f.subject.ends_with("numa")));
    }
}
