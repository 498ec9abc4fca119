//! The clock: what it is read from, and what a read costs.

use crate::Finding;
use crate::text::{field, read, read_word};

/// The machine's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClockFacts {
    /// What the kernel reads, such as `tsc`; `None`: not known.
    pub source: Option<String>,
    /// What it could read instead.
    pub available: Vec<String>,
    /// Whether the time-stamp counter runs at one rate in all states; `None`: not told (only x86
    /// tells, and arm64's always does).
    pub steady_counter: Option<bool>,
    /// What reads cost; `None`: not measured.
    pub reads: Option<Reads>,
}

/// What it costs to ask for the time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reads {
    /// CLOCK_MONOTONIC.
    pub clock_nanos: f64,
    /// The time-stamp counter.
    pub counter_nanos: f64,
}

/// A read that costs more has left the program for the kernel.
const SLOW_NANOS: f64 = 150.0;

/// Read as often to measure it: below a millisecond, unless each is a system call.
const READS: u32 = 10_000;

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";

pub(crate) fn gather(quick: bool) -> ClockFacts {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let available = read(format!("{CLOCK}/available_clocksource")).unwrap_or_default();
    ClockFacts {
        source: read_word(format!("{CLOCK}/current_clocksource")),
        available: available.split_whitespace().map(str::to_owned).collect(),
        steady_counter: steady(&cpuinfo),
        reads: (!quick).then(measure),
    }
}

fn steady(cpuinfo: &str) -> Option<bool> {
    let flags: Vec<&str> = field(cpuinfo, "flags")?.split_whitespace().collect();
    Some(["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.contains(flag)))
}

fn measure() -> Reads {
    let each = |read: fn() -> u64| {
        let start = sys::clock::now();
        for _ in 0..READS {
            std::hint::black_box(read());
        }
        sys::clock::now().since(start).0 as f64 / f64::from(READS)
    };
    // Of several rounds the one that was disturbed the least.
    let best = |read| (0..3).map(|_| each(read)).fold(f64::INFINITY, f64::min);
    Reads { clock_nanos: best(|| sys::clock::now().0), counter_nanos: best(sys::clock::tsc) }
}

/// What that means.
pub(crate) fn judge(facts: &ClockFacts) -> Vec<Finding> {
    let mut findings = vec![source(facts)];
    if facts.steady_counter == Some(false) {
        findings.push(
            Finding::note("tsc", "is not the same in all states of the CPU")
                .cost("times that it was used for are off by as much as the frequency changes"),
        );
    }
    findings
}

fn source(facts: &ClockFacts) -> Finding {
    let subject = "clock";
    if (&facts.source, facts.reads) == (&None, None) {
        return Finding::note(subject, "source cannot be read here");
    }
    let name = facts.source.as_deref().unwrap_or("of an unknown source");
    let reads = facts.reads.map_or_else(String::new, |reads| {
        let Reads { clock_nanos, counter_nanos } = reads;
        format!(": a read takes {clock_nanos:.0} ns, one of the counter {counter_nanos:.0} ns")
    });
    let what = format!("{name}{reads}");
    // Those that a program reads without a system call.
    let known = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
    let slow = match facts.reads {
        Some(reads) => reads.clock_nanos > SLOW_NANOS,
        None => facts.source.as_deref().is_some_and(|source| !known.contains(&source)),
    };
    if !slow {
        return Finding::fine(subject, what);
    }
    let finding = Finding::worse(subject, what)
        .cost("a loop reads it once a turn, and each read is a system call or a detour here");
    let better = known.iter().find(|&&known| {
        facts.source.as_deref() != Some(known) && facts.available.iter().any(|name| name == known)
    });
    match better {
        Some(better) => finding.mend(format!("echo {better} > {CLOCK}/current_clocksource")),
        None => finding.mend("boot with tsc=reliable, if the firmware's counters can be trusted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn hpet() -> ClockFacts {
        ClockFacts {
            source: Some("hpet".to_owned()),
            available: vec!["tsc".to_owned(), "hpet".to_owned()],
            steady_counter: Some(true),
            reads: Some(Reads { clock_nanos: 900.0, counter_nanos: 9.0 }),
        }
    }

    #[test]
    fn a_slow_clock_is_told_with_the_better_one_that_is_there() {
        let finding = &judge(&hpet())[0];
        assert_eq!(finding.level, Level::Worse);
        assert_eq!(finding.what, "hpet: a read takes 900 ns, one of the counter 9 ns");
        assert_eq!(finding.mend, Some(format!("echo tsc > {CLOCK}/current_clocksource")));
    }

    #[test]
    fn what_was_measured_counts_more_than_a_name() {
        let reads = Some(Reads { clock_nanos: 25.0, counter_nanos: 9.0 });
        assert_eq!(judge(&ClockFacts { reads, ..hpet() })[0].level, Level::Fine);
        assert_eq!(judge(&ClockFacts { reads: None, ..hpet() })[0].level, Level::Worse);
        let source = Some("tsc".to_owned());
        assert_eq!(judge(&ClockFacts { source, reads: None, ..hpet() })[0].level, Level::Fine);
        assert_eq!(judge(&ClockFacts::default())[0].level, Level::Note);
    }

    #[test]
    fn a_counter_that_changes_its_rate_is_noted() {
        let findings = judge(&ClockFacts { steady_counter: Some(false), ..hpet() });
        assert_eq!(findings[1].level, Level::Note);
        assert_eq!(steady("flags : tsc constant_tsc nonstop_tsc\n"), Some(true));
        assert_eq!(steady("flags : tsc constant_tsc\n"), Some(false));
        assert_eq!(steady("Features : fp\n"), None);
    }

    #[test]
    fn a_read_of_this_machines_clock_costs_something() {
        let Reads { clock_nanos, counter_nanos } = measure();
        assert!(clock_nanos > 0.0 && counter_nanos > 0.0, "{clock_nanos} {counter_nanos}");
    }
}
