//! TCP_INFO as Linux lays it out.

use calisto_client::sockets::Socket;
use libc::c_int;

use crate::system::kernel_socket;

/// `struct tcp_info` of linux/tcp.h, as far as newer programs read it; callers with less room get
/// its beginning.
#[repr(C)]
#[derive(Default)]
pub(crate) struct TcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    /// Our shift in the high half, the peer's in the low one.
    shifts: u8,
    flags: u8,
    rto_us: u32,
    ato_us: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt_us: u32,
    rttvar_us: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt_us: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt_us: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
}

const _: () = assert!(size_of::<TcpInfo>() == 168, "the offsets are the kernel's");

/// A packet without options has this many bytes beside its payload, with IPv4.
const HEADERS: u32 = 40;

/// The timestamps of a segment (RFC 7323), in every one of Linux's.
const TIMESTAMPS: u32 = 12;

/// What is known of a connection.
pub(crate) fn of(socket: &Socket) -> TcpInfo {
    let info = socket.info();
    if socket.is_local() {
        // Bytes go from memory to memory: what stands for segments is what Linux says of loopback,
        // whose frames are as long as a packet can be, and for time the least that can be told.
        let segment = u32::from(u16::MAX) - HEADERS - TIMESTAMPS;
        return TcpInfo {
            state: info.state,
            snd_mss: segment,
            rcv_mss: segment,
            advmss: segment,
            pmtu: u16::MAX.into(),
            rtt_us: 1,
            min_rtt_us: 1,
            rttvar_us: 1,
            rto_us: 200_000,
            snd_ssthresh: i32::MAX as u32,
            snd_cwnd: 10,
            reordering: 3,
            unacked: 0,
            max_pacing_rate: u64::MAX,
            bytes_acked: info.acknowledged,
            bytes_received: info.received,
            notsent_bytes: info.unsent,
            ..TcpInfo::default()
        };
    }
    TcpInfo {
        state: info.state,
        options: info.options,
        shifts: info.send_shift & 15 | info.receive_shift << 4,
        rto_us: info.rto_us,
        snd_mss: info.send_segment,
        rcv_mss: info.receive_segment,
        advmss: info.send_segment,
        pmtu: info.send_segment.saturating_add(HEADERS),
        unacked: info.unacknowledged,
        rtt_us: info.rtt_us,
        rttvar_us: info.rtt_variation_us,
        snd_ssthresh: info.threshold,
        snd_cwnd: info.window,
        reordering: 3,
        total_retrans: info.retransmitted,
        max_pacing_rate: u64::MAX,
        bytes_acked: info.acknowledged,
        bytes_received: info.received,
        segs_out: info.segments_out,
        segs_in: info.segments_in,
        notsent_bytes: info.unsent,
        min_rtt_us: info.rtt_min_us,
        ..TcpInfo::default()
    }
}

/// Bytes of the kernel's `struct tcp_info`, at most: newer ones only grow.
const KERNELS_MAX: usize = 512;

/// What the kernel knows of a listener, with those that wait at ours; and how many bytes that has.
pub(crate) fn of_listener(fd: c_int, socket: &Socket) -> ([u8; KERNELS_MAX], usize) {
    const AT: usize = std::mem::offset_of!(TcpInfo, unacked);
    let mut info = [0; KERNELS_MAX];
    let count = kernel_socket::fill_up_to(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
    if let Some(place) = info[..count].get_mut(AT..).and_then(|rest| rest.first_chunk_mut()) {
        let waiting = u32::from_ne_bytes(*place).saturating_add(socket.waiting_connections());
        *place = waiting.to_ne_bytes();
    }
    (info, count)
}

/// Bytes of the longest packet that the path takes: `tcpi_pmtu`.
pub(crate) fn path_mtu(socket: &Socket) -> u32 {
    of(socket).pmtu
}

/// Bytes of payload of the longest segment: what TCP_MAXSEG says of a connection. `asked` is what
/// was asked for; zero: nothing.
pub(crate) fn segment_bytes(socket: &Socket, asked: u32) -> Option<u32> {
    let segment = of(socket).snd_mss;
    let asked = match asked {
        0 => u32::MAX,
        asked => asked.saturating_sub(TIMESTAMPS),
    };
    let segment = if socket.is_local() { segment.min(asked) } else { segment };
    (segment > 0).then_some(segment)
}

/// Bytes that were written and not sent yet.
pub(crate) fn not_sent(socket: &Socket) -> u64 {
    socket.info().unsent.into()
}

impl TcpInfo {
    /// As the program gets it.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        let start = std::ptr::from_ref(self).cast::<u8>();
        // SAFETY: numbers without a gap between them, as the assertion above counts.
        unsafe { std::slice::from_raw_parts(start, size_of::<Self>()) }
    }
}
