//! Whether packet filters guard this host: rules and policies of nf_tables
//! (linux/netfilter/nf_tables.h), and tables of the filters before it (ip_tables, ip6_tables).
//!
//! The command iptables of today keeps its rules in nf_tables; iptables-legacy does not.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::netlink;

use crate::SysError;
use crate::netlink::{Groups, Heard, NLM_F_DUMP, Request, attributes};

/// NFNL_SUBSYS_NFTABLES of linux/netfilter/nfnetlink.h.
const SUBSYSTEM: u16 = 10 << 8;
/// NFT_MSG_GETRULE, and what a reply carries.
const GET_RULE: u16 = SUBSYSTEM | 7;
const NEW_RULE: u16 = SUBSYSTEM | 6;
/// NFT_MSG_GETCHAIN, and what a reply carries.
const GET_CHAIN: u16 = SUBSYSTEM | 4;
const NEW_CHAIN: u16 = SUBSYSTEM | 3;

/// What guards the calling thread's network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    /// Rules of nf_tables.
    pub rules: usize,
    /// Base chains of nf_tables that drop what no rule accepts: with no rule at all they drop
    /// everything.
    pub dropping_chains: usize,
    /// Tables of ip_tables and ip6_tables. What is in them is not asked: whoever has one of these
    /// has used it.
    pub legacy_tables: usize,
}

impl Guards {
    /// Whether there is any.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// What guards the calling thread's network namespace; nothing where the kernel has no packet
/// filter.
///
/// # Errors
/// CAP_NET_ADMIN is missing, or the rules changed while they were read: what they are is not known.
pub fn guards() -> Result<Guards, SysError> {
    let failed = |errno| {
        let advice = match errno {
            Errno::PERM => "CAP_NET_ADMIN is needed: run as root",
            _ => "",
        };
        SysError::new("look for packet filter rules", errno, advice)
    };
    let mut guards = Guards::default();
    dump(GET_RULE, |kind, _| guards.rules += usize::from(kind == NEW_RULE)).map_err(failed)?;
    dump(GET_CHAIN, |kind, body| {
        guards.dropping_chains += usize::from(kind == NEW_CHAIN && drops(body));
    })
    .map_err(failed)?;
    for names in ["ip_tables_names", "ip6_tables_names"] {
        guards.legacy_tables += legacy_tables(names).map_err(failed)?;
    }
    Ok(guards)
}

fn dump(kind: u16, each: impl FnMut(u16, &[u8])) -> Result<(), Errno> {
    // struct nfgenmsg: every family, version 0, resource 0.
    let request = Request::new(kind, NLM_F_DUMP, &[0; 4]);
    match request.dump_from(Some(netlink::NETFILTER), each) {
        Ok(false) => Ok(()),
        // Rules were changed meanwhile.
        Ok(true) => Err(Errno::INTR),
        // No netfilter at all, or no nf_tables in it.
        Err(Errno::PROTONOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Whether a chain hangs on a hook and drops by policy.
fn drops(body: &[u8]) -> bool {
    /// NFTA_CHAIN_HOOK and NFTA_CHAIN_POLICY; NF_DROP of linux/netfilter.h.
    const HOOK: u16 = 4;
    const POLICY: u16 = 5;
    const DROP: [u8; 4] = [0; 4];
    // Behind struct nfgenmsg.
    let all = || attributes(body.get(4..).unwrap_or_default());
    all().any(|(kind, _)| kind == HOOK)
        && all().any(|(kind, value)| kind == POLICY && value == DROP)
}

fn legacy_tables(names: &str) -> Result<usize, Errno> {
    match std::fs::read_to_string(format!("/proc/thread-self/net/{names}")) {
        Ok(text) => Ok(text.lines().count()),
        // The module is not there.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

/// Says when rules and chains of nf_tables have changed. Of older filters the kernel tells nothing.
#[derive(Debug)]
pub struct RuleChanges {
    /// None: this kernel has no nf_tables.
    groups: Option<Groups>,
}

/// Room for what is not read yet; where it is too short, that something changed is known all the
/// same.
const BUFFER_BYTES: usize = 256 << 10;

/// Datagrams read in one [`RuleChanges::take`]: a storm of changes must not keep us.
const DATAGRAMS_MAX: usize = 256;

impl RuleChanges {
    /// Hears of the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// Descriptors are short, or the kernel refuses.
    pub fn watch() -> Result<Self, SysError> {
        /// The bit of NFNLGRP_NFTABLES, group 7.
        const NFTABLES: u32 = 1 << 6;
        match Groups::join(Some(netlink::NETFILTER), NFTABLES, BUFFER_BYTES) {
            Ok(groups) => Ok(Self { groups: Some(groups) }),
            Err(Errno::PROTONOSUPPORT) => Ok(Self { groups: None }),
            Err(errno) => Err(SysError::new("watch for packet filter rules", errno, "")),
        }
    }

    /// Whether anything has changed since the last call; never waits.
    pub fn take(&mut self) -> bool {
        let Some(groups) = &mut self.groups else { return false };
        let mut has_changed = false;
        for _ in 0..DATAGRAMS_MAX {
            match groups.next(|_, _| ()) {
                Heard::Messages | Heard::Lost => has_changed = true,
                Heard::Nothing => break,
            }
        }
        has_changed
    }

    /// Readable when something may have changed; nothing on a kernel that has no nf_tables.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.groups.as_ref().map(AsFd::as_fd)
    }
}

#[cfg(test)]
mod tests;
