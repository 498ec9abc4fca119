//! Effective capabilities of this thread, as /proc tells them.

use std::fmt;

/// A capability that something here needs; the numbers are those of linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Interfaces, addresses, XDP attachment.
    NetAdmin = 12,
    /// AF_XDP and packet sockets.
    NetRaw = 13,
    /// Locked memory beyond the limit.
    IpcLock = 14,
    /// Namespaces, and BPF before 5.8.
    SysAdmin = 21,
    /// Real-time priority, affinity of other users' threads.
    SysNice = 23,
    /// Limits beyond the hard limit.
    SysResource = 24,
    /// BPF programs and maps.
    Bpf = 39,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetRaw => "CAP_NET_RAW",
            Self::IpcLock => "CAP_IPC_LOCK",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysNice => "CAP_SYS_NICE",
            Self::SysResource => "CAP_SYS_RESOURCE",
            Self::Bpf => "CAP_BPF",
        })
    }
}

/// Whether the calling thread has `capability` now. CAP_SYS_ADMIN stands in for CAP_BPF, as in
/// the kernel. False when /proc cannot be read: then nothing is promised.
pub fn have(capability: Capability) -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let set = effective(&status).unwrap_or(0);
    let has = |capability: Capability| set >> capability as u8 & 1 == 1;
    has(capability) || (capability == Capability::Bpf && has(Capability::SysAdmin))
}

/// Those of `wanted` that the calling thread lacks.
pub fn missing(wanted: &[Capability]) -> Vec<Capability> {
    wanted.iter().copied().filter(|&capability| !have(capability)).collect()
}

fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read_from_its_line() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000008000003000\nCapBnd:\t0\n";
        let set = effective(status).expect("the line is there");
        assert_eq!(set, 1 << 39 | 1 << 13 | 1 << 12);
        assert_eq!(effective("CapPrm:\t0\n"), None);
        assert_eq!(effective("CapEff:\tzz\n"), None);
    }

    #[test]
    fn nothing_wanted_is_nothing_missing() {
        assert!(missing(&[]).is_empty());
    }
}
