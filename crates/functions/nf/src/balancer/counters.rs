//! What a balancer counts, and why it drops.

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    NoService,
    NoServer,
    NoRoom,
    NoFlow,
    Fragment,
    Icmp,
    Unreadable,
}

counters! {
    /// What a balancer has counted.
    BalancerCounters {
        /// Packets sent to a server.
        sent,
        /// Packets from a server, sent back as from the service.
        returned,
        /// ICMP errors that were passed on to the server or the client that they are for.
        errors,
        /// Flows that began, each with a server by the ring.
        opened,
        /// Flows that went on with their server of before, which the ring alone would not say any
        /// more.
        by_previous_ring,
        /// Flows for which there was no room among those in use: they go by the ring alone, but for
        /// those of `nat`, which would not find back.
        untracked,
        /// Packets to an address of a service, but of none of its ports and protocols, dropped.
        no_service,
        /// Packets to a service that has no server now, dropped.
        no_server,
        /// Packets for which the frame has no room for another header, dropped.
        no_room,
        /// Packets of `nat` for whose flow there was no room, dropped.
        no_flow,
        /// Later fragments whose first one has not passed, dropped.
        fragment,
        /// ICMP errors that are harmed, in fragments or about no flow of a service, dropped.
        icmp,
        /// Packets whose headers cannot be read for sure, dropped.
        unreadable,
    }
}

impl Stop {
    /// The counter that moves.
    pub(super) fn counter(self, counters: &mut BalancerCounters) -> &mut u64 {
        match self {
            Self::NoService => &mut counters.no_service,
            Self::NoServer => &mut counters.no_server,
            Self::NoRoom => &mut counters.no_room,
            Self::NoFlow => &mut counters.no_flow,
            Self::Fragment => &mut counters.fragment,
            Self::Icmp => &mut counters.icmp,
            Self::Unreadable => &mut counters.unreadable,
        }
    }
}
