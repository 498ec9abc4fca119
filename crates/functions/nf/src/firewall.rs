//! firewall: lets connections begin where rules permit it, and what belongs to them pass both ways.
//!
//! WHAT IT DOES
//!   A packet of a connection that was permitted passes, whatever the rules say of it: replies, and
//!   ICMP errors about packets of the connection too. One that begins a connection is held against
//!   the rules in their order: the zone that it comes from, source, destination, protocol, ports.
//!   The first rule that matches permits or denies it; when none does the default decides. All else
//!   is dropped: TCP that begins in the middle or is outside of its windows, ICMP that answers
//!   nothing, later fragments whose first one has not passed, headers that cannot be read for sure.
//!   With one rule, `from = "inside"` and `action = "permit"`, it is the simple security of RFC
//!   6092.
//!
//! PARAMETERS
//!   default            "permit" or "deny": what becomes of a first packet that no rule matches; deny
//!   not_ip             the same for frames that hold neither IPv4 nor IPv6, and for neighbour
//!                      discovery, which bridged hosts need as they need ARP; permit
//!   connections        connections that each slice has room for, 1 to 16777216; 262144
//!   unanswered_each    of one source (an IPv4 address, an IPv6 /64), those that nobody has
//!                      answered, of TCP those whose handshake is not over; 4096
//!   picks_up           whether TCP connections that began before are taken up; false
//!   zones              at most 16, each with a name and the ports that are of it
//!   groups             at most 256, each with a name and prefixes
//!   rules              in order, at most 4096, each with
//!     action           "permit" or "deny"
//!     from             the zone that the connection begins in; any
//!     source           a prefix such as 10.0.0.0/8; any
//!     source_group     the name of a group instead
//!     destination, destination_group   likewise
//!     protocol         a name (tcp, udp, icmp, icmpv6, esp, sctp) or a number; any
//!     source_port      a port or a range such as 8000-8080; any
//!     destination_port the same
//!
//! COUNTERS
//!   established, related, opened (passed); denied, denied_by_default, table_full, source_full,
//!   invalid_tcp, invalid_window, invalid_icmp, invalid_fragment, tiny_fragment, unreadable,
//!   not_ip_denied (dropped); not_ip_permitted; connections; and rule_1, rule_2, ...: how often
//!   each rule decided. Each has a sentence in the statistics.
//!
//! STANDARDS
//!   RFC 6092 (simple security), RFC 9293 (TCP), RFC 5508 section 4 (ICMP errors), RFC 5927
//!   (attacks by them), RFC 5961 (resets), RFC 1858 and 3128 (tiny fragments). Timeouts are those
//!   of Linux: 5 days for TCP in use, 120 s for a SYN, 30 s for UDP, 120 s once it goes both ways.
//!
//! LIMITS
//!   Each slice tracks what it sees: both directions of a connection must come to one slice, as
//!   they do with one slice, or with NICs whose hash is symmetric. Put it before router, whose own
//!   packets it does not see; with one the chain gets nothing that is for an address of this host:
//!   guard the host itself with nftables. A connection that was permitted outlives a reload that
//!   would deny it. Sequence numbers are held against windows, checksums are not verified.
//!   Protocols that name ports in their payload (FTP in active mode, SIP) have no help. A
//!   connection takes 112 bytes at most. When all are in use, one of 32 drawn at random gives way
//!   that nobody has answered, whose one question was answered, or that both ends have ended.

mod rule;

use std::fmt;
use std::sync::Arc;

use base::{Nanos, PortId};
use shm::Batch;

use crate::acl::{Action, RULES_MAX};
use crate::function::EachNamed;
use crate::headers::Headers;
use crate::selector::Key;
use crate::track::{Invalid, Packet, Refused, Seen, Track, TrackSettings, Unread};
use crate::{Function, SelectorError, Verdict, Verdicts};

pub use rule::FirewallRule;
use rule::{CompiledRule, compile};

/// Zones, at most.
pub const ZONES_MAX: usize = 16;
/// Pairs of a source and a destination of all rules, groups written out: a first packet is held
/// against them in turn.
pub const PAIRS_MAX: usize = 1 << 14;

/// What an operator may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirewallSettings {
    /// In the order in which they are looked at.
    pub rules: Vec<FirewallRule>,
    /// Where no rule matches.
    pub default: Action,
    /// For frames without IP.
    pub not_ip: Action,
    /// The ports of each zone.
    pub zones: Vec<Vec<PortId>>,
    /// How connections are kept.
    pub track: TrackSettings,
}

/// The function.
#[derive(Debug)]
pub struct Firewall {
    rules: Vec<CompiledRule>,
    hits: Vec<u64>,
    names: Arc<[[Arc<str>; 2]]>,
    default: Action,
    not_ip: Action,
    /// By the number of the port.
    zones: Vec<Option<u8>>,
    settings: TrackSettings,
    track: Track,
    counters: FirewallCounters,
}

counters! {
    /// What a [`Firewall`] has counted.
    FirewallCounters {
        /// Packets of connections that were permitted, passed.
        established,
        /// ICMP errors about such packets, passed.
        related,
        /// Packets that began a connection, passed.
        opened,
        /// Packets whose connection a rule denied, dropped.
        denied,
        /// Packets whose connection no rule matched and the default denied, dropped.
        denied_by_default,
        /// Packets that would have begun a connection when all were in use, dropped.
        table_full,
        /// Packets that would have begun a connection of a source with too many unanswered ones,
        /// dropped.
        source_full,
        /// TCP that begins in the middle, or with flags that nobody sends, dropped.
        invalid_tcp,
        /// TCP outside of what the other end can expect, dropped.
        invalid_window,
        /// ICMP that answers nothing, or complains about no known connection, dropped.
        invalid_icmp,
        /// Later fragments whose first one has not passed, dropped.
        invalid_fragment,
        /// Fragments cut so that ports or flags are in another one than they should be, dropped.
        tiny_fragment,
        /// Packets whose headers cannot be read for sure, dropped.
        unreadable,
        /// Frames that hold neither IPv4 nor IPv6, or are of neighbour discovery, and were let
        /// pass.
        not_ip_permitted,
        /// Frames that hold neither IPv4 nor IPv6, dropped.
        not_ip_denied,
    }
}

impl Firewall {
    /// Judges by these settings.
    ///
    /// # Errors
    /// Too many rules, or one that no packet can match.
    pub fn new(settings: &FirewallSettings) -> Result<Self, FirewallError> {
        let FirewallSettings { rules: given, default, not_ip, zones, track } = settings;
        if given.len() > RULES_MAX || zones.len() > ZONES_MAX {
            return Err(FirewallError::TooMany);
        }
        let mut pairs = 0;
        let mut rules = Vec::with_capacity(given.len());
        for (index, rule) in given.iter().enumerate() {
            let compiled = compile(rule).map_err(|error| FirewallError::Rule { index, error })?;
            pairs += compiled.selectors.len();
            if pairs > PAIRS_MAX {
                return Err(FirewallError::TooMany);
            }
            rules.push(compiled);
        }
        let names = (1..).zip(given).map(|(number, rule)| {
            [format!("rule_{number}").into(), format!("Connections that met: {rule}.").into()]
        });
        Ok(Self {
            hits: vec![0; rules.len()],
            rules,
            names: names.collect(),
            default: *default,
            not_ip: *not_ip,
            zones: by_port(zones),
            settings: *track,
            track: Track::new(track),
            counters: FirewallCounters::default(),
        })
    }

    /// Goes on with the connections and the counters of `before`, whose place it takes; rules that
    /// are the same keep their hits. The connections begin anew only where their table is to be of
    /// another kind.
    pub fn take_over(&mut self, before: &mut Self) {
        self.counters = before.counters;
        let seed = before.settings.seed;
        if before.settings == (TrackSettings { seed, ..self.settings }) {
            std::mem::swap(&mut self.track, &mut before.track);
            self.settings.seed = seed;
        }
        let mut next = 0;
        for (place, [_, says]) in self.names.iter().enumerate() {
            let rest = before.names.get(next..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|[_, other]| other == says) {
                self.hits[place] = before.hits[next + at];
                next += at + 1;
            }
        }
    }

    /// What has been counted so far.
    pub fn counts(&self) -> &FirewallCounters {
        &self.counters
    }

    /// How often each rule decided, in their order.
    pub fn hits(&self) -> &[u64] {
        &self.hits
    }

    /// Connections that there are.
    pub fn connections(&self) -> usize {
        self.track.len()
    }

    /// Whether the packet in this frame passes.
    #[inline]
    pub(crate) fn admits(&mut self, frame: &[u8], port: PortId, now: Nanos) -> bool {
        let packet = match Packet::read(frame) {
            Ok(packet) => packet,
            Err(unread) => return self.admits_unread(unread),
        };
        let counters = &mut self.counters;
        if packet.is_neighbour_discovery() && self.not_ip == Action::Permit {
            counters.not_ip_permitted += 1;
            return true;
        }
        let (counter, admits) = match self.track.look(&packet, now) {
            Seen::Known { .. } => (&mut counters.established, true),
            Seen::Related { .. } => (&mut counters.related, true),
            Seen::New => return self.open(frame, &packet, port, now),
            Seen::Invalid(Invalid::Tcp) => (&mut counters.invalid_tcp, false),
            Seen::Invalid(Invalid::Window) => (&mut counters.invalid_window, false),
            Seen::Invalid(Invalid::Icmp) => (&mut counters.invalid_icmp, false),
            Seen::Invalid(Invalid::Fragment) => (&mut counters.invalid_fragment, false),
        };
        *counter += 1;
        admits
    }

    /// Whether a connection may begin; it does then.
    fn open(&mut self, frame: &[u8], packet: &Packet, port: PortId, now: Nanos) -> bool {
        let Ok(headers) = Headers::read(frame) else { return false };
        let key = Key::from(&headers);
        let zone = self.zones.get(usize::from(port.0)).copied().flatten();
        let found = self.rules.iter().position(|rule| rule.matches(&key, zone));
        let action = found.map_or(self.default, |rule| self.rules[rule].action);
        if let Some(rule) = found {
            self.hits[rule] += 1;
        }
        let counters = &mut self.counters;
        let counter = match (action, found) {
            (Action::Deny, Some(_)) => &mut counters.denied,
            (Action::Deny, None) => &mut counters.denied_by_default,
            (Action::Permit, _) => {
                let mark = found.map_or(0, |rule| rule as u64 + 1);
                match self.track.open(packet, mark, now) {
                    Ok(_) => {
                        counters.opened += 1;
                        return true;
                    }
                    Err(Refused::Full) => &mut counters.table_full,
                    Err(Refused::Source | Refused::Owner) => &mut counters.source_full,
                }
            }
        };
        *counter += 1;
        false
    }

    fn admits_unread(&mut self, unread: Unread) -> bool {
        let counters = &mut self.counters;
        let (counter, admits) = match (unread, self.not_ip) {
            (Unread::NotIp, Action::Permit) => (&mut counters.not_ip_permitted, true),
            (Unread::NotIp, Action::Deny) => (&mut counters.not_ip_denied, false),
            (Unread::TinyFragment, _) => (&mut counters.tiny_fragment, false),
            (Unread::Unreadable, _) => (&mut counters.unreadable, false),
        };
        *counter += 1;
        admits
    }
}

/// The zone of each port.
fn by_port(zones: &[Vec<PortId>]) -> Vec<Option<u8>> {
    let mut of_port = Vec::new();
    for (zone, ports) in (0u8..).zip(zones) {
        for port in ports {
            let index = usize::from(port.0);
            if of_port.len() <= index {
                of_port.resize(index + 1, None);
            }
            of_port[index] = Some(zone);
        }
    }
    of_port
}

impl Function for Firewall {
    fn name(&self) -> &'static str {
        "firewall"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        for (_, frame, verdict) in verdicts.undecided(batch) {
            let port = frame.meta().port;
            if !self.admits(frame.bytes(), port, now) {
                *verdict = Verdict::Drop;
            }
        }
        self.track.sweep(now);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
        each("connections", "Connections that there are now.", self.track.len() as u64);
    }

    fn named_counters(&self, each: EachNamed<'_>) {
        for ([name, help], hits) in self.names.iter().zip(&self.hits) {
            each(name, help, *hits);
        }
    }
}

/// Rules that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirewallError {
    /// More than [`RULES_MAX`] rules, [`PAIRS_MAX`] pairs or [`ZONES_MAX`] zones.
    TooMany,
    /// No packet can match one of them.
    Rule {
        /// Its place, from zero.
        index: usize,
        /// Why.
        error: SelectorError,
    },
}

impl fmt::Display for FirewallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(
                f,
                "too much of something: {RULES_MAX} rules, {PAIRS_MAX} pairs of a source and a \
                 destination in them, and {ZONES_MAX} zones are the most"
            ),
            Self::Rule { index, error } => write!(f, "rule {}: {error}", index + 1),
        }
    }
}

impl std::error::Error for FirewallError {}

#[cfg(test)]
mod tests;
