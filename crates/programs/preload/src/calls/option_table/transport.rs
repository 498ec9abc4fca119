//! IPPROTO_TCP and IPPROTO_UDP: tcp(7), udp(7), linux/tcp.h, linux/udp.h.

use super::row::{Row, rows};

pub(super) const TCP: &[Row] = rows! {
    1 TCP_NODELAY Carried Kernel "";
    2 TCP_MAXSEG Carried Kernel "536, which cannot be told from none, leaves the socket to the kernel if it is given early";
    3 TCP_CORK Carried Kernel "not within the host, where there are no packets";
    4 TCP_KEEPIDLE Carried Kernel "";
    5 TCP_KEEPINTVL Carried Kernel "";
    6 TCP_KEEPCNT Carried Kernel "";
    7 TCP_SYNCNT Carried Kernel "";
    8 TCP_LINGER2 Falls Kernel "of the daemon's configuration: tcp.time_wait_ms";
    9 TCP_DEFER_ACCEPT Carried Kernel "over the wire; within the host a connection comes without its data";
    10 TCP_WINDOW_CLAMP Falls Kernel "windows grow with what is read";
    11 TCP_INFO Carried Kernel "to be read only";
    12 TCP_QUICKACK Carried Kernel "as in Linux until what is exchanged says otherwise";
    13 TCP_CONGESTION Carried Kernel "reno, cubic, dctcp, timely; any other leaves the socket to the kernel, or is ENOENT";
    14 TCP_MD5SIG Falls Kernel "the data plane signs nothing";
    16 TCP_THIN_LINEAR_TIMEOUTS Falls Kernel "timeouts double, as RFC 6298 has it";
    17 TCP_THIN_DUPACK Told Kernel "without meaning in Linux";
    18 TCP_USER_TIMEOUT Carried Kernel "";
    19 TCP_REPAIR Falls Kernel "";
    20 TCP_REPAIR_QUEUE Falls Kernel "";
    21 TCP_QUEUE_SEQ Falls Kernel "";
    22 TCP_REPAIR_OPTIONS Falls Kernel "";
    23 TCP_FASTOPEN Told Kernel "nobody gets a cookie: callers send what they have when the connection stands (RFC 7413)";
    24 TCP_TIMESTAMP Falls Kernel "";
    25 TCP_NOTSENT_LOWAT Carried Kernel "";
    26 TCP_CC_INFO Kernel Kernel "to be read only: of the kernel's half";
    27 TCP_SAVE_SYN Falls Kernel "";
    28 TCP_SAVED_SYN Kernel Kernel "to be read only: none was saved";
    29 TCP_REPAIR_WINDOW Falls Kernel "";
    30 TCP_FASTOPEN_CONNECT Early Kernel "later, EINVAL, as in Linux";
    31 TCP_ULP Refused Kernel "ENOENT on what is ours: programs encrypt by themselves then";
    32 TCP_MD5SIG_EXT Falls Kernel "the data plane signs nothing";
    33 TCP_FASTOPEN_KEY Told Kernel "as TCP_FASTOPEN";
    34 TCP_FASTOPEN_NO_COOKIE Early Kernel "later, EINVAL, as in Linux";
    35 TCP_ZEROCOPY_RECEIVE Kernel Kernel "to be read only: EINVAL, as of what cannot be mapped";
    36 TCP_INQ Carried Kernel "";
    37 TCP_TX_DELAY Falls Kernel "";
    38 TCP_AO_ADD_KEY Falls Kernel "the data plane signs nothing";
    39 TCP_AO_DEL_KEY Falls Kernel "the data plane signs nothing";
    40 TCP_AO_INFO Falls Kernel "the data plane signs nothing";
    41 TCP_AO_GET_KEYS Falls Kernel "the data plane signs nothing";
    42 TCP_AO_REPAIR Falls Kernel "the data plane signs nothing";
    43 TCP_IS_MPTCP Kernel Kernel "to be read only";
    44 TCP_RTO_MAX_MS Falls Kernel "";
    45 TCP_RTO_MIN_US Falls Kernel "";
    46 TCP_DELACK_MAX_US Falls Kernel "";
};

pub(super) const UDP: &[Row] = rows! {
    1 UDP_CORK Kernel Falls "";
    100 UDP_ENCAP Kernel Falls "encapsulation is the kernel's";
    101 UDP_NO_CHECK6_TX Kernel Falls "every datagram of ours has a checksum";
    102 UDP_NO_CHECK6_RX Kernel Falls "";
    103 UDP_SEGMENT Kernel Carried "a call's segments enter the ring together, or none of them does";
    104 UDP_GRO Kernel Carried "datagrams that wait are joined when they are received";
};
