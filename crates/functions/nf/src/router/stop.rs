//! Why a packet is not forwarded, what is counted for it and what its sender is told.

use wire::{Malformed, NotOurs, Reject};

use crate::icmp::Complaint;

/// A reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Malformed(Malformed),
    NotIp,
    Tagged,
    LinkGroup,
    NotToUs,
    BadChecksum,
    OwnSource,
    LinkLocalSource,
    LinkLocal,
    SourceRoute,
    /// Options cannot be told apart from this byte of the header on.
    MalformedOption {
        at: u8,
    },
    /// An option says at this byte of the header what makes no sense.
    BadOption {
        at: u8,
    },
    Multicast,
    Broadcast,
    Jumbogram,
    NoInterface,
    ForUs,
    NoRoute,
    Blackhole,
    Unreachable {
        is_ipv6: bool,
    },
    Prohibited,
    NoRoom,
    Expired,
    TooBig {
        mtu: u32,
    },
    FragmentsNoRoom,
    Held,
    NeighbourUnknown,
    NeighbourFailed,
}

counters! {
    /// What a router has counted, malformed packets apart.
    RouterCounters {
        /// Packets sent on to their next hop.
        forwarded,
        /// Frames that hold neither IPv4 nor IPv6, dropped.
        not_ip,
        /// Frames with a VLAN tag, dropped.
        tagged,
        /// Frames to a group of hosts on the link, or to all, dropped.
        link_group,
        /// Frames to another link address than their port's, dropped.
        not_to_us,
        /// IPv4 packets whose header checksum is wrong, dropped.
        bad_checksum,
        /// Packets that say they come from an address of this host, from everybody on a link of it,
        /// or from an address that functions of the chain send from, dropped.
        own_source,
        /// IPv6 packets from or to an address that is known on one link only, dropped.
        link_local,
        /// Packets that ask for a route of their own, dropped.
        source_route,
        /// Packets to a multicast group, dropped.
        multicast,
        /// Packets to the IPv4 broadcast address, dropped.
        broadcast,
        /// IPv6 packets without length, which is said in an option, dropped.
        jumbogram,
        /// Packets from or to a port that is not a router's, dropped.
        no_interface,
        /// Packets to an address of this host, which the kernel should have got, dropped.
        for_us,
        /// Packets to where no route leads, dropped; the sender is told.
        no_route,
        /// Packets to where a route leads nowhere, dropped.
        blackhole,
        /// Packets to where a route says that nobody can be reached, dropped; the sender is told.
        unreachable,
        /// Packets to where a route says that it is forbidden, dropped; the sender is told.
        prohibited,
        /// Packets to where a route may lead that found no room in the tables, dropped.
        no_room,
        /// Packets whose TTL or hop limit ended here, dropped; the sender is told.
        expired,
        /// Packets longer than their next link takes that must not be cut, dropped; the sender is
        /// told.
        too_big,
        /// IPv4 packets longer than their next link takes that were cut into fragments; each
        /// fragment is counted as forwarded.
        fragmented,
        /// IPv4 packets longer than their next link takes, for whose fragments there was no room,
        /// dropped.
        fragments_no_room,
        /// Packets kept until their neighbour's link address is known; once they go on they are
        /// counted anew.
        held,
        /// Packets that were kept for a neighbour which neither answered nor failed in time,
        /// dropped.
        held_too_long,
        /// Packets to a neighbour whose link address is being asked for, dropped: as many as may
        /// wait for it did already.
        neighbour_unknown,
        /// Packets to a neighbour that did not answer, dropped; the sender is told.
        neighbour_failed,
        /// Neighbours that were to be asked for when the list of them was full.
        wanted_full,
        /// Error messages sent.
        icmp_sent,
        /// Error messages not sent, because their number per second is limited.
        icmp_limited,
        /// Error messages not sent about error messages, later fragments, or by a port without
        /// address.
        icmp_withheld,
        /// IPv4 packets with an option that makes no sense, dropped; the sender is told.
        bad_option,
    }
}

impl Stop {
    /// The counter that moves; malformed packets have others.
    pub(super) fn counter(self, counters: &mut RouterCounters) -> Option<&mut u64> {
        Some(match self {
            Self::Malformed(_) | Self::MalformedOption { .. } => return None,
            Self::BadOption { .. } => &mut counters.bad_option,
            Self::NotIp => &mut counters.not_ip,
            Self::Tagged => &mut counters.tagged,
            Self::LinkGroup => &mut counters.link_group,
            Self::NotToUs => &mut counters.not_to_us,
            Self::BadChecksum => &mut counters.bad_checksum,
            Self::OwnSource => &mut counters.own_source,
            Self::LinkLocal | Self::LinkLocalSource => &mut counters.link_local,
            Self::SourceRoute => &mut counters.source_route,
            Self::Multicast => &mut counters.multicast,
            Self::Broadcast => &mut counters.broadcast,
            Self::Jumbogram => &mut counters.jumbogram,
            Self::NoInterface => &mut counters.no_interface,
            Self::ForUs => &mut counters.for_us,
            Self::NoRoute => &mut counters.no_route,
            Self::Blackhole => &mut counters.blackhole,
            Self::Unreachable { .. } => &mut counters.unreachable,
            Self::Prohibited => &mut counters.prohibited,
            Self::NoRoom => &mut counters.no_room,
            Self::Expired => &mut counters.expired,
            Self::TooBig { .. } => &mut counters.too_big,
            Self::FragmentsNoRoom => &mut counters.fragments_no_room,
            Self::Held => &mut counters.held,
            Self::NeighbourUnknown => &mut counters.neighbour_unknown,
            Self::NeighbourFailed => &mut counters.neighbour_failed,
        })
    }

    /// What the sender is told.
    pub(super) const fn complaint(self) -> Option<Complaint> {
        match self {
            Self::LinkLocalSource => Some(Complaint::BeyondScope),
            // As Linux: of IPv6, a route that leads nowhere is none.
            Self::NoRoute | Self::Unreachable { is_ipv6: true } => Some(Complaint::NoRoute),
            Self::Unreachable { is_ipv6: false } | Self::NeighbourFailed => {
                Some(Complaint::HostUnreachable)
            }
            Self::Prohibited => Some(Complaint::Prohibited),
            Self::Expired => Some(Complaint::Expired),
            Self::TooBig { mtu } => Some(Complaint::TooBig { mtu }),
            Self::MalformedOption { at } | Self::BadOption { at } => {
                Some(Complaint::Parameter { at })
            }
            _ => None,
        }
    }
}

impl From<Malformed> for Stop {
    fn from(reason: Malformed) -> Self {
        Self::Malformed(reason)
    }
}

impl From<Reject> for Stop {
    fn from(reject: Reject) -> Self {
        match reject {
            Reject::Malformed(reason) => Self::Malformed(reason),
            Reject::NotOurs(NotOurs::Multicast) => Self::Multicast,
            Reject::NotOurs(NotOurs::Broadcast) => Self::Broadcast,
            // The checks of the headers know of no other reason.
            Reject::NotOurs(_) => Self::SourceRoute,
        }
    }
}
