//! Effective capabilities of this thread: capget(2).

use std::fmt;

/// A capability that something here needs; the numbers are those of linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Giving what is open to another user.
    Chown = 0,
    /// Reading other users' files and folders, lists of descriptors in /proc among them.
    DacReadSearch = 2,
    /// Signals to other users' processes.
    Kill = 5,
    /// Ports below 1024.
    NetBindService = 10,
    /// Interfaces, addresses, XDP attachment.
    NetAdmin = 12,
    /// AF_XDP and packet sockets.
    NetRaw = 13,
    /// Locked memory beyond the limit.
    IpcLock = 14,
    /// Other processes' namespaces, descriptors and memory.
    SysPtrace = 19,
    /// Namespaces, and BPF before 5.8.
    SysAdmin = 21,
    /// Real-time priority, affinity of other users' threads.
    SysNice = 23,
    /// Limits beyond the hard limit.
    SysResource = 24,
    /// BPF programs that compare pointers, as ours do.
    Perfmon = 38,
    /// BPF programs and maps.
    Bpf = 39,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chown => "CAP_CHOWN",
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::Kill => "CAP_KILL",
            Self::NetBindService => "CAP_NET_BIND_SERVICE",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetRaw => "CAP_NET_RAW",
            Self::IpcLock => "CAP_IPC_LOCK",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysNice => "CAP_SYS_NICE",
            Self::SysResource => "CAP_SYS_RESOURCE",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        })
    }
}

/// Whether the calling thread has `capability` now. CAP_SYS_ADMIN stands in for CAP_BPF and
/// CAP_PERFMON, as in the kernel. False when the kernel does not tell: then nothing is promised.
pub fn have(capability: Capability) -> bool {
    let set = rustix::thread::capabilities(None).map_or(0, |sets| sets.effective.bits());
    holds(set, capability)
}

/// Those of `wanted` that the calling thread lacks.
pub fn missing(wanted: &[Capability]) -> Vec<Capability> {
    wanted.iter().copied().filter(|&capability| !have(capability)).collect()
}

fn holds(set: u64, capability: Capability) -> bool {
    let has = |capability: Capability| set >> capability as u8 & 1 == 1;
    has(capability)
        || (matches!(capability, Capability::Bpf | Capability::Perfmon)
            && has(Capability::SysAdmin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_capability_is_its_bit_and_the_administrator_may_use_bpf() {
        assert!(holds(1 << 13, Capability::NetRaw));
        assert!(!holds(1 << 13, Capability::NetAdmin));
        assert!(holds(1 << 39, Capability::Bpf));
        assert!(holds(1 << 21, Capability::Bpf));
        assert!(!holds(1 << 13, Capability::Bpf));
        assert!(!holds(1 << 21, Capability::NetRaw));
    }

    #[test]
    fn what_the_kernel_tells_is_what_proc_shows() {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("proc is mounted");
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let shown = u64::from_str_radix(line.expect("it is listed").trim(), 16).expect("it is hex");
        for capability in [Capability::NetRaw, Capability::IpcLock, Capability::Bpf] {
            assert_eq!(have(capability), holds(shown, capability), "{capability}");
        }
    }

    #[test]
    fn nothing_wanted_is_nothing_missing() {
        assert!(missing(&[]).is_empty());
    }
}
