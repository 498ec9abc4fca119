//! Sockets of unmodified programs: those that are accelerated, and those that the kernel has kept.

use serde::{Deserialize, Serialize};

/// Rows of one answer to `sockets`, at most; the client asks again for the rest.
pub const SOCKET_ROWS_MAX: u32 = 4096;

/// An accelerated socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SocketRow {
    /// The application's number, never used again.
    pub app: u32,
    /// As it calls itself.
    pub app_name: String,
    /// The processes that are attached as this application: any of them may have the socket open.
    pub pids: Vec<u32>,
    /// The user of the one that attached first.
    pub uid: u32,
    /// "latency", "throughput" or "safe".
    pub profile: String,
    /// The region that its slot is in.
    pub region: u32,
    /// Its slot there.
    pub slot: u32,
    /// "tcp" or "udp".
    pub protocol: String,
    /// `ADDRESS:PORT`; an IPv6 address stands in brackets.
    pub local: String,
    /// The same of the peer; absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Where it stands.
    pub state: SocketState,
    /// Bytes that have come and were not read yet; of a listener: connections not yet accepted.
    pub recv_q: u64,
    /// Bytes written and not acknowledged yet; of a listener: how many may wait to be accepted.
    pub send_q: u64,
    /// What SO_COOKIE of the program's descriptor says; 0: not known yet.
    pub cookie: u64,
    /// Inode of the program's descriptor, as `/proc/PID/fd` shows it; 0: not known yet.
    pub inode: u64,
    /// The worker that has it; absent: no packet ever comes for it (both ends are on this host).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u16>,
    /// Both ends are accelerated programs on this host: bytes go through shared memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_local: bool,
    /// Why the daemon has reset the connection; absent: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_because: Option<String>,
    /// Bytes received, in order, so far.
    pub bytes_received: u64,
    /// Bytes sent so far; of TCP: those that the peer has acknowledged.
    pub bytes_sent: u64,
    /// The timer that runs; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<SocketTimer>,
    /// What only a TCP connection has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpRow>,
}

/// A socket's state, by the names of RFC 9293, shortened as `ss` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum SocketState {
    /// Waits for connections.
    Listen,
    /// A connection was asked for.
    SynSent,
    /// A connection was asked for by the peer.
    SynRecv,
    /// Both sides may send.
    Estab,
    /// We have closed, the peer has not acknowledged it.
    #[serde(rename = "FIN-WAIT-1")]
    FinWait1,
    /// We have closed, the peer has not.
    #[serde(rename = "FIN-WAIT-2")]
    FinWait2,
    /// The peer has closed, we have not.
    CloseWait,
    /// Both have closed at once.
    Closing,
    /// The peer had closed, then we did; our close is not acknowledged.
    LastAck,
    /// All is over; late packets are waited for.
    TimeWait,
    /// A datagram socket without a peer.
    Unconn,
}

impl SocketState {
    /// As it is written: `FIN-WAIT-1`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN-SENT",
            Self::SynRecv => "SYN-RECV",
            Self::Estab => "ESTAB",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Unconn => "UNCONN",
        }
    }
}

/// A timer of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketTimer {
    /// "retransmit", "persist", "keepalive", "timewait", "delayed_ack" and others to come.
    pub name: String,
    /// Milliseconds until it is due.
    pub left_ms: u64,
    /// How often it has run out since the peer was last heard.
    pub expirations: u32,
}

/// What is known of a TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpRow {
    /// Smoothed round-trip time in microseconds; 0: not measured yet.
    pub rtt_us: u64,
    /// How much that varies, in microseconds.
    pub rttvar_us: u64,
    /// Microseconds without an acknowledgement after which it retransmits.
    pub rto_us: u64,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; absent: none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssthresh: Option<u32>,
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// Bytes that the peer may still send.
    pub rcv_wnd: u64,
    /// Bytes that the peer's window has.
    pub snd_wnd: u64,
    /// Segments sent again, so far.
    pub retransmits: u64,
    /// The congestion control: "cubic", "reno", ...
    pub congestion: String,
    /// Options agreed on: "ts", "sack", "ecn", "wscale:7,7".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// A program whose sockets were served and that was detached while it lived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutOutRow {
    /// The application's number.
    pub app: u32,
    /// As it called itself.
    pub app_name: String,
    /// The processes that were attached as this application.
    pub pids: Vec<u32>,
    /// Its user.
    pub uid: u32,
    /// Why: a word.
    pub reason: String,
    /// In a clause.
    pub message: String,
    /// How long ago.
    pub seconds_ago: u64,
}

/// A socket that an application offered and that stayed with the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackRow {
    /// The application's number.
    pub app: u32,
    /// As it calls itself.
    pub app_name: String,
    /// The process that had it then.
    pub pid: u32,
    /// SO_COOKIE of its descriptor.
    pub cookie: u64,
    /// Inode of its descriptor.
    pub inode: u64,
    /// Why: a word for programs.
    pub reason: String,
    /// The same in a sentence for people.
    pub message: String,
    /// How often this socket was refused for it (each `connect` may ask again).
    pub count: u64,
}

/// How often the kernel kept a socket for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackTotal {
    /// Why: a word for programs.
    pub reason: String,
    /// The same in a sentence for people.
    pub message: String,
    /// Sockets since the daemon started, those that are closed by now included.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_called_what_its_line_calls_it() {
        for state in [
            SocketState::Listen,
            SocketState::SynSent,
            SocketState::SynRecv,
            SocketState::Estab,
            SocketState::FinWait1,
            SocketState::FinWait2,
            SocketState::CloseWait,
            SocketState::Closing,
            SocketState::LastAck,
            SocketState::TimeWait,
            SocketState::Unconn,
        ] {
            let line = crate::encode(&state).expect("plain data");
            assert_eq!(line.trim(), format!("\"{}\"", state.as_str()));
            assert_eq!(crate::decode(&line), Ok(state));
        }
    }
}
