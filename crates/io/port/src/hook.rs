//! What the kernel may finish before user space receives it: the first functions of a chain, in the
//! XDP program of a port's queues.
//!
//! This says what is to be decided; `xdp/program/hook.rs` makes the program. A packet that the
//! program cannot finish to the last byte is received as if there were none, so a hook never
//! changes what becomes of a packet, only where that is done.

use std::net::IpAddr;
use std::sync::Arc;

use sys::SysError;

use crate::xdp::hook_map::HookMap;

/// Functions of a chain, from the first one on, and where they count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The functions.
    pub functions: Arc<HookFunctions>,
    /// What they count.
    pub counters: HookCounters,
}

/// Rules, each of which may drop a packet, and then perhaps a router that sends it on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookFunctions {
    /// In order, at most [`Self::ACLS_MAX`].
    pub acls: Vec<HookAcl>,
    /// Behind them; `None`: what they let pass is received.
    pub router: Option<HookRouter>,
}

/// Rules: the first that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAcl {
    /// In order.
    pub rules: Vec<HookRule>,
    /// Whether a packet is dropped that none of them matches.
    pub denies: bool,
}

/// One rule. What is not said matches everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookRule {
    /// Whether what matches is dropped.
    pub denies: bool,
    /// An address and how many of its bits count.
    pub source: Option<(IpAddr, u8)>,
    /// The same.
    pub destination: Option<(IpAddr, u8)>,
    /// Its number.
    pub protocol: Option<u8>,
    /// From the first to the last; only packets with ports match.
    pub source_ports: Option<(u16, u16)>,
    /// The same.
    pub destination_ports: Option<(u16, u16)>,
}

/// A router by the kernel's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookRouter {
    /// Addresses from which nobody sends who is to be believed.
    pub liars: Vec<IpAddr>,
    /// Where packets may leave.
    pub exits: Vec<Exit>,
}

/// An interface by which packets may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its number.
    pub index: u32,
    /// Whether its driver takes packets from the programs of other drivers. A program on socket
    /// buffers does not need that.
    pub takes_redirects: bool,
}

impl HookFunctions {
    /// Each has a place on the program's stack of 512 bytes.
    pub const ACLS_MAX: usize = 16;
    /// Rules of all acls together. One takes some 35 instructions at most, for each of both
    /// versions of IP, and no jump in a program may be longer than 32,767 of them.
    pub const RULES_MAX: usize = 256;
    /// Liars and exits together: six instructions each, for each version of IP.
    pub const ENDS_MAX: usize = 512;

    /// How many counters there are.
    pub(crate) fn counters(&self) -> u32 {
        let of_acls: usize = self.acls.iter().map(|acl| 1 + acl.rules.len()).sum();
        HookCounter::ALL.len() as u32 + of_acls as u32
    }

    /// The first counter of an acl: how often none of its rules decided. Those of its rules follow.
    pub(crate) fn first_counter(&self, acl: usize) -> u32 {
        let before: usize = self.acls.iter().take(acl).map(|acl| 1 + acl.rules.len()).sum();
        HookCounter::ALL.len() as u32 + before as u32
    }
}

/// What the program counts beside what rules decide: why it left a packet to whoever receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookCounter {
    /// Sent on.
    Forwarded,
    /// Not judged: no IP, a fragment, options, extension headers, a wrong checksum, another link
    /// address, padding, a source that lies.
    NotPlain,
    /// Let pass by all rules, and there is no router.
    Permitted,
    /// TTL or hop limit is used up.
    Expired,
    /// Its sender, a kernel of this host, has left the checksum open.
    OpenChecksum,
    /// The kernel's tables send it nowhere, or to this host.
    NoRoute,
    /// The kernel does not know its neighbour.
    NoNeighbour,
    /// The next link does not take it whole.
    TooLong,
    /// It would leave by an interface that is no exit.
    NoExit,
}

impl HookCounter {
    /// All of them, in the order of their places.
    pub const ALL: [Self; 9] = [
        Self::Forwarded,
        Self::NotPlain,
        Self::Permitted,
        Self::Expired,
        Self::OpenChecksum,
        Self::NoRoute,
        Self::NoNeighbour,
        Self::TooLong,
        Self::NoExit,
    ];

    /// Its name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forwarded => "hook_forwarded",
            Self::NotPlain => "hook_not_plain",
            Self::Permitted => "hook_permitted",
            Self::Expired => "hook_expired",
            Self::OpenChecksum => "hook_open_checksum",
            Self::NoRoute => "hook_no_route",
            Self::NoNeighbour => "hook_no_neighbour",
            Self::TooLong => "hook_too_long",
            Self::NoExit => "hook_no_exit",
        }
    }

    /// What it counts.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Forwarded => {
                "Packets sent on in the XDP hook; those of `forwarded` are these and the slice's."
            }
            Self::NotPlain => {
                "Packets left to the slice by the hook: no IP, fragments, options, extension \
                 headers, wrong checksums, other link addresses, sources that lie."
            }
            Self::Permitted => "Packets that the rules in the hook let pass, left to the slice.",
            Self::Expired => "Packets whose TTL or hop limit is over, left to the slice.",
            Self::OpenChecksum => {
                "Packets whose sender on this host left the checksum open, left to the slice."
            }
            Self::NoRoute => {
                "Packets that the kernel's tables do not forward, left to the slice by the hook."
            }
            Self::NoNeighbour => {
                "Packets whose neighbour the kernel does not know, left to the slice by the hook."
            }
            Self::TooLong => "Packets too long for their next link, left to the slice by the hook.",
            Self::NoExit => {
                "Packets to an interface that takes none from the hook, left to the slice."
            }
        }
    }
}

/// Where the program counts: for each CPU by itself.
#[derive(Clone, Debug)]
pub struct HookCounters {
    map: Arc<HookMap>,
}

impl PartialEq for HookCounters {
    /// Whether they are the same ones, not the same numbers.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.map, &other.map)
    }
}

impl Eq for HookCounters {}

/// What a hook has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookCounts {
    /// By the place of a [`HookCounter`].
    pub fixed: [u64; HookCounter::ALL.len()],
    /// By acl: how often none of its rules decided, then how often each of them.
    pub acls: Vec<Vec<u64>>,
}

impl HookCounters {
    /// All at zero, for these functions.
    ///
    /// # Errors
    /// No rights, or no memory.
    pub fn create(functions: &HookFunctions) -> Result<Self, SysError> {
        let map = HookMap::create(functions.counters())?;
        Ok(Self { map: Arc::new(map) })
    }

    /// What has been counted, all CPUs together; `functions` are those it was made for.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&self, functions: &HookFunctions) -> Result<HookCounts, SysError> {
        let mut counts = HookCounts::default();
        for (place, count) in (0..).zip(&mut counts.fixed) {
            *count = self.map.read(place)?;
        }
        for (number, acl) in functions.acls.iter().enumerate() {
            let first = functions.first_counter(number);
            let places = first..=first + acl.rules.len() as u32;
            counts.acls.push(places.map(|place| self.map.read(place)).collect::<Result<_, _>>()?);
        }
        Ok(counts)
    }

    pub(crate) fn map(&self) -> &HookMap {
        &self.map
    }
}
