//! Measured: for how long a thread that wants to run does not.

use std::thread;

use base::Nanos;
use sys::{clock, steal};

use crate::Finding;
use crate::text::{read, write_cpu_list};

/// What was taken from CPUs that were busy, and from all since boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StolenFacts {
    /// Of each CPU that was watched.
    pub watched: Vec<Watched>,
    /// Stolen since boot on all CPUs together; `None`: /proc/stat cannot be read.
    pub since_boot: Option<Nanos>,
    /// Time since boot, times the CPUs; `None`: not known.
    pub up: Option<Nanos>,
}

/// One CPU on which a thread did nothing but read the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Watched {
    /// Its number.
    pub cpu: u16,
    /// How long.
    pub length: Nanos,
    /// What the hypervisor took meanwhile, as the kernel counts it (in ticks of 10 ms).
    pub stolen: Nanos,
    /// The longest time between two reads of the clock.
    pub pause_max: Nanos,
    /// All such times over [`PAUSE`] together.
    pub paused: Nanos,
}

/// How long each CPU is watched.
const LENGTH: Nanos = Nanos::from_millis(200);
/// At most this many CPUs are busy for it.
const CPUS_MAX: usize = 8;
/// A time between two reads that is no interrupt any more.
pub(crate) const PAUSE: Nanos = Nanos::from_micros(20);

/// Parts of the time that are worth a line.
const STOLEN_MUCH: f64 = 0.01;
const PAUSE_LONG: Nanos = Nanos::from_millis(1);

pub(crate) fn gather(cpus: &[u16]) -> StolenFacts {
    let cpus = &cpus[..cpus.len().min(CPUS_MAX)];
    let before = steal::per_cpu();
    let mut watched: Vec<Watched> = thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .filter_map(|&cpu| thread::Builder::new().spawn_scoped(scope, move || watch(cpu)).ok())
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    });
    let after = steal::per_cpu();
    let of = |times: &[(usize, Nanos)], cpu: u16| {
        let found = times.iter().find(|(number, _)| *number == usize::from(cpu));
        found.map_or(Nanos::ZERO, |&(_, time)| time)
    };
    for one in &mut watched {
        one.stolen = of(&after, one.cpu).since(of(&before, one.cpu));
    }
    let total = after.iter().fold(0u64, |sum, (_, time)| sum.saturating_add(time.0));
    let uptime = read("/proc/uptime").and_then(|text| seconds(&text));
    StolenFacts {
        watched,
        since_boot: (!after.is_empty()).then_some(Nanos(total)),
        up: uptime.map(|seconds| Nanos((seconds * 1e9 * after.len() as f64) as u64)),
    }
}

/// The first number of /proc/uptime.
fn seconds(uptime: &str) -> Option<f64> {
    let seconds: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    (seconds.is_finite() && seconds > 0.0).then_some(seconds)
}

fn watch(cpu: u16) -> Option<Watched> {
    sys::thread::pin(usize::from(cpu)).ok()?;
    let start = clock::now();
    let (mut last, mut pause_max, mut paused) = (start, Nanos::ZERO, Nanos::ZERO);
    loop {
        let now = clock::now();
        let gap = now.since(last);
        pause_max = pause_max.max(gap);
        if gap > PAUSE {
            paused += gap;
        }
        last = now;
        let length = now.since(start);
        if length >= LENGTH {
            return Some(Watched { cpu, length, stolen: Nanos::ZERO, pause_max, paused });
        }
    }
}

/// What that means.
pub(crate) fn judge(facts: &StolenFacts) -> Vec<Finding> {
    let mut findings = vec![stolen(facts)];
    findings.extend(pauses(facts));
    findings
}

fn part(of: Nanos, whole: Nanos) -> f64 {
    of.0 as f64 / whole.0.max(1) as f64
}

fn sum(times: impl Iterator<Item = Nanos>) -> Nanos {
    Nanos(times.fold(0, |sum, time| sum.saturating_add(time.0)))
}

fn stolen(facts: &StolenFacts) -> Finding {
    let subject = "stolen time";
    let (Some(since_boot), Some(up)) = (facts.since_boot, facts.up) else {
        return Finding::note(subject, "cannot be read here (/proc/stat)");
    };
    let ever = part(since_boot, up);
    let whole = sum(facts.watched.iter().map(|one| one.length));
    let now = part(sum(facts.watched.iter().map(|one| one.stolen)), whole);
    let mut what = format!("is {:.2} % of all CPU time since boot", ever * 100.0);
    if !facts.watched.is_empty() {
        what += &format!(", {:.1} % in {} ms of work just now", now * 100.0, LENGTH.0 / 1_000_000);
    }
    if ever.max(now) < STOLEN_MUCH {
        Finding::fine(subject, what)
    } else {
        Finding::worse(subject, what)
            .cost("the hypervisor runs others on our CPUs: packets wait meanwhile, and nothing here can help")
            .mend("ask for dedicated CPUs, or a less busy host")
    }
}

fn pauses(facts: &StolenFacts) -> Option<Finding> {
    let subject = "pauses";
    let worst = facts.watched.iter().max_by_key(|one| one.pause_max)?;
    let cpus: Vec<u16> = facts.watched.iter().map(|one| one.cpu).collect();
    let whole = sum(facts.watched.iter().map(|one| one.length));
    let paused = part(sum(facts.watched.iter().map(|one| one.paused)), whole);
    let what = format!(
        "of a thread that never sleeps, on CPUs {}: the longest {:.2} ms (CPU {}), those over {} us \
         {:.1} % of the time",
        write_cpu_list(&cpus),
        worst.pause_max.0 as f64 / 1e6,
        worst.cpu,
        PAUSE.0 / 1000,
        paused * 100.0,
    );
    Some(if worst.pause_max <= PAUSE_LONG {
        Finding::fine(subject, what)
    } else {
        Finding::note(subject, what)
            .cost(
                "other threads, interrupts or the hypervisor ran meanwhile: a packet waits as long",
            )
            .mend("end what else runs (top), or isolate CPUs")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Level;

    fn quiet() -> StolenFacts {
        let one = Watched {
            cpu: 0,
            length: LENGTH,
            stolen: Nanos::ZERO,
            pause_max: Nanos::from_micros(30),
            paused: Nanos::from_micros(30),
        };
        StolenFacts {
            watched: vec![one, Watched { cpu: 1, ..one }],
            since_boot: Some(Nanos::from_millis(10)),
            up: Some(Nanos::from_millis(100_000)),
        }
    }

    #[test]
    fn time_that_was_stolen_now_or_before_is_worse() {
        assert!(judge(&quiet()).iter().all(|finding| finding.level == Level::Fine));
        let before = StolenFacts { since_boot: Some(Nanos::from_millis(5_000)), ..quiet() };
        assert_eq!(judge(&before)[0].level, Level::Worse);
        assert!(judge(&before)[0].what.starts_with("is 5.00 %"));
        let mut now = quiet();
        now.watched[1].stolen = Nanos::from_millis(20);
        assert_eq!(judge(&now)[0].level, Level::Worse);
        assert!(judge(&now)[0].what.contains("5.0 % in 200 ms"), "{:?}", judge(&now));
    }

    #[test]
    fn a_long_pause_is_told_with_its_cpu() {
        let mut facts = quiet();
        facts.watched[1].pause_max = Nanos::from_millis(4);
        facts.watched[1].paused = Nanos::from_millis(8);
        let finding = &judge(&facts)[1];
        assert_eq!(finding.level, Level::Note);
        assert!(finding.what.contains("CPUs 0-1: the longest 4.00 ms (CPU 1)"), "{finding}");
    }

    #[test]
    fn what_was_not_measured_is_not_told_and_what_cannot_be_read_is_noted() {
        let unmeasured = StolenFacts { watched: Vec::new(), ..quiet() };
        assert_eq!(judge(&unmeasured).len(), 1);
        assert!(!judge(&unmeasured)[0].what.contains("just now"));
        assert_eq!(judge(&StolenFacts::default())[0].level, Level::Note);
    }

    #[test]
    fn an_allowed_cpu_is_watched_and_another_is_not() {
        let cpu = *crate::cpus::allowed().last().expect("some CPU runs this");
        let facts = gather(&[cpu, 8000]);
        assert_eq!(facts.watched.len(), 1);
        assert!(facts.watched[0].length >= LENGTH);
        assert!(facts.watched[0].pause_max > Nanos::ZERO);
    }

    proptest! {
        #[test]
        fn any_uptime_is_read_without_harm(text in ".*", number: f64) {
            seconds(&text);
            if let Some(read) = seconds(&number.to_string()) {
                prop_assert!(read > 0.0);
            }
        }
    }
}
