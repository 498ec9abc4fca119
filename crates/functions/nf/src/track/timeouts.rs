//! How long a connection is kept that says nothing.

use base::Nanos;

use super::table::Entry;
use super::tcp::TcpState;

const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_LITE: u8 = 136;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Seconds, by what a connection is; the defaults are those of Linux
/// (net.netfilter.nf_conntrack_*_timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP: a SYN that nobody has answered.
    pub syn_sent: u32,
    /// A SYN that was answered.
    pub syn_received: u32,
    /// A connection in use.
    pub established: u32,
    /// One end has said that it is done.
    pub fin_wait: u32,
    /// And the other end knows.
    pub close_wait: u32,
    /// Both ends have said so.
    pub last_ack: u32,
    /// And both know.
    pub time_wait: u32,
    /// After a reset.
    pub closed: u32,
    /// UDP that went one way, or was answered once.
    pub udp: u32,
    /// UDP that goes both ways.
    pub udp_stream: u32,
    /// ICMP queries.
    pub icmp: u32,
    /// Other protocols.
    pub other: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            syn_sent: 120,
            syn_received: 60,
            established: 432_000,
            fin_wait: 120,
            close_wait: 60,
            last_ack: 30,
            time_wait: 120,
            closed: 10,
            udp: 30,
            udp_stream: 120,
            icmp: 30,
            other: 600,
        }
    }
}

impl Timeouts {
    /// How long the connection is kept from now on.
    #[inline]
    pub(super) fn of(&self, entry: &Entry) -> Nanos {
        let seconds = match entry.protocol() {
            TCP => match entry.tcp.state() {
                TcpState::SynSent => self.syn_sent,
                TcpState::SynReceived => self.syn_received,
                TcpState::Established => self.established,
                TcpState::FinWait => self.fin_wait,
                TcpState::CloseWait => self.close_wait,
                TcpState::LastAck => self.last_ack,
                TcpState::TimeWait => self.time_wait,
                TcpState::Closed => self.closed,
            },
            UDP | UDP_LITE if entry.is_lasting => self.udp_stream,
            UDP | UDP_LITE => self.udp,
            ICMP | ICMPV6 => self.icmp,
            _ => self.other,
        };
        Nanos::from_secs(u64::from(seconds))
    }
}
