//! Which memory is near: the NUMA node of an interface and of a CPU, as sysfs tells.

use std::fs;

/// The node that an interface's device hangs on; `None`: the machine has one node, or the
/// interface no device (a veth, a TAP).
pub fn of_interface(name: &str) -> Option<u16> {
    // A name is one path component here, whatever was typed.
    if name.contains('/') {
        return None;
    }
    let node = fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node")).ok()?;
    // The kernel says -1 where it does not know.
    node.trim().parse().ok()
}

/// The node of a CPU; `None`: no such CPU, or a kernel without NUMA.
pub fn of_cpu(cpu: u16) -> Option<u16> {
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_device_and_what_is_not_there_has_no_node() {
        assert_eq!(of_interface("lo"), None);
        assert_eq!(of_interface("no-such-if"), None);
        assert_eq!(of_interface("../../lo"), None);
        assert_eq!(of_cpu(u16::MAX), None);
    }

    #[test]
    fn a_cpu_of_a_numa_kernel_has_the_node_that_lists_it() {
        let Ok(list) = fs::read_to_string("/sys/devices/system/node/node0/cpulist") else {
            // No NUMA in this kernel: then no CPU may claim a node.
            assert_eq!(of_cpu(0), None);
            return;
        };
        let first = list.trim().split(['-', ',']).next().and_then(|cpu| cpu.parse().ok());
        if let Some(first) = first {
            assert_eq!(of_cpu(first), Some(0));
        }
    }
}
