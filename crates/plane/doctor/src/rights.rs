//! What this process may do: capabilities, user namespace, system call filter, limits.

use sys::capability::{self, Capability};

use crate::Finding;
use crate::text::{field, read};

/// Rights and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RightsFacts {
    /// Those of CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON that we lack.
    pub missing: Vec<Capability>,
    /// Whether we have the machine's own CAP_IPC_LOCK: then no limit of locked memory holds.
    pub lock_unlimited: bool,
    /// Whether our user namespace is the machine's own; `None`: not known.
    pub initial_user_namespace: Option<bool>,
    /// Whether a filter of system calls is on; `None`: not known.
    pub filtered: Option<bool>,
    /// Bytes that may be locked; `None`: no limit.
    pub locked_bytes: Option<u64>,
    /// Files that may be open; `None`: no limit, or not known.
    pub files: Option<u64>,
    /// Bytes that the frames of a default configuration take.
    pub frames_bytes: u64,
}

/// What each port needs; others cost more rights but no port works without CAP_NET_RAW.
const WANTED: [Capability; 4] =
    [Capability::NetRaw, Capability::NetAdmin, Capability::Bpf, Capability::Perfmon];

const GRANT: &str = "run as root, or: setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_ipc_lock+ep \
     $(command -v calistod)";

/// Descriptors of a daemon with one port and 64 workers, with room for clients of its socket.
const FILES_ENOUGH: u64 = 256;

pub(crate) fn gather() -> RightsFacts {
    let status = read("/proc/thread-self/status").unwrap_or_default();
    let config::Frames { count, bytes } = config::Frames::default();
    let initial_user_namespace = read("/proc/self/uid_map").map(|map| is_initial(&map));
    RightsFacts {
        missing: capability::missing(&WANTED),
        // The kernel asks for the machine's own CAP_IPC_LOCK.
        lock_unlimited: capability::have(Capability::IpcLock)
            && initial_user_namespace != Some(false),
        initial_user_namespace,
        filtered: field(&status, "Seccomp").map(|mode| mode != "0"),
        locked_bytes: sys::memlock::limit(),
        files: read("/proc/self/limits").and_then(|limits| files_limit(&limits)),
        // One more chunk is the region's head.
        frames_bytes: (u64::from(count) + 1) * u64::from(bytes),
    }
}

/// Whether a uid_map is that of the first user namespace: every id is itself.
fn is_initial(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The limit of open files that holds now (the soft one).
fn files_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What that means.
pub(crate) fn judge(facts: &RightsFacts) -> Vec<Finding> {
    let mut findings = capabilities(facts);
    findings.extend(namespace(facts));
    findings.extend(filter(facts));
    findings.push(locked_memory(facts));
    findings.extend(open_files(facts));
    findings
}

fn capabilities(facts: &RightsFacts) -> Vec<Finding> {
    if facts.missing.is_empty() {
        return vec![Finding::fine(
            "rights",
            "CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON are there",
        )];
    }
    let raw = facts.missing.contains(&Capability::NetRaw);
    let names = facts.missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let finding = Finding::missing("rights", names).mend(GRANT);
    vec![if raw {
        finding.cost("no port of an interface can be opened").blocks_ports()
    } else {
        finding.cost("no xdp port can be opened; af_packet ports can")
    }]
}

fn namespace(facts: &RightsFacts) -> Option<Finding> {
    (facts.initial_user_namespace == Some(false)).then(|| {
        Finding::missing("rights", "this is a user namespace of its own")
            .cost("BPF is refused here whatever the capabilities are: af_packet ports only")
            .mend("start outside of it (podman: as root; docker: --userns=host)")
    })
}

fn filter(facts: &RightsFacts) -> Option<Finding> {
    (facts.filtered == Some(true)).then(|| {
        Finding::note("rights", "a filter of system calls (seccomp) is on")
            .cost("it may refuse bpf(2) although the capabilities are there")
            .mend("docker run --security-opt seccomp=unconfined …")
    })
}

fn locked_memory(facts: &RightsFacts) -> Finding {
    let subject = "locked memory";
    let kib = |bytes: u64| bytes.div_ceil(1024);
    let needed = kib(facts.frames_bytes);
    match facts.locked_bytes {
        _ if facts.lock_unlimited => Finding::fine(subject, "has no limit for us (CAP_IPC_LOCK)"),
        None => Finding::fine(subject, "has no limit"),
        Some(limit) if limit >= facts.frames_bytes => {
            let limit = kib(limit);
            Finding::fine(subject, format!("{limit} KiB hold the {needed} KiB of default frames"))
        }
        Some(limit) => Finding::worse(subject, format!("{} KiB are allowed", kib(limit)))
            .cost(format!("the {needed} KiB of default frames of an xdp port do not fit"))
            .mend("ulimit -l unlimited (as root; in a systemd unit: LimitMEMLOCK=infinity)"),
    }
}

fn open_files(facts: &RightsFacts) -> Option<Finding> {
    let limit = facts.files?;
    Some(if limit >= FILES_ENOUGH {
        Finding::fine("open files", format!("{limit} are allowed"))
    } else {
        Finding::worse("open files", format!("{limit} are allowed"))
            .cost("a daemon with many workers and ports runs out of descriptors")
            .mend("ulimit -n 1024 (as root; in a systemd unit: LimitNOFILE=1024)")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Level;

    fn root() -> RightsFacts {
        RightsFacts {
            missing: Vec::new(),
            lock_unlimited: true,
            initial_user_namespace: Some(true),
            filtered: Some(false),
            locked_bytes: Some(8 << 20),
            files: Some(1024),
            frames_bytes: 4097 * 4096,
        }
    }

    #[test]
    fn root_has_all_that_is_needed() {
        assert!(judge(&root()).iter().all(|finding| finding.level == Level::Fine));
    }

    #[test]
    fn without_any_right_no_port_is_possible() {
        let findings = judge(&RightsFacts { missing: WANTED.to_vec(), ..root() });
        assert_eq!(findings[0].level, Level::Missing);
        assert!(findings[0].blocks_ports);
        assert!(findings[0].mend.as_deref().is_some_and(|mend| mend.contains("setcap")));
    }

    #[test]
    fn packet_sockets_need_no_more_than_net_raw() {
        let missing = vec![Capability::NetAdmin, Capability::Bpf];
        let findings = judge(&RightsFacts { missing, ..root() });
        assert_eq!(findings[0].level, Level::Missing);
        assert!(!findings[0].blocks_ports);
        assert!(findings[0].what.contains("CAP_BPF"), "{findings:?}");
    }

    #[test]
    fn a_small_limit_of_locked_memory_costs_only_those_it_applies_to() {
        let level = |facts: &RightsFacts| {
            let findings = judge(facts);
            findings.iter().find(|f| f.subject == "locked memory").expect("it is told").level
        };
        let user = RightsFacts { lock_unlimited: false, ..root() };
        assert_eq!(level(&root()), Level::Fine);
        assert_eq!(level(&user), Level::Worse);
        assert_eq!(level(&RightsFacts { locked_bytes: None, ..user.clone() }), Level::Fine);
        let just = Some(user.frames_bytes);
        assert_eq!(level(&RightsFacts { locked_bytes: just, ..user }), Level::Fine);
    }

    #[test]
    fn a_container_is_told_by_its_user_namespace_and_its_filter() {
        let container =
            RightsFacts { initial_user_namespace: Some(false), filtered: Some(true), ..root() };
        let findings = judge(&container);
        assert!(findings.iter().any(|f| f.what.contains("user namespace")), "{findings:?}");
        assert!(findings.iter().any(|f| f.what.contains("seccomp")), "{findings:?}");
    }

    #[test]
    fn too_few_descriptors_are_told() {
        let findings = judge(&RightsFacts { files: Some(64), ..root() });
        assert_eq!(findings.last().map(|finding| finding.level), Some(Level::Worse));
    }

    #[test]
    fn the_first_user_namespace_maps_every_id_to_itself() {
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
        assert!(!is_initial(""));
    }

    #[test]
    fn the_limit_that_holds_is_the_first_number() {
        let limits = "Limit  Soft  Hard  Units\nMax open files   1024   524288   files\n";
        assert_eq!(files_limit(limits), Some(1024));
        assert_eq!(files_limit("Max open files unlimited unlimited files"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in ".*") {
            is_initial(&text);
            files_limit(&text);
            files_limit(&format!("Max open files{text}"));
        }
    }
}
