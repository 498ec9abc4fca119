//! Why a socket is left to the kernel.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Builds the enum, its list, its words and its sentences from one table.
macro_rules! reasons {
    ($($(#[$serde:meta])? $name:ident $word:literal $sentence:literal;)*) => {
        /// Why a socket is left to the kernel; as a word in messages, counters and listings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum FallbackReason {
            $(
                #[doc = concat!("Because ", $sentence, ".")]
                $(#[$serde])?
                $name,
            )*
        }

        impl FallbackReason {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its word, as it stands in messages.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// A clause for people: what stood in the way.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => $sentence,)*
                }
            }
        }
    };
}

reasons! {
    NoRouteHere "no_route_here" "the way there does not lead through an interface of Calisto";
    NotPermitted "not_permitted" "the daemon's rule for this user does not allow that address or port";
    FirewallRules "firewall_rules" "packet filters (nftables, iptables, tc, BPF programs of socket look-ups) or policies of IPsec guard the host, and Calisto would bypass them";
    ControlGroupFilter "control_group_filter" "a BPF program of its control group sees or rewrites its sockets or packets, and Calisto would bypass it";
    ControlGroupUnseen "control_group_unseen" "the daemon cannot look for BPF programs of its control group, and would bypass them unseen (in a container, give it the host's processes, control groups and /sys/fs/cgroup)";
    LoopbackPeerNotAccelerated "loopback_peer_not_accelerated" "the other end is a program on this host that Calisto does not serve";
    TooManySockets "too_many_sockets" "the application has as many accelerated sockets as it may have";
    NoMemory "no_memory" "the application has as much memory for sockets as it may have";
    Multicast "multicast" "it is multicast";
    Broadcast "broadcast" "it is broadcast";
    BoundToDevice "bound_to_device" "it is bound to a network device (SO_BINDTODEVICE)";
    RawOrOtherProtocol "raw_or_other_protocol" "it is neither TCP nor UDP";
    TcpUlp "tcp_ulp" "a protocol on top of TCP was asked for in the kernel (TCP_ULP)";
    Transparent "transparent" "it uses addresses that are not this host's (IP_TRANSPARENT)";
    Mptcp "mptcp" "it is multipath TCP";
    PortInUse "port_in_use" "the port is taken by another accelerated socket";
    DaemonGone "daemon_gone" "the daemon is gone";
    OtherNamespace "other_namespace" "it is of another network namespace than the daemon";
    UnsupportedOption "unsupported_option" "an option was set that only the kernel has";
    NotOurs "not_ours" "the daemon does not know the socket, or it is another user's";
    NoNeighbour "no_neighbour" "the next hop's link address cannot be found";
    WrongState "wrong_state" "the socket is connected, or not bound, in the kernel";
    DaemonBusy "daemon_busy" "the daemon is out of descriptors or is shutting down";
    OtherUser "other_user" "the other end is another user's program, and the two would share memory";
    OtherCredentials "other_credentials" "it belongs to the application of the program before this one, which has another user or group";
    #[serde(other)]
    Other "other" "of a reason that this program does not know";
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_same_word_in_messages_and_in_listings() {
        for &reason in FallbackReason::ALL {
            let text = serde_json::to_string(&reason).expect("a word");
            assert_eq!(text, format!("\"{}\"", reason.word()));
            assert_eq!(serde_json::from_str::<FallbackReason>(&text).expect("a word"), reason);
        }
    }

    #[test]
    fn a_reason_of_a_later_release_is_another_one() {
        let later = serde_json::from_str::<FallbackReason>("\"moon_phase\"");
        assert_eq!(later.expect("a word"), FallbackReason::Other);
    }
}
