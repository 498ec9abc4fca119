//! acl: permits or denies packets by rules; the first rule that matches decides.
//!
//! WHAT IT DOES
//!   Each packet is held against the rules in their order: source, destination, protocol, ports.
//!   The first rule that matches permits it (the next function decides) or denies it (it is
//!   dropped); when none does the default decides. Nothing is remembered from one packet to the
//!   next. The headers are found behind up to two VLAN tags, IPv4 options and IPv6 extension
//!   headers; a packet whose headers cannot be read for sure is dropped, whatever the rules are.
//!
//! PARAMETERS
//!   default            "permit" or "deny": what becomes of a packet that no rule matches; deny
//!   not_ip             the same for frames that hold neither IPv4 nor IPv6, such as ARP; permit
//!   host               "kernel": with a router, what is for an address of this host is the
//!                      kernel's, whatever the rules are; or "judge": what they deny of it is
//!                      dropped; kernel
//!   rules              in order, at most 4096, each with
//!     action           "permit" or "deny"
//!     source           a prefix such as 10.0.0.0/8; any
//!     destination      the same
//!     protocol         a name (tcp, udp, icmp, icmpv6, esp, sctp) or a number; any
//!     source_port      a port or a range such as 8000-8080; any
//!     destination_port the same
//!
//! COUNTERS
//!   permitted, denied, denied_by_default, not_ip_permitted, not_ip_denied, tiny_fragment,
//!   unreadable; and rule_1, rule_2, ...: how often each rule decided. Each has a sentence in the
//!   statistics.
//!
//! STANDARDS
//!   RFC 1858 and RFC 3128: a first fragment without its ports, and a TCP fragment that would
//!   overwrite the first one's flags, are dropped. RFC 7045 section 2.1: extension headers are
//!   passed over, not judged.
//!
//! LIMITS
//!   It judges what no function before it has sent on or dropped: put it before router and l2.
//!   With host = "judge" nothing is remembered either: rules must permit the answers to what the
//!   host itself asks. Neighbour discovery, broadcasts, groups and frames of a VLAN are the
//!   kernel's all the same, and IPv6 packets for the host with extension headers are dropped,
//!   fragments among them. Its ports must be xdp ports, and with more rules than the filter of
//!   these has room for (about 100) the chain does not begin. Later fragments have no ports: a rule
//!   with ports does not match them. Put a rule without ports where they are to pass; without their
//!   first fragment they are of no use to anybody. The time for a packet grows with the rules
//!   before the one that matches, so put those first that match most.
//!   In the hook (`hook = "auto"`) it is where only other acls are before it, with 256 rules of all
//!   of them together. What it denies there is dropped there; where no router follows in the hook,
//!   what it permits the slice judges again, and counts (hook_permitted).

use std::fmt;
use std::sync::Arc;

use base::Nanos;
use shm::Batch;

use crate::function::EachNamed;
use crate::headers::{Headers, Unread};
use crate::selector::{Compiled, Key};
use crate::{Function, Selector, SelectorError, Verdict, Verdicts};

/// The most rules that are taken: a packet that matches none is held against all of them.
pub const RULES_MAX: usize = 4096;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The next function decides.
    Permit,
    /// It is dropped.
    Deny,
}

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What becomes of packets that match.
    pub action: Action,
    /// Which packets match.
    pub selector: Selector,
}

/// The function.
#[derive(Debug)]
pub struct Acl {
    rules: Vec<(Compiled, Action)>,
    /// How often each rule decided.
    hits: Vec<u64>,
    /// What each rule is called, and what it says.
    names: Arc<[[Arc<str>; 2]]>,
    default: Action,
    not_ip: Action,
    counters: AclCounters,
}

counters! {
    /// What an [`Acl`] has counted.
    AclCounters {
        /// Packets that a rule or the default let pass.
        permitted,
        /// Packets that a rule denied, dropped.
        denied,
        /// Packets that no rule matched and the default denied, dropped.
        denied_by_default,
        /// Frames that hold neither IPv4 nor IPv6 and were let pass.
        not_ip_permitted,
        /// Frames that hold neither IPv4 nor IPv6, dropped.
        not_ip_denied,
        /// Fragments cut so that ports or flags are in another one than they should be, dropped.
        tiny_fragment,
        /// Packets whose headers cannot be read for sure, dropped.
        unreadable,
    }
}

impl Acl {
    /// Judges by the rules `given`, and by `default` where none matches; `not_ip` is for frames
    /// without IP.
    ///
    /// # Errors
    /// Too many rules, or one that no packet can match, with its place among them (from zero).
    pub fn new(given: &[Rule], default: Action, not_ip: Action) -> Result<Self, AclError> {
        if given.len() > RULES_MAX {
            return Err(AclError::TooMany(given.len()));
        }
        let compile = |(index, rule): (usize, &Rule)| match rule.selector.compile() {
            Ok(selector) => Ok((selector, rule.action)),
            Err(error) => Err(AclError::Rule { index, error }),
        };
        let rules: Vec<_> = given.iter().enumerate().map(compile).collect::<Result<_, _>>()?;
        let hits = vec![0; rules.len()];
        let names = (1..).zip(given).map(|(number, rule)| {
            [format!("rule_{number}").into(), format!("Packets that met: {rule}.").into()]
        });
        let (names, counters) = (names.collect(), AclCounters::default());
        Ok(Self { rules, hits, names, default, not_ip, counters })
    }

    /// What has been counted so far.
    pub fn counts(&self) -> &AclCounters {
        &self.counters
    }

    /// How often each rule decided, in their order.
    pub fn hits(&self) -> &[u64] {
        &self.hits
    }

    /// Goes on counting where `before`, whose place it takes, has come to; rules that are the same
    /// keep their hits.
    pub fn take_over(&mut self, before: &Self) {
        self.counters = before.counters;
        let mut next = 0;
        for (place, [_, says]) in self.names.iter().enumerate() {
            // In order: of rules that say the same the first is the first.
            let rest = before.names.get(next..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|[_, other]| other == says) {
                self.hits[place] = before.hits[next + at];
                next += at + 1;
            }
        }
    }

    #[inline]
    fn judge(&mut self, frame: &[u8]) -> Action {
        let headers = match Headers::read(frame) {
            Ok(headers) => headers,
            Err(unread) => return self.judge_unread(unread),
        };
        let key = Key::from(&headers);
        let found = self.rules.iter().position(|(selector, _)| selector.matches(&key));
        let action = match found {
            Some(index) => {
                self.hits[index] += 1;
                self.rules[index].1
            }
            None => self.default,
        };
        match (action, found) {
            (Action::Permit, _) => self.counters.permitted += 1,
            (Action::Deny, Some(_)) => self.counters.denied += 1,
            (Action::Deny, None) => self.counters.denied_by_default += 1,
        }
        action
    }

    fn judge_unread(&mut self, unread: Unread) -> Action {
        let (counter, action) = match (unread, self.not_ip) {
            (Unread::NotIp, Action::Permit) => {
                (&mut self.counters.not_ip_permitted, Action::Permit)
            }
            (Unread::NotIp, Action::Deny) => (&mut self.counters.not_ip_denied, Action::Deny),
            (Unread::TinyFragment, _) => (&mut self.counters.tiny_fragment, Action::Deny),
            (Unread::Unreadable, _) => (&mut self.counters.unreadable, Action::Deny),
        };
        *counter += 1;
        action
    }
}

impl Function for Acl {
    fn name(&self) -> &'static str {
        "acl"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, _now: Nanos) {
        for (_, frame, verdict) in verdicts.undecided(batch) {
            if self.judge(frame.bytes()) == Action::Deny {
                *verdict = Verdict::Drop;
            }
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
    }

    fn named_counters(&self, each: EachNamed<'_>) {
        for ([name, help], hits) in self.names.iter().zip(&self.hits) {
            each(name, help, *hits);
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Permit { "permit" } else { "deny" })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, self.selector)
    }
}

/// Rules that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclError {
    /// More than [`RULES_MAX`].
    TooMany(usize),
    /// No packet can match one of them.
    Rule {
        /// Its place, from zero.
        index: usize,
        /// Why.
        error: SelectorError,
    },
}

impl fmt::Display for AclError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(rules) => write!(f, "{rules} rules are too many: {RULES_MAX} at most"),
            Self::Rule { index, error } => write!(f, "rule {}: {error}", index + 1),
        }
    }
}

impl std::error::Error for AclError {}

#[cfg(test)]
mod tests;
