//! The commands that other lines name: whether they are installed.

use std::path::Path;

use crate::Finding;

/// Commands that a Debian system may lack, and the packages that have them.
const TOOLS: [(&str, &str); 5] = [
    ("ethtool", "ethtool"),
    ("bpftool", "bpftool"),
    ("nft", "nftables"),
    ("setcap", "libcap2-bin"),
    ("ip", "iproute2"),
];

/// Whether a command is where commands of the system are.
pub(crate) fn is_installed(tool: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"]
        .into_iter()
        .any(|directory| Path::new(directory).join(tool).exists())
}

/// One line for the commands that `findings` name and nobody has installed.
pub(crate) fn judge(findings: &[Finding], is_installed: impl Fn(&str) -> bool) -> Option<Finding> {
    let named = |tool: &str| {
        let mends = findings.iter().filter_map(|finding| finding.mend.as_deref());
        let mut words = mends.flat_map(|mend| mend.split(|c: char| !c.is_ascii_alphanumeric()));
        words.any(|word| word == tool)
    };
    let (tools, packages): (Vec<&str>, Vec<&str>) =
        TOOLS.into_iter().filter(|&(tool, _)| named(tool) && !is_installed(tool)).unzip();
    (!tools.is_empty()).then(|| {
        Finding::note("tools", format!("{} not installed", tools.join(", ")))
            .cost("lines above name them")
            .mend(format!("apt-get install {}", packages.join(" ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_are_named_and_absent_are_told() {
        let findings = [
            Finding::worse("eth1 offloads", "LRO").mend("ethtool -K eth1 lro off"),
            Finding::worse("eth1 mtu", "9000").mend("ip link set dev eth1 mtu 3498"),
            Finding::note("x", "no command").mend("ask the nfty script"),
        ];
        let finding = judge(&findings, |tool| tool == "ip").expect("ethtool is absent");
        assert_eq!(finding.what, "ethtool not installed");
        assert_eq!(finding.mend.as_deref(), Some("apt-get install ethtool"));
        assert_eq!(judge(&findings, |_| true), None);
        assert_eq!(judge(&[], |_| false), None);
    }

    #[test]
    fn a_shell_is_installed_and_nonsense_is_not() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-such-command"));
    }
}
