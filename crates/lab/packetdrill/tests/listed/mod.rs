//! Which of packetdrill's scripts Linux passes, and why some of them do not pass here.

/// Scripts that Linux 6.18 passes, over IPv4 with CUBIC.
pub(crate) const LINUX_PASSES: &[&str] = &[
    "blocking/blocking-accept",
    "blocking/blocking-read",
    "blocking/blocking-write",
    "close/close-local-close-then-remote-fin",
    "close/close-remote-fin-then-close",
    "cubic/cubic-hystart-delay-min-rtt-jumps-downward",
    "cubic/cubic-hystart-delay-rtt-jumps-upward",
    "cubic/cubic-rto-ss-ca-cwnd-bump",
    "cwnd_moderation/cwnd-moderation-disorder-no-moderation",
    "ecn/ecn-uses-ect0",
    "eor/no-coalesce-retrans",
    "eor/no-coalesce-small",
    "eor/no-coalesce-subsequent",
    "epoll/epoll_in_edge",
    "fast_recovery/prr-ss-10pkt-lost-1",
    "fast_recovery/prr-ss-30pkt-lost-1_4-11_16",
    "fast_recovery/prr-ss-ack-below-snd_una-cubic",
    "fast_retransmit/fr-4pkt",
    "fast_retransmit/fr-4pkt-fack-last-mss",
    "fast_retransmit/fr-4pkt-sack",
    "limited_transmit/limited-transmit-no-sack",
    "limited_transmit/limited-transmit-sack",
    "mss/mss-setsockopt-tcp_maxseg-client",
    "mss/mss-setsockopt-tcp_maxseg-server",
    "mtu_probe/basic-v4",
    "nagle/sendmsg_msg_more",
    "nagle/sockopt_cork_nodelay",
    "notsent_lowat/notsent-lowat-setsockopt",
    "notsent_lowat/notsent-lowat-sysctl",
    "sack/sack-route-refresh-ip-tos",
    "sack/sack-shift-sacked-7-3-4-8-9-fack",
    "sack/sack-shift-sacked-7-5-6-8-9-fack",
    "shutdown/shutdown-rd-close",
    "shutdown/shutdown-rd-wr-close",
    "shutdown/shutdown-rdwr-send-queue-ack-close",
    "shutdown/shutdown-wr-close",
    "slow_start/slow-start-ack-per-1pkt",
    "slow_start/slow-start-ack-per-2pkt",
    "slow_start/slow-start-ack-per-2pkt-send-5pkt",
    "slow_start/slow-start-ack-per-4pkt",
    "slow_start/slow-start-after-win-update",
    "slow_start/slow-start-app-limited",
    "slow_start/slow-start-app-limited-9-packets-out",
    "slow_start/slow-start-fq-ack-per-2pkt",
    "syscall_bad_arg/sendmsg-empty-iov",
    "syscall_bad_arg/syscall-invalid-buf-ptr",
    "tcp_info/tcp-info-last_data_recv",
    "tcp_info/tcp-info-rwnd-limited",
    "ts_recent/fin_tsval",
    "ts_recent/reset_tsval",
    "user_timeout/user-timeout-probe",
    "user_timeout/user_timeout",
    "validate/validate-established-no-flags",
];

/// Those of them that do not pass here, each with its reason.
pub(crate) const DIFFERENT: &[(&str, &str)] = &[
    ("eor/no-coalesce-retrans", EOR),
    ("eor/no-coalesce-small", EOR),
    ("eor/no-coalesce-subsequent", EOR),
    ("tcp_info/tcp-info-rwnd-limited", TIMES),
    ("user_timeout/user-timeout-probe", LOCAL_LOSS),
];

/// MSG_EOR is Linux's alone: a sender keeps the boundaries of its messages in its segments. A
/// receiver cannot rely on it, and it would cost every flow memory.
const EOR: &str = "the engine keeps no boundaries of messages (MSG_EOR)";
/// Linux adds up for how long the receiver, the buffer or the window has held a sender back.
const TIMES: &str = "the engine does not measure what holds a sender back for how long";
/// Linux's queue below TCP may refuse a packet, and it then tries again every 500 ms. The engine's
/// caller says that it has no room, and is asked again with the next transmit.
const LOCAL_LOSS: &str = "a packet that is refused locally is not lost here, but offered again";
