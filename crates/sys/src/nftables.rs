//! How many packet filter rules there are, as nf_tables tells (linux/netfilter/nf_tables.h).
//!
//! The command iptables of today keeps its rules there as well.

use rustix::io::Errno;
use rustix::net::netlink;

use crate::SysError;
use crate::netlink::{NLM_F_DUMP, Request};

/// How many rules all tables of the calling thread's network namespace hold; 0 where the kernel
/// has no nf_tables.
///
/// # Errors
/// CAP_NET_ADMIN is missing.
pub fn rules() -> Result<usize, SysError> {
    /// NFNL_SUBSYS_NFTABLES and NFT_MSG_GETRULE; a reply carries NFT_MSG_NEWRULE.
    const SUBSYSTEM: u16 = 10 << 8;
    const GET_RULE: u16 = SUBSYSTEM | 7;
    const NEW_RULE: u16 = SUBSYSTEM | 6;
    // struct nfgenmsg: every family, version 0, resource 0.
    let request = Request::new(GET_RULE, NLM_F_DUMP, &[0; 4]);
    let mut count = 0;
    match request
        .send_to(Some(netlink::NETFILTER), |kind, _| count += usize::from(kind == NEW_RULE))
    {
        Ok(()) => Ok(count),
        // No netfilter at all, or no nf_tables in it.
        Err(Errno::PROTONOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP) => Ok(0),
        Err(errno) => {
            let advice = "CAP_NET_ADMIN is needed: run as root";
            Err(SysError::new("count the packet filter rules", errno, advice))
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};

    use super::*;
    use crate::testing::in_fresh_namespace;

    /// A table with a chain with a rule, as the one transaction that the kernel takes.
    fn make_rule() {
        const CREATE_AND_ACK: u16 = 0x405;
        const APPEND: u16 = 0x800;
        let message = |kind: u16, flags: u16, fixed: [u8; 4], attributes: &[(u16, &[u8])]| {
            let mut body = fixed.to_vec();
            for &(kind, value) in attributes {
                body.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
                body.extend_from_slice(&kind.to_ne_bytes());
                body.extend_from_slice(value);
                body.resize(body.len().next_multiple_of(4), 0);
            }
            let length = (body.len() as u32 + 16).to_ne_bytes();
            let head = [&length[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8]].concat();
            [head, body].concat()
        };
        // struct nfgenmsg: for a batch the subsystem, else IPv4.
        let (batch, ipv4) = ([0, 0, 0, 10], [2, 0, 0, 0]);
        let table: (u16, &[u8]) = (1, b"t\0");
        let all = [
            message(0x10, 1, batch, &[]),
            message(10 << 8, CREATE_AND_ACK, ipv4, &[table]),
            message(10 << 8 | 3, CREATE_AND_ACK, ipv4, &[table, (3, b"c\0")]),
            message(10 << 8 | 6, CREATE_AND_ACK | APPEND, ipv4, &[table, (2, b"c\0")]),
            message(0x11, 1, batch, &[]),
        ];
        let subsystem = Some(netlink::NETFILTER);
        let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, subsystem)
            .expect("this kernel has netfilter");
        rustix::net::send(&socket, &all.concat(), SendFlags::empty()).expect("it is short");
        for _ in 0..3 {
            let mut reply = [0u8; 256];
            rustix::net::recv(&socket, &mut reply[..], RecvFlags::empty()).expect("each is acked");
            assert_eq!(reply[16..20], [0; 4], "no error");
        }
    }

    #[test]
    fn a_fresh_namespace_holds_no_rules_until_one_is_made() {
        in_fresh_namespace(|| {
            assert_eq!(rules(), Ok(0));
            make_rule();
            assert_eq!(rules(), Ok(1));
            make_rule();
            assert_eq!(rules(), Ok(2));
        });
    }
}
