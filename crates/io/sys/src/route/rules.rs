//! The rules that say which table a packet is looked up in (`ip rule`), as far as they differ from
//! those of a host that was told nothing.

use std::fmt;

use super::TABLE_MAIN;
use crate::SysError;
use crate::netlink::{NLM_F_DUMP, Request, attributes, u32_at};

/// A rule that a host without policy routing does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it is for IPv6.
    pub is_ipv6: bool,
    /// Rules of lower numbers come first.
    pub priority: u32,
    /// The table that it names; 0: none.
    pub table: u32,
    /// Whether it sends packets of interfaces in a VRF to the table of that (`l3mdev`).
    pub is_vrf: bool,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.is_ipv6 { "IPv6" } else { "IPv4" };
        write!(f, "rule {} of {version} ", self.priority)?;
        match (self.is_vrf, self.table) {
            (true, _) => write!(f, "(tables of VRFs)"),
            (false, 0) => write!(f, "(no table)"),
            (false, table) => write!(f, "(table {table})"),
        }
    }
}

/// The rules of both families beside those of a host that was told nothing, in the calling thread's
/// namespace.
///
/// # Errors
/// Netlink is not available.
pub fn rules() -> Result<Vec<Rule>, SysError> {
    let mut rules = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut message = [0; 12];
        message[0] = family as u8;
        let request = Request::new(libc::RTM_GETRULE, NLM_F_DUMP, &message);
        let dumped = request.dump(|kind, body| {
            if kind == libc::RTM_NEWRULE {
                rules.extend(parse(body));
            }
        });
        match dumped {
            Ok(_) => {}
            // A kernel without policy routing, or without that family, has no rules.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::AFNOSUPPORT) => {}
            Err(errno) => return Err(SysError::new("list the rules of routing", errno, "")),
        }
    }
    Ok(rules)
}

/// Reads struct fib_rule_hdr and its attributes (linux/fib_rules.h); `None`: it is one of the three
/// that every host has, or is cut short.
fn parse(body: &[u8]) -> Option<Rule> {
    let (fixed, rest) = body.split_at_checked(12)?;
    let is_ipv6 = i32::from(fixed[0]) == libc::AF_INET6;
    // Prefixes of destination and source, type of service, flags such as FIB_RULE_INVERT.
    let mut selects = fixed[1] != 0 || fixed[2] != 0 || fixed[3] != 0 || u32_at(fixed, 8) != 0;
    let mut rule = Rule { is_ipv6, priority: 0, table: u32::from(fixed[4]), is_vrf: false };
    for (kind, value) in attributes(rest) {
        let number = || value.try_into().ok().map(u32::from_ne_bytes);
        match kind {
            FRA_PRIORITY => rule.priority = number()?,
            FRA_TABLE => rule.table = number()?,
            FRA_L3MDEV => rule.is_vrf = value.first().is_some_and(|byte| *byte != 0),
            // Neither says which packets it is for: who made it, and two that are off as -1.
            FRA_PROTOCOL => {}
            FRA_SUPPRESS_IFGROUP | FRA_SUPPRESS_PREFIXLEN if number()? == u32::MAX => {}
            _ => selects = true,
        }
    }
    let is_usual = matches!(
        (rule.priority, rule.table),
        (0, TABLE_LOCAL) | (32_766, TABLE_MAIN) | (32_767, TABLE_DEFAULT)
    );
    let is_lookup = fixed[7] == FR_ACT_TO_TBL;
    (selects || rule.is_vrf || !is_usual || !is_lookup).then_some(rule)
}

const TABLE_LOCAL: u32 = 255;
const TABLE_DEFAULT: u32 = 253;
/// Of linux/fib_rules.h; libc has no names for them.
const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_PROTOCOL: u16 = 21;
const FRA_L3MDEV: u16 = 19;
const FR_ACT_TO_TBL: u8 = 1;
