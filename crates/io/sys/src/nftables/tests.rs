//! Rules, chains and tables that are made, and found.

use base::Nanos;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};

use super::*;
use crate::poll::wait_readable;
use crate::testing::in_fresh_namespace;

const CREATE_AND_ACK: u16 = 0x405;
const APPEND: u16 = 0x800;

/// struct nfgenmsg of IPv4.
const IPV4: [u8; 4] = [2, 0, 0, 0];

fn message(kind: u16, flags: u16, fixed: [u8; 4], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = fixed.to_vec();
    body.extend(nested(attributes));
    let length = (body.len() as u32 + 16).to_ne_bytes();
    let head = [&length[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8]].concat();
    [head, body].concat()
}

fn nested(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(kind, value) in attributes {
        bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// The messages as the one transaction that the kernel takes.
fn transact(messages: &[Vec<u8>]) {
    // For a batch the subsystem stands where else the family does.
    let batch = [0, 0, 0, 10];
    let begin = message(0x10, 1, batch, &[]);
    let end = message(0x11, 1, batch, &[]);
    let all = [&[begin][..], messages, &[end]].concat().concat();
    let subsystem = Some(netlink::NETFILTER);
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, subsystem)
        .expect("this kernel has netfilter");
    rustix::net::send(&socket, &all, SendFlags::empty()).expect("it is short");
    for _ in messages {
        let mut reply = [0u8; 256];
        rustix::net::recv(&socket, &mut reply[..], RecvFlags::empty()).expect("each is acked");
        assert_eq!(reply[16..20], [0; 4], "no error");
    }
}

fn table() -> Vec<u8> {
    message(SUBSYSTEM, CREATE_AND_ACK, IPV4, &[(1, b"t\0")])
}

/// A table with a chain with a rule.
fn make_rule() {
    transact(&[
        table(),
        message(NEW_CHAIN, CREATE_AND_ACK, IPV4, &[(1, b"t\0"), (3, b"c\0")]),
        message(NEW_RULE, CREATE_AND_ACK | APPEND, IPV4, &[(1, b"t\0"), (2, b"c\0")]),
    ]);
}

/// A table with a chain on the hook of input, without a rule; its policy is 0, to drop, or 1, to
/// accept.
fn make_chain(policy: u32) {
    // NF_INET_LOCAL_IN at priority zero.
    let hook = nested(&[(1, &1u32.to_be_bytes()), (2, &[0; 4])]);
    let policy = policy.to_be_bytes();
    let chain: [(u16, &[u8]); 5] =
        [(1, b"t\0"), (3, b"in\0"), (4 | 1 << 15, &hook), (5, &policy), (7, b"filter\0")];
    transact(&[table(), message(NEW_CHAIN, CREATE_AND_ACK, IPV4, &chain)]);
}

#[test]
fn a_fresh_namespace_holds_no_rules_until_one_is_made() {
    in_fresh_namespace(|| {
        assert_eq!(guards(), Ok(Guards::default()));
        make_rule();
        assert_eq!(guards(), Ok(Guards { rules: 1, ..Guards::default() }));
        make_rule();
        assert_eq!(guards(), Ok(Guards { rules: 2, ..Guards::default() }));
    });
}

#[test]
fn a_chain_that_drops_guards_without_any_rule_and_one_that_accepts_does_not() {
    in_fresh_namespace(|| {
        make_chain(1);
        assert_eq!(guards(), Ok(Guards::default()));
    });
    in_fresh_namespace(|| {
        make_chain(0);
        assert_eq!(guards(), Ok(Guards { dropping_chains: 1, ..Guards::default() }));
    });
}

#[test]
fn changes_are_told_and_only_once() {
    in_fresh_namespace(|| {
        let mut changes = RuleChanges::watch().expect("this kernel has netfilter");
        assert!(!changes.take());
        make_rule();
        let descriptor = changes.descriptor().expect("this kernel has nf_tables");
        assert!(wait_readable(descriptor, Nanos::from_secs(20)));
        assert!(changes.take());
        assert!(!changes.take());
    });
}

#[test]
fn tables_of_the_older_filters_are_counted_by_their_names() {
    assert_eq!(legacy_tables("no_such_tables_names"), Ok(0), "the module is not there");
    in_fresh_namespace(|| {
        let names = std::fs::read_to_string("/proc/thread-self/net/ip_tables_names");
        let count = names.map_or(0, |names| names.lines().count());
        assert_eq!(legacy_tables("ip_tables_names"), Ok(count));
        assert_eq!(legacy_tables("dev").map(|lines| lines > 2), Ok(true), "any list of lines");
    });
}
