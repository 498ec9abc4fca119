//! Who carried the bytes: what a namespace's kernel has counted itself.
//!
//! A program on the kernel's sockets answers as well as one on ours. So each measurement looks
//! before and after at what the kernel of the server's side has done: nothing where ours is
//! measured.

use testbed::Side;

use crate::error::{Error, OrNeeds};

/// What the kernel of a namespace has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// TCP segments in and out.
    pub(crate) segments: u64,
    /// Bytes over the loopback interface.
    pub(crate) loopback_bytes: u64,
}

impl Carried {
    /// So far.
    pub(crate) fn by_kernel_of(side: &Side) -> Result<Self, Error> {
        let read = || {
            // The process's own files are those of its first thread's namespace.
            let read =
                |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
            Ok::<_, std::io::Error>((read("snmp")?, read("dev")?))
        };
        let (snmp, dev) = side
            .enter(read)
            .or_needs("thread in a namespace")?
            .or_needs("counters of the kernel")?;
        let counted = segments_in(&snmp).zip(loopback_bytes_in(&dev));
        let (segments, loopback_bytes) =
            counted.ok_or("there are none of TCP or lo").or_needs("counters of the kernel")?;
        Ok(Self { segments, loopback_bytes })
    }

    /// Since an earlier look.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            segments: self.segments.saturating_sub(earlier.segments),
            loopback_bytes: self.loopback_bytes.saturating_sub(earlier.loopback_bytes),
        }
    }
}

/// Segments in and out, of /proc/net/snmp: a line of names before each line of numbers.
fn segments_in(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let find = |wanted| {
        let mut pairs = names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace());
        pairs.find(|&(name, _)| name == wanted)?.1.parse::<u64>().ok()
    };
    Some(find("InSegs")? + find("OutSegs")?)
}

/// Bytes received by lo, of /proc/net/dev: what it sends it receives.
fn loopback_bytes_in(dev: &str) -> Option<u64> {
    let line = dev.lines().find_map(|line| line.trim_start().strip_prefix("lo:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read_by_name_and_not_by_place() {
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: ActiveOpens InSegs OutSegs InErrs\nTcp: 9 20 3 7\n";
        assert_eq!(segments_in(snmp), Some(23));
        assert_eq!(segments_in("Udp: InDatagrams\nUdp: 4\n"), None);
        let dev = "Inter-| Receive\n face |bytes\n  eth0: 5 1\n    lo: 4711 12 0\n";
        assert_eq!(loopback_bytes_in(dev), Some(4711));
        assert_eq!(loopback_bytes_in("  eth0: 5 1\n"), None);
    }
}
