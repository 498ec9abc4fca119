//! Which memory is near: the NUMA node of an interface and of a CPU, as sysfs tells, and of memory.

use std::fs;
use std::ptr::NonNull;

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

/// Modes and flags of linux/mempolicy.h.
const MPOL_DEFAULT: libc::c_int = 0;
const MPOL_PREFERRED: libc::c_int = 1;
const MPOL_F_NODE: libc::c_ulong = 1 << 0;
const MPOL_F_ADDR: libc::c_ulong = 1 << 1;

/// Nodes that a kernel can be built for (CONFIG_NODES_SHIFT of 10).
const NODES_MAX: usize = 1024;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;
type Nodes = [libc::c_ulong; NODES_MAX / WORD_BITS];

/// Runs `work` so that memory which it touches first comes from `node` while that has some;
/// wherever it would have come from when the kernel knows nothing of nodes.
pub fn prefer<T>(node: Option<u16>, work: impl FnOnce() -> T) -> T {
    let before = node.filter(|&node| usize::from(node) < NODES_MAX).and_then(|node| {
        let before = policy()?;
        let mut nodes: Nodes = [0; _];
        nodes[usize::from(node) / WORD_BITS] |= 1 << (usize::from(node) % WORD_BITS);
        set_policy(MPOL_PREFERRED, &nodes).then_some(before)
    });
    let result = work();
    if let Some((mode, nodes)) = before {
        set_policy(mode, &nodes);
    }
    result
}

/// The node that holds the page of a byte that was touched; `None`: the kernel does not tell.
pub fn of_memory(byte: NonNull<u8>) -> Option<u16> {
    let mut node: libc::c_int = -1;
    let flags = MPOL_F_NODE | MPOL_F_ADDR;
    // SAFETY: the kernel writes one int, and of the address looks up the page only.
    let result = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut node, 0usize, 0usize, byte.as_ptr(), flags)
    };
    if result == 0 { u16::try_from(node).ok() } else { None }
}

/// The thread's policy and its nodes.
fn policy() -> Option<(libc::c_int, Nodes)> {
    let (mut mode, mut nodes) = (MPOL_DEFAULT, Nodes::default());
    // SAFETY: the kernel writes one int, and as many bits as `nodes` has.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            nodes.as_mut_ptr(),
            NODES_MAX,
            0usize,
            0usize,
        )
    };
    (result == 0).then_some((mode, nodes))
}

fn set_policy(mode: libc::c_int, nodes: &Nodes) -> bool {
    // The default takes no nodes.
    let nodes = if mode == MPOL_DEFAULT { std::ptr::null() } else { nodes.as_ptr() };
    // SAFETY: the kernel reads as many bits as a `Nodes` has, if there is one.
    unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, nodes, NODES_MAX) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_touched_with_a_preference_lies_on_that_node_and_the_policy_is_as_before() {
        let Some(before) = policy() else {
            // No NUMA in this kernel: the work is done all the same.
            assert_eq!(prefer(Some(0), || 7), 7);
            return;
        };
        let mut page = prefer(Some(0), || vec![1u8; 1 << 16]);
        assert_eq!(of_memory(NonNull::from(&mut page[1 << 15])), Some(0));
        assert_eq!(policy(), Some(before));
        assert_eq!(prefer(Some(u16::MAX), || 7), 7, "there is no such node");
        assert_eq!(policy(), Some(before));
    }

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
