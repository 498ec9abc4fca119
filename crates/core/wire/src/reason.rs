//! Why a packet is not a flow of ours: every reason has a name for its counter and a sentence.

macro_rules! reasons {
    ($(#[$doc:meta])* $reason:ident { $($variant:ident, $name:literal, $help:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $reason {
            $(#[doc = $help] $variant,)+
        }

        impl $reason {
            /// Every reason, in the order of its discriminant, which starts at zero.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name as a counter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it means, in one sentence.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)+ }
            }

            /// Its place in [`Self::ALL`], for arrays of counters.
            #[inline]
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

reasons! {
    /// A valid packet that no flow of ours carries; the kernel or a slow path answers it.
    ///
    /// Counters keep the discriminant, so a new reason goes to the end.
    NotOurs {
        Arp, "arp", "An ARP packet: the neighbour slow path answers it or the kernel does.";
        NeighbourSolicitation, "neighbour_solicitation", "An IPv6 neighbour solicitation: the neighbour slow path answers it or the kernel does.";
        Icmp, "icmp", "An ICMP or ICMPv6 message that reports no error, such as an echo request.";
        IcmpError, "icmp_error", "An ICMP or ICMPv6 error message; it quotes the packet that caused it.";
        Fragment, "fragment", "A fragment of an IP packet; its flow is known only after reassembly.";
        Ethertype, "ethertype", "An Ethernet type other than IPv4, IPv6 and ARP.";
        LlcFrame, "llc_frame", "An IEEE 802.3 frame with a length instead of a type, such as spanning tree.";
        TooManyTags, "too_many_tags", "More than two VLAN tags in front of the packet.";
        IpProtocol, "ip_protocol", "An IP protocol other than TCP, UDP, ICMP and ESP.";
        Esp, "esp", "An IPsec ESP packet; its ports are encrypted.";
        NoNextHeader, "no_next_header", "An IPv6 packet that says it carries nothing (next header 59).";
        Multicast, "multicast", "A TCP or UDP packet to a multicast address of the link or of IP.";
        Broadcast, "broadcast", "A TCP or UDP packet to the broadcast address of the link or of IPv4.";
        SourceRoute, "source_route", "A packet that asks to be forwarded along a source route.";
        Ipv6Option, "ipv6_option", "An IPv6 option that whoever does not know it must not skip.";
    }
}

reasons! {
    /// A packet that contradicts itself or its protocol; it is counted and dropped.
    ///
    /// Counters keep the discriminant, so a new reason goes to the end.
    Malformed {
        EthernetTruncated, "ethernet_truncated", "The frame ends before its Ethernet header does.";
        EthernetSource, "ethernet_source", "The frame's source is a group address, which nobody can send from.";
        VlanTruncated, "vlan_truncated", "The frame ends within a VLAN tag or before the type behind it.";
        ArpTruncated, "arp_truncated", "The frame ends before its ARP packet does.";
        ArpFormat, "arp_format", "The ARP packet is not one of IPv4 addresses over Ethernet.";
        Ipv4Truncated, "ipv4_truncated", "The frame ends before its IPv4 header and options do.";
        Ipv4Version, "ipv4_version", "The Ethernet type says IPv4 and the header's version does not.";
        Ipv4HeaderLength, "ipv4_header_length", "The IPv4 header says it is shorter than 20 bytes.";
        Ipv4TotalLength, "ipv4_total_length", "The IPv4 total length is shorter than the header.";
        Ipv4BeyondFrame, "ipv4_beyond_frame", "The IPv4 total length reaches beyond the end of the frame.";
        Ipv4Option, "ipv4_option", "An IPv4 option has a length below two or reaches beyond the header.";
        Ipv4Source, "ipv4_source", "The IPv4 source is a multicast, broadcast, loopback or zero address.";
        Ipv4Destination, "ipv4_destination", "The IPv4 destination is a loopback or zero address.";
        Ipv6Truncated, "ipv6_truncated", "The frame ends before its IPv6 header does.";
        Ipv6Version, "ipv6_version", "The Ethernet type says IPv6 and the header's version does not.";
        Ipv6BeyondFrame, "ipv6_beyond_frame", "The IPv6 payload length reaches beyond the end of the frame.";
        Ipv6ExtensionTruncated, "ipv6_extension_truncated", "The IPv6 packet ends within an extension header.";
        Ipv6ExtensionLength, "ipv6_extension_length", "An authentication header says it is shorter than its fixed fields.";
        Ipv6HopByHopOrder, "ipv6_hop_by_hop_order", "A hop-by-hop header does not directly follow the IPv6 header.";
        Ipv6ChainTooLong, "ipv6_chain_too_long", "The IPv6 packet has more extension headers, or more bytes of them, than are followed.";
        Ipv6Option, "ipv6_option", "An option of an IPv6 extension header reaches beyond that header.";
        Ipv6Source, "ipv6_source", "The IPv6 source is a multicast, loopback, unspecified or IPv4-mapped address.";
        Ipv6Destination, "ipv6_destination", "The IPv6 destination is a loopback, unspecified or IPv4-mapped address.";
        IcmpTruncated, "icmp_truncated", "The IP packet ends before its ICMP header does.";
        NeighbourSolicitation, "neighbour_solicitation", "A neighbour solicitation that RFC 4861 section 7.1.1 has us drop unread.";
        UdpTruncated, "udp_truncated", "The IP packet ends before its UDP header does.";
        UdpLength, "udp_length", "The UDP length is below eight or reaches beyond the IP packet.";
        TcpTruncated, "tcp_truncated", "The IP packet ends before its TCP header does.";
        TcpDataOffset, "tcp_data_offset", "The TCP data offset is below five words or reaches beyond the IP packet.";
        Ipv4FragmentEnd, "ipv4_fragment_end", "An IPv4 fragment of a packet that would be longer than 65,535 bytes.";
    }
}

// A set of reasons fits in one word with room for the ones to come.
const _: () = assert!(NotOurs::ALL.len() < 32 && Malformed::ALL.len() < 48);

/// Either kind of reason: what the parsers of a step return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Valid, for somebody else.
    NotOurs(NotOurs),
    /// Valid for nobody.
    Malformed(Malformed),
}

impl From<NotOurs> for Reject {
    #[inline]
    fn from(reason: NotOurs) -> Self {
        Self::NotOurs(reason)
    }
}

impl From<Malformed> for Reject {
    #[inline]
    fn from(reason: Malformed) -> Self {
        Self::Malformed(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn check(reasons: impl Iterator<Item = (usize, &'static str, &'static str)>) {
        let mut names = BTreeSet::new();
        for (position, (index, name, help)) in reasons.enumerate() {
            assert_eq!(index, position, "{name}");
            assert!(names.insert(name), "{name} twice");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{name}"
            );
            assert!(help.ends_with('.') && help.len() > 20, "{name}: {help}");
        }
    }

    #[test]
    fn reasons_are_numbered_from_zero_and_have_a_distinct_name_and_a_sentence() {
        check(NotOurs::ALL.iter().map(|r| (r.index(), r.name(), r.help())));
        check(Malformed::ALL.iter().map(|r| (r.index(), r.name(), r.help())));
    }
}
