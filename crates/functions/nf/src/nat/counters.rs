//! What a NAT counts, and why it drops.

use super::mappings::NoPort;
use crate::track::{Invalid, Refused, Unread};

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    NoMapping,
    Filtered,
    TableFull,
    SourceFull,
    ShareFull,
    SubscriberFull,
    PoolFull,
    Unsupported,
    InvalidTcp,
    InvalidWindow,
    InvalidIcmp,
    InvalidFragment,
    TinyFragment,
    Unreadable,
}

counters! {
    /// What a NAT has counted.
    NatCounters {
        /// Packets that got one of our addresses as their source.
        outbound,
        /// Packets that got an address inside as their destination.
        inbound,
        /// ICMP errors that were translated with the packets that they quote.
        errors,
        /// Connections that began.
        opened,
        /// Packets to a port of ours that stands for nobody, and ICMP errors about no packet that
        /// was translated, dropped.
        no_mapping,
        /// Packets from outside, of nobody who was spoken to, dropped.
        filtered,
        /// Packets that would have begun a connection when all were in use, dropped.
        table_full,
        /// Packets that would have begun a connection of a source with too many unanswered ones,
        /// dropped.
        source_full,
        /// Packets that would have begun a connection of a subscriber that has as many as it may,
        /// or with which others have begun as many, dropped.
        share_full,
        /// Packets of a subscriber that has as many ports as it may, all of them in use, dropped.
        subscriber_full,
        /// Packets of a subscriber for which our addresses have no more ports, dropped.
        pool_full,
        /// Packets of protocols other than TCP, UDP and ICMP, dropped.
        unsupported,
        /// TCP that begins in the middle, or with flags that nobody sends, dropped.
        invalid_tcp,
        /// TCP outside of what the other end can expect, dropped.
        invalid_window,
        /// ICMP that answers nothing, is in fragments, or is an error that is harmed or about no
        /// connection, dropped.
        invalid_icmp,
        /// Later fragments whose first one has not passed, dropped.
        invalid_fragment,
        /// Fragments cut so that ports or flags are in another one than they should be, dropped.
        tiny_fragment,
        /// Packets whose headers cannot be read for sure, dropped.
        unreadable,
    }
}

impl Stop {
    /// The counter that moves.
    pub(super) fn counter(self, counters: &mut NatCounters) -> &mut u64 {
        match self {
            Self::NoMapping => &mut counters.no_mapping,
            Self::Filtered => &mut counters.filtered,
            Self::TableFull => &mut counters.table_full,
            Self::SourceFull => &mut counters.source_full,
            Self::ShareFull => &mut counters.share_full,
            Self::SubscriberFull => &mut counters.subscriber_full,
            Self::PoolFull => &mut counters.pool_full,
            Self::Unsupported => &mut counters.unsupported,
            Self::InvalidTcp => &mut counters.invalid_tcp,
            Self::InvalidWindow => &mut counters.invalid_window,
            Self::InvalidIcmp => &mut counters.invalid_icmp,
            Self::InvalidFragment => &mut counters.invalid_fragment,
            Self::TinyFragment => &mut counters.tiny_fragment,
            Self::Unreadable => &mut counters.unreadable,
        }
    }
}

impl From<Unread> for Stop {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::TinyFragment => Self::TinyFragment,
            Unread::NotIp | Unread::Unreadable => Self::Unreadable,
        }
    }
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Full => Self::TableFull,
            Refused::Source => Self::SourceFull,
            Refused::Owner => Self::ShareFull,
        }
    }
}

impl From<Invalid> for Stop {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::Tcp => Self::InvalidTcp,
            Invalid::Window => Self::InvalidWindow,
            Invalid::Icmp => Self::InvalidIcmp,
            Invalid::Fragment => Self::InvalidFragment,
        }
    }
}

impl From<NoPort> for Stop {
    fn from(why: NoPort) -> Self {
        match why {
            NoPort::Subscriber => Self::SubscriberFull,
            NoPort::Pool => Self::PoolFull,
        }
    }
}
