//! Policies of IPsec (linux/xfrm.h): what must be encrypted, or may not pass at all. The kernel
//! asks them about each packet that it takes and sends, and about no other.

use rustix::io::Errno;
use rustix::net::netlink;

use crate::SysError;
use crate::netlink::{Request, attributes, u32_at};

/// XFRM_MSG_GETSPDINFO of linux/xfrm.h, what a reply carries, and its attribute XFRMA_SPD_INFO.
const GET_COUNTS: u16 = 0x25;
const NEW_COUNTS: u16 = 0x24;
const COUNTS: u16 = 1;
/// XFRM_MSG_GETDEFAULT, which is what its reply carries as well, and XFRM_USERPOLICY_BLOCK.
const DEFAULT: u16 = 0x28;
const BLOCK: u8 = 1;

/// Policies of the calling thread's network namespace: those that name addresses, and the defaults
/// that let nothing pass. Policies of single sockets, which keep their own exchange of keys out of
/// it, are none.
///
/// # Errors
/// CAP_NET_ADMIN is missing.
pub fn policies() -> Result<usize, SysError> {
    let failed = |errno| SysError::new("look for policies of IPsec", errno, "");
    let mut count = 0;
    let counted = ask(GET_COUNTS, 4, |kind, body| {
        // u32 flags, then struct xfrmu_spdinfo: in, out, forwarded, then the same of sockets.
        let counts = attributes(body.get(4..).unwrap_or_default());
        let mut counts =
            counts.filter(|(attribute, value)| *attribute == COUNTS && value.len() >= 12);
        if let Some((_, value)) = counts.next().filter(|_| kind == NEW_COUNTS) {
            count += [0, 4, 8].map(|at| u32_at(value, at) as usize).iter().sum::<usize>();
        }
    });
    let defaults = ask(DEFAULT, 3, |kind, body| {
        // struct xfrm_userpolicy_default: in, forwarded, out.
        let blocks = body.iter().take(3).filter(|direction| **direction == BLOCK);
        count += if kind == DEFAULT { blocks.count() } else { 0 };
    });
    match (counted, defaults) {
        // A kernel without IPsec.
        (Err(Errno::PROTONOSUPPORT), _) => Ok(0),
        (Err(errno), _) => Err(failed(errno)),
        // Before Linux 5.14 there are no defaults.
        (Ok(()), Ok(()) | Err(Errno::INVAL)) => Ok(count),
        (Ok(()), Err(errno)) => Err(failed(errno)),
    }
}

fn ask(kind: u16, bytes: usize, each: impl FnMut(u16, &[u8])) -> Result<(), Errno> {
    Request::new(kind, 0, &[0; 4][..bytes.min(4)]).send_to(Some(netlink::XFRM), each)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::testing::in_fresh_namespace;

    fn xfrm(words: &str) -> bool {
        let all = ["xfrm", "policy"].into_iter().chain(words.split(' '));
        Command::new("ip").args(all).output().expect("iproute2 is there").status.success()
    }

    #[test]
    fn policies_of_ipsec_are_counted_whatever_they_want() {
        in_fresh_namespace(|| {
            assert_eq!(policies().expect("the kernel tells"), 0);
            if !xfrm("add dir in src 10.0.0.1/32 dst 10.0.0.2/32 action block") {
                eprintln!("this kernel has no IPsec: there is nothing to count");
                return;
            }
            assert_eq!(policies().expect("the kernel tells"), 1);
            assert!(xfrm(
                "add dir out src 10.0.0.2/32 dst 10.0.0.1/32 tmpl proto esp mode transport"
            ));
            assert_eq!(policies().expect("the kernel tells"), 2);
            assert!(xfrm("flush"));
            assert_eq!(policies().expect("the kernel tells"), 0);
            if xfrm("setdefault in block") {
                assert_eq!(policies().expect("the kernel tells"), 1);
            }
        });
    }
}
