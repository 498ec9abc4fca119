//! Filters beside those of netfilter: of traffic control at an interface (tc(8): classifiers, and
//! BPF programs of tcx), and BPF programs that choose who gets a packet (sk_lookup).

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::netlink::{NLM_F_DUMP, Request};
use crate::{SysError, bpf_query};

/// RTM_GETTFILTER of linux/rtnetlink.h, and what a reply carries.
const GET_FILTER: u16 = 46;
const NEW_FILTER: u16 = 44;

/// Where classifiers hang (linux/pkt_sched.h): at the root's queueing discipline, before what comes
/// in, and before what goes out.
const PARENTS: [u32; 3] = [0, 0xffff_fff2, 0xffff_fff3];

/// BPF_TCX_INGRESS, BPF_TCX_EGRESS and BPF_SK_LOOKUP of enum bpf_attach_type.
const TCX: [u32; 2] = [46, 47];
const SK_LOOKUP: u32 = 36;

/// Filters at the interface of that number in the calling thread's network namespace, whatever they
/// do: what AF_XDP takes and sends never meets one. None if there is no such interface any more.
///
/// # Errors
/// The kernel does not tell, or they changed while they were read; CAP_NET_ADMIN is missing.
pub fn at_interface(interface: u32) -> Result<usize, SysError> {
    let failed =
        |errno| SysError::new(format!("look for tc filters of interface {interface}"), errno, "");
    let mut count = 0;
    for parent in PARENTS {
        match filters(interface, parent, &mut count) {
            Ok(false) => {}
            Ok(true) => return Err(failed(Errno::INTR)),
            // No such interface; or a kernel without traffic control.
            Err(Errno::NODEV | Errno::OPNOTSUPP | Errno::INVAL) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    for kind in TCX {
        match bpf_query::count(interface, kind, 0) {
            Ok(programs) => count += programs as usize,
            // No such interface; or a kernel before 6.6, which has none.
            Err(Errno::NODEV | Errno::NOENT | Errno::INVAL) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(count)
}

/// BPF programs that choose the socket of each packet and connection of a network namespace, by a
/// descriptor of it (`/proc/PID/ns/net`).
///
/// # Errors
/// The kernel does not tell; CAP_NET_ADMIN is missing.
pub fn of_lookups(namespace: BorrowedFd<'_>) -> Result<usize, SysError> {
    match bpf_query::count(namespace.as_raw_fd() as u32, SK_LOOKUP, 0) {
        Ok(programs) => Ok(programs as usize),
        // A kernel before 5.9, which has none.
        Err(Errno::INVAL) => Ok(0),
        Err(errno) => Err(SysError::new("look for BPF programs of socket look-ups", errno, "")),
    }
}

/// Adds to `count` the filters at one place; whether they changed meanwhile.
fn filters(interface: u32, parent: u32, count: &mut usize) -> Result<bool, Errno> {
    // struct tcmsg: family and padding, then interface, handle, parent and info.
    let mut fixed = [0; 20];
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    fixed[12..16].copy_from_slice(&parent.to_ne_bytes());
    let request = Request::new(GET_FILTER, NLM_F_DUMP, &fixed);
    request.dump(|kind, _| *count += usize::from(kind == NEW_FILTER))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::process::Command;

    use super::*;
    use crate::testing::{in_fresh_namespace, ip};

    fn tc(words: &str) {
        let done = Command::new("tc").args(words.split(' ')).output().expect("iproute2 is there");
        assert!(done.status.success(), "tc {words}: {}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn filters_of_traffic_control_are_found_wherever_they_hang() {
        in_fresh_namespace(|| {
            ip("link add filtered type veth peer name other");
            let interface = crate::interface::by_name("filtered").expect("it was made").index;
            let none = at_interface(interface).expect("the kernel tells");
            assert_eq!(none, 0);
            tc("qdisc add dev filtered clsact");
            assert_eq!(
                at_interface(interface).expect("the kernel tells"),
                0,
                "nothing hangs there"
            );
            for hook in ["ingress", "egress"] {
                tc(&format!(
                    "filter add dev filtered {hook} protocol ip u32 match u32 0 0 flowid 1:1"
                ));
                assert!(at_interface(interface).expect("the kernel tells") > 0, "{hook}");
                tc(&format!("filter del dev filtered {hook}"));
                assert_eq!(at_interface(interface).expect("the kernel tells"), 0);
            }
            tc("qdisc add dev filtered root handle 1: htb");
            tc("filter add dev filtered parent 1: protocol ip u32 match u32 0 0 flowid 1:1");
            assert!(at_interface(interface).expect("the kernel tells") > 0, "of the root");
            ip("link del filtered");
            assert_eq!(at_interface(interface).expect("nothing is there"), 0);
            let own = std::fs::File::open("/proc/thread-self/ns/net").expect("a namespace");
            assert_eq!(of_lookups(own.as_fd()).expect("the kernel tells"), 0);
        });
    }
}
