//! The kernel: its version, AF_XDP, and BPF.

use crate::Finding;
use crate::text::{read, read_number};

/// What the kernel says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelFacts {
    /// As `uname -r` prints it.
    pub release: String,
    /// Whether it was built with AF_XDP; `None`: /proc/net/protocols cannot be read.
    pub xdp_sockets: Option<bool>,
    /// `net.core.bpf_jit_enable`; `None`: no BPF JIT, or it cannot be read.
    pub bpf_jit: Option<u64>,
    /// `net.core.bpf_jit_harden`; `None`: only root may read it.
    pub bpf_jit_harden: Option<u64>,
    /// `kernel.unprivileged_bpf_disabled`; `None`: a kernel without bpf(2).
    pub unprivileged_bpf_disabled: Option<u64>,
}

/// Major and minor number of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KernelVersion(pub u32, pub u32);

impl KernelVersion {
    /// That of a release such as `6.1.0-18-amd64`.
    pub(crate) fn of_release(release: &str) -> Option<Self> {
        let mut parts = release.trim().split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?;
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        Some(Self(major, minor[..digits].parse().ok()?))
    }
}

/// AF_XDP with need_wakeup (5.4), links of XDP programs (5.9), and BPF memory that is no longer
/// charged to RLIMIT_MEMLOCK, with preferred busy polling (5.11).
const GOOD: KernelVersion = KernelVersion(5, 11);
/// The first with links of XDP programs, which the port needs.
const POSSIBLE: KernelVersion = KernelVersion(5, 9);

const NEWER_KERNEL: &str =
    "apt-get install linux-image-$(dpkg --print-architecture), of Debian 12 or later";

pub(crate) fn gather() -> KernelFacts {
    let sysctl = |name: &str| read_number(format!("/proc/sys/{name}"));
    KernelFacts {
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        xdp_sockets: read("/proc/net/protocols").map(|protocols| has_xdp(&protocols)),
        bpf_jit: sysctl("net/core/bpf_jit_enable"),
        bpf_jit_harden: sysctl("net/core/bpf_jit_harden"),
        unprivileged_bpf_disabled: sysctl("kernel/unprivileged_bpf_disabled"),
    }
}

/// Whether /proc/net/protocols lists the protocol of AF_XDP sockets.
fn has_xdp(protocols: &str) -> bool {
    protocols.lines().any(|line| line.split_whitespace().next() == Some("XDP"))
}

/// What that means.
pub(crate) fn judge(facts: &KernelFacts) -> Vec<Finding> {
    [version(facts), sockets(facts), bpf(facts), jit(facts)].into_iter().flatten().collect()
}

fn version(facts: &KernelFacts) -> Option<Finding> {
    let release = &facts.release;
    let Some(version) = KernelVersion::of_release(release) else {
        return Some(Finding::note(
            "kernel",
            format!("{release:?} is no version that is known here"),
        ));
    };
    let KernelVersion(major, minor) = version;
    Some(if version >= GOOD {
        let what = format!(
            "{major}.{minor}: AF_XDP, BPF links and need_wakeup are all there (5.11 is the oldest \
             that is good)"
        );
        Finding::fine("kernel", what)
    } else if version >= POSSIBLE {
        Finding::worse("kernel", format!("{major}.{minor} is older than 5.11"))
            .cost("BPF maps count as locked memory, and busy polling cannot be preferred")
            .mend(NEWER_KERNEL)
    } else {
        Finding::missing(
            "kernel",
            format!("{major}.{minor} is older than 5.9: no BPF links for XDP"),
        )
        .cost("no xdp port can be opened; af_packet ports can")
        .mend(NEWER_KERNEL)
    })
}

fn sockets(facts: &KernelFacts) -> Option<Finding> {
    match facts.xdp_sockets {
        Some(true) => None,
        Some(false) => Some(
            Finding::missing("kernel", "was built without CONFIG_XDP_SOCKETS")
                .cost("no xdp port can be opened; af_packet ports can")
                .mend(NEWER_KERNEL),
        ),
        None => Some(Finding::note(
            "kernel",
            "/proc/net/protocols cannot be read: whether AF_XDP is built in is not known",
        )),
    }
}

fn bpf(facts: &KernelFacts) -> Option<Finding> {
    let subject = "bpf";
    Some(match facts.unprivileged_bpf_disabled {
        None => Finding::note(
            subject,
            "kernel.unprivileged_bpf_disabled cannot be read: a kernel without bpf(2), or /proc/sys \
             is hidden",
        )
        .cost("without bpf(2) no xdp port can be opened"),
        Some(0) => Finding::note(subject, "is open to every user")
            .cost("nothing for the data plane, which has CAP_BPF; an open hole for everybody else")
            .mend("sysctl -w kernel.unprivileged_bpf_disabled=2"),
        Some(_) => Finding::fine(subject, "is there, for those with CAP_BPF only"),
    })
}

fn jit(facts: &KernelFacts) -> Option<Finding> {
    let subject = "bpf jit";
    Some(match (facts.bpf_jit, facts.bpf_jit_harden) {
        (None, _) => Finding::note(
            subject,
            "net.core.bpf_jit_enable is shown in the machine's first network namespace only",
        ),
        (Some(0), _) => Finding::worse(subject, "is off")
            .cost("the XDP program is interpreted, for every packet of the interface")
            .mend("sysctl -w net.core.bpf_jit_enable=1"),
        (Some(_), Some(2)) => Finding::note(subject, "is hardened for root, too")
            .cost("some more instructions in the XDP program, for every packet of the interface")
            .mend("sysctl -w net.core.bpf_jit_harden=1"),
        (Some(_), _) => Finding::fine(subject, "is on"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Level;

    fn healthy() -> KernelFacts {
        KernelFacts {
            release: "6.12.9-amd64".to_owned(),
            xdp_sockets: Some(true),
            bpf_jit: Some(1),
            bpf_jit_harden: Some(0),
            unprivileged_bpf_disabled: Some(2),
        }
    }

    #[test]
    fn a_kernel_is_judged_by_what_its_version_has() {
        let cases = [
            ("6.12.9-amd64", Level::Fine),
            ("5.11.0", Level::Fine),
            ("5.10.0-28-amd64", Level::Worse),
            ("5.9.1", Level::Worse),
            ("5.8.0", Level::Missing),
            ("4.19.0-26", Level::Missing),
            ("6.18-rc1", Level::Fine),
            ("", Level::Note),
            ("plan9", Level::Note),
        ];
        for (release, level) in cases {
            let findings = judge(&KernelFacts { release: release.to_owned(), ..healthy() });
            assert_eq!(findings[0].level, level, "{release}: {findings:?}");
            assert!(!findings[0].blocks_ports, "af_packet ports are still possible");
        }
    }

    #[test]
    fn a_healthy_kernel_has_nothing_to_mend() {
        assert!(judge(&healthy()).iter().all(|finding| finding.level == Level::Fine));
    }

    #[test]
    fn an_interpreted_or_hardened_program_is_told_with_its_cure() {
        let off = judge(&KernelFacts { bpf_jit: Some(0), ..healthy() });
        assert_eq!(off[2].level, Level::Worse);
        assert_eq!(off[2].mend.as_deref(), Some("sysctl -w net.core.bpf_jit_enable=1"));
        let hard = judge(&KernelFacts { bpf_jit_harden: Some(2), ..healthy() });
        assert_eq!(hard[2].level, Level::Note);
    }

    #[test]
    fn a_kernel_without_af_xdp_misses_it_and_one_that_hides_it_is_only_noted() {
        let built_without = judge(&KernelFacts { xdp_sockets: Some(false), ..healthy() });
        assert_eq!(built_without[1].level, Level::Missing);
        let hidden = judge(&KernelFacts { release: "6.1.0".to_owned(), ..KernelFacts::default() });
        assert!(hidden.iter().all(|finding| finding.level <= Level::Note), "{hidden:?}");
    }

    #[test]
    fn af_xdp_is_a_word_of_its_own_in_the_list_of_protocols() {
        assert!(has_xdp("protocol  size\nXDP       1088      0\n"));
        assert!(!has_xdp("XDPX 1\nUDP XDP\n"));
    }

    proptest! {
        #[test]
        fn any_release_is_judged(release in ".*") {
            judge(&KernelFacts { release, ..healthy() });
        }
    }
}
