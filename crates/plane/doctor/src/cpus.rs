//! CPUs: how many, which of them are ours, and what else runs there.

use crate::Finding;
use crate::text::{cpu_list, read, write_cpu_list};

/// The CPUs of the machine as this process sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuFacts {
    /// Those that are on; empty: /sys cannot be read.
    pub online: Vec<u16>,
    /// Those that this process may run on.
    pub allowed: Vec<u16>,
    /// Those that the scheduler puts nothing on by itself (`isolcpus=`).
    pub isolated: Vec<u16>,
    /// CPUs that share a core, one list for each core that has several.
    pub siblings: Vec<Vec<u16>>,
    /// CPU time that the control group grants; `None`: as much as there is, or not known.
    pub quota: Option<Quota>,
}

/// How much CPU time the processes of a control group get together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Microseconds of CPU time in each period.
    pub granted_micros: u64,
    /// The period.
    pub period_micros: u64,
    /// The file that says so.
    pub file: String,
}

/// Fewer CPUs than this, and none can be spared for isolation.
const ISOLATE_FROM: usize = 4;

pub(crate) fn gather() -> CpuFacts {
    const CPUS: &str = "/sys/devices/system/cpu";
    let list = |path: &str| read(path).map(|text| cpu_list(&text)).unwrap_or_default();
    let online = list(&format!("{CPUS}/online"));
    let of_core = |&cpu: &u16| list(&format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"));
    let mut siblings: Vec<_> =
        online.iter().map(of_core).filter(|threads| threads.len() > 1).collect();
    siblings.sort();
    siblings.dedup();
    CpuFacts {
        allowed: allowed(),
        isolated: list(&format!("{CPUS}/isolated")),
        siblings,
        quota: quota(),
        online,
    }
}

/// The CPUs that this process may run on.
pub(crate) fn allowed() -> Vec<u16> {
    sys::thread::allowed_cpus().into_iter().filter_map(|cpu| u16::try_from(cpu).ok()).collect()
}

/// The tightest quota of our control group and those around it (cgroup v2, else v1).
fn quota() -> Option<Quota> {
    let groups = read("/proc/self/cgroup")?;
    let unified = path_of(&groups, "").and_then(|path| {
        tightest(path, |group| {
            let file = format!("/sys/fs/cgroup{group}/cpu.max");
            let (granted_micros, period_micros) = parse_max(&read(&file)?)?;
            Some(Quota { granted_micros, period_micros, file })
        })
    });
    unified.or_else(|| {
        tightest(path_of(&groups, "cpu")?, |group| {
            let file = format!("/sys/fs/cgroup/cpu{group}/cpu.cfs_quota_us");
            let period = format!("/sys/fs/cgroup/cpu{group}/cpu.cfs_period_us");
            let granted_micros = read(&file)?.trim().parse().ok()?;
            let period_micros = read(period)?.trim().parse().ok()?;
            (period_micros > 0).then_some(Quota { granted_micros, period_micros, file })
        })
    })
}

/// The group of `controller` (empty: of cgroup v2) in the text of /proc/self/cgroup.
fn path_of<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let named = parts.next()?.split(',').any(|name| name == controller);
        // A path with ".." leads out of what is mounted here.
        let path = parts.next().filter(|path| path.starts_with('/') && !path.contains(".."))?;
        named.then_some(path.trim_end_matches('/'))
    })
}

/// The least share among `group` and its parents.
fn tightest(group: &str, read: impl Fn(&str) -> Option<Quota>) -> Option<Quota> {
    let ends = group.match_indices('/').map(|(at, _)| at).chain([group.len()]);
    ends.filter_map(|end| read(&group[..end])).min_by(|a, b| share(a).total_cmp(&share(b)))
}

/// Whole CPUs that a quota amounts to.
fn share(quota: &Quota) -> f64 {
    quota.granted_micros as f64 / quota.period_micros as f64
}

/// `cpu.max`: quota and period; `None` for the word `max`, too.
fn parse_max(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace();
    let granted = words.next()?.parse().ok()?;
    let period = words.next()?.parse().ok()?;
    (period > 0).then_some((granted, period))
}

/// What that means.
pub(crate) fn judge(facts: &CpuFacts) -> Vec<Finding> {
    [Some(number(facts)), group_quota(facts), smt(facts), isolation(facts)]
        .into_iter()
        .flatten()
        .collect()
}

fn number(facts: &CpuFacts) -> Finding {
    let CpuFacts { online, allowed, .. } = facts;
    let ours = write_cpu_list(allowed);
    if allowed.len() < online.len() {
        let all = online.len();
        return Finding::note(
            "cpus",
            format!("{ours}: {} of {all} are allowed here", allowed.len()),
        )
        .cost("no worker can be put on the others")
        .mend(format!(
            "taskset -pc {} $$ (a cpuset of the container or unit may forbid it: docker run \
                 --cpuset-cpus, systemd AllowedCPUs=)",
            write_cpu_list(online)
        ));
    }
    match allowed.len() {
        0 => Finding::note("cpus", "that are allowed here are not known"),
        _ if online.is_empty() => {
            Finding::note("cpus", format!("{ours} are allowed here, of how many cannot be read"))
        }
        1 => Finding::note("cpus", format!("{ours} is the only one"))
            .cost("a dispatcher and workers on threads of their own would take turns")
            .mend("leave arrangement=fused, the default"),
        count => Finding::fine("cpus", format!("{ours}: all {count} are allowed")),
    }
}

fn group_quota(facts: &CpuFacts) -> Option<Finding> {
    let quota = facts.quota.as_ref()?;
    let share = share(quota);
    // A quota of all our CPUs and more takes nothing away.
    if share >= facts.allowed.len().max(1) as f64 {
        return None;
    }
    let what = format!("{share:.2} CPUs are granted to this control group");
    let period_ms = quota.period_micros / 1000;
    Some(
        Finding::worse("cpu quota", what)
            .cost(format!(
                "threads that poll use it up, and then all stand still until the next {period_ms} ms \
                 begin"
            ))
            .mend(if quota.file.ends_with("cpu.max") {
                format!("echo max > {} (docker: leave out --cpus)", quota.file)
            } else {
                format!("echo -1 > {} (docker: leave out --cpus)", quota.file)
            }),
    )
}

fn smt(facts: &CpuFacts) -> Option<Finding> {
    let first = facts.siblings.first()?;
    let cores = facts.siblings.len();
    let pair = write_cpu_list(first);
    Some(
        Finding::note("smt", format!("{cores} cores run several CPUs each, such as {pair}"))
            .cost("a thread that polls takes execution time from its core's other CPU")
            .mend(
                "put busy threads on CPUs of different cores (workers.cpus), or: echo off > \
                 /sys/devices/system/cpu/smt/control",
            ),
    )
}

fn isolation(facts: &CpuFacts) -> Option<Finding> {
    let subject = "isolated cpus";
    if !facts.isolated.is_empty() {
        let list = write_cpu_list(&facts.isolated);
        return Some(Finding::fine(subject, format!("{list}: name them in workers.cpus")));
    }
    if facts.online.len() < ISOLATE_FROM {
        return None;
    }
    // Half of the cores, each with all its CPUs: a suggestion that leaves Linux the other half.
    let core_of = |cpu: &u16| {
        let siblings = facts.siblings.iter().find(|threads| threads.contains(cpu));
        siblings.and_then(|threads| threads.first().copied()).unwrap_or(*cpu)
    };
    let mut cores: Vec<u16> = facts.online.iter().map(core_of).collect();
    cores.sort_unstable();
    cores.dedup();
    let boundary = cores[cores.len() / 2];
    let list: Vec<u16> =
        facts.online.iter().copied().filter(|cpu| core_of(cpu) >= boundary).collect();
    let list = write_cpu_list(&list);
    Some(
        Finding::note(subject, "there are none")
            .cost("any thread of the machine may take a polling thread's CPU for a time slice")
            .mend(format!(
                "add isolcpus=managed_irq,domain,{list} nohz_full={list} to \
                 GRUB_CMDLINE_LINUX in /etc/default/grub, then: update-grub && reboot"
            )),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Level;

    /// 128 CPUs, two to a core: n and n + 64.
    fn large() -> CpuFacts {
        CpuFacts {
            online: (0..128).collect(),
            allowed: (0..128).collect(),
            isolated: Vec::new(),
            siblings: (0..64).map(|cpu| vec![cpu, cpu + 64]).collect(),
            quota: None,
        }
    }

    fn of<'a>(findings: &'a [Finding], subject: &str) -> &'a Finding {
        findings.iter().find(|finding| finding.subject == subject).expect("it is told")
    }

    #[test]
    fn a_large_machine_without_isolation_is_told_which_half_to_isolate() {
        let findings = judge(&large());
        assert_eq!(of(&findings, "cpus").level, Level::Fine);
        let mend = of(&findings, "isolated cpus").mend.clone().expect("it can be mended");
        assert!(mend.contains("isolcpus=managed_irq,domain,32-63,96-127"), "{mend}");
        let isolated = judge(&CpuFacts { isolated: (32..64).collect(), ..large() });
        assert_eq!(of(&isolated, "isolated cpus").level, Level::Fine);
        assert!(of(&isolated, "isolated cpus").what.starts_with("32-63"));
    }

    #[test]
    fn siblings_that_are_neighbours_are_isolated_together() {
        let siblings = (0..64).map(|core| vec![2 * core, 2 * core + 1]).collect();
        let findings = judge(&CpuFacts { siblings, ..large() });
        let mend = of(&findings, "isolated cpus").mend.clone().expect("it can be mended");
        assert!(mend.contains("domain,64-127 "), "{mend}");
    }

    #[test]
    fn without_siblings_the_upper_half_is_suggested() {
        let cpus: Vec<u16> = (0..8).collect();
        let facts = CpuFacts { online: cpus.clone(), allowed: cpus, ..CpuFacts::default() };
        let mend = of(&judge(&facts), "isolated cpus").mend.clone().expect("it can be mended");
        assert!(mend.contains("domain,4-7"), "{mend}");
    }

    #[test]
    fn a_cpuset_is_told_with_what_it_leaves() {
        let findings = judge(&CpuFacts { allowed: vec![2, 3], ..large() });
        let cpus = of(&findings, "cpus");
        assert_eq!(cpus.level, Level::Note);
        assert_eq!(cpus.what, "2-3: 2 of 128 are allowed here");
    }

    #[test]
    fn a_quota_costs_whoever_polls() {
        let file = "/sys/fs/cgroup/x/cpu.max".to_owned();
        let quota = Quota { granted_micros: 150_000, period_micros: 100_000, file };
        let wide = Quota { granted_micros: 12_800_000, ..quota.clone() };
        let unhurt = judge(&CpuFacts { quota: Some(wide), ..large() });
        assert!(unhurt.iter().all(|finding| finding.subject != "cpu quota"), "{unhurt:?}");
        let findings = judge(&CpuFacts { quota: Some(quota), ..large() });
        let finding = of(&findings, "cpu quota");
        assert_eq!(finding.level, Level::Worse);
        assert!(finding.what.starts_with("1.50 CPUs"), "{finding}");
        assert_eq!(
            finding.mend.as_deref(),
            Some("echo max > /sys/fs/cgroup/x/cpu.max (docker: leave out --cpus)")
        );
    }

    #[test]
    fn one_cpu_is_enough_and_two_need_no_isolation() {
        let one = CpuFacts { online: vec![0], allowed: vec![0], ..CpuFacts::default() };
        let findings = judge(&one);
        assert_eq!(of(&findings, "cpus").level, Level::Note);
        assert_eq!(findings.len(), 1);
        let two = CpuFacts { online: vec![0, 1], allowed: vec![0, 1], ..CpuFacts::default() };
        assert_eq!(judge(&two).len(), 1);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_noted() {
        assert_eq!(judge(&CpuFacts::default())[0].level, Level::Note);
        let hidden = CpuFacts { allowed: vec![0, 1], ..CpuFacts::default() };
        assert_eq!(judge(&hidden)[0].level, Level::Note);
    }

    #[test]
    fn the_control_group_is_found_by_its_controller() {
        let groups = "4:memory:/m\n3:cpu,cpuacct:/docker/abc\n0::/user.slice\n";
        assert_eq!(path_of(groups, ""), Some("/user.slice"));
        assert_eq!(path_of(groups, "cpu"), Some("/docker/abc"));
        assert_eq!(path_of("0::/\n", ""), Some(""));
        assert_eq!(path_of("0::/../outside\n", ""), None);
    }

    #[test]
    fn the_tightest_group_on_the_way_counts() {
        let of_group = |group: &str| {
            let granted_micros = [("", 400), ("/a", 50), ("/a/b", 100)]
                .into_iter()
                .find(|&(name, _)| name == group)?
                .1;
            Some(Quota { granted_micros, period_micros: 100, file: group.to_owned() })
        };
        assert_eq!(tightest("/a/b", of_group).expect("all have one").file, "/a");
        assert_eq!(parse_max("max 100000\n"), None);
        assert_eq!(parse_max("50000 100000\n"), Some((50_000, 100_000)));
        assert_eq!(parse_max("5 0\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in ".*", controller in "[a-z]*") {
            parse_max(&text);
            if let Some(path) = path_of(&text, &controller) {
                tightest(path, |_| None);
            }
        }

        #[test]
        fn any_machine_is_judged(
            online in prop::collection::btree_set(0u16..9000, 0..40),
            siblings in prop::collection::vec(prop::collection::vec(any::<u16>(), 0..3), 0..9),
        ) {
            let online: Vec<u16> = online.into_iter().collect();
            judge(&CpuFacts { online, siblings, ..CpuFacts::default() });
        }
    }
}
