//! Constants and structures of the AF_XDP interface, with the kernel's names (linux/if_xdp.h,
//! linux/if_link.h). Nothing here has behaviour.

/// `XDP_COPY`: bind in copy mode.
pub(crate) const XDP_COPY: u16 = 1 << 1;
/// `XDP_ZEROCOPY`: bind in zero-copy mode or fail.
pub(crate) const XDP_ZEROCOPY: u16 = 1 << 2;
/// `XDP_SHARED_UMEM`: bind to the UMEM of another socket.
pub(crate) const XDP_SHARED_UMEM: u16 = 1 << 0;
/// `XDP_USE_NEED_WAKEUP`: the kernel says when it wants a system call.
pub(crate) const XDP_USE_NEED_WAKEUP: u16 = 1 << 3;
/// `XDP_USE_SG`: packets longer than a frame come in several, since Linux 6.6.
pub(crate) const XDP_USE_SG: u16 = 1 << 4;
/// Option of [`XdpDesc`]: the packet goes on in the next entry.
pub(crate) const XDP_PKT_CONTD: u32 = 1 << 0;

/// `XDP_RING_NEED_WAKEUP`: the flag by which it says so.
pub(crate) const XDP_RING_NEED_WAKEUP: u32 = 1 << 0;

/// Socket level of the options below.
pub(crate) const SOL_XDP: libc::c_int = 283;
pub(crate) const XDP_MMAP_OFFSETS: libc::c_int = 1;
pub(crate) const XDP_RX_RING: libc::c_int = 2;
pub(crate) const XDP_TX_RING: libc::c_int = 3;
pub(crate) const XDP_UMEM_REG: libc::c_int = 4;
pub(crate) const XDP_UMEM_FILL_RING: libc::c_int = 5;
pub(crate) const XDP_UMEM_COMPLETION_RING: libc::c_int = 6;
pub(crate) const XDP_STATISTICS: libc::c_int = 7;
pub(crate) const XDP_OPTIONS: libc::c_int = 8;
/// How many descriptors one kick may send in copy mode; since Linux 6.17, 32 before.
pub(crate) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// `XDP_OPTIONS_ZEROCOPY`: the socket works in zero-copy mode.
pub(crate) const XDP_OPTIONS_ZEROCOPY: u32 = 1 << 0;

pub(crate) const XDP_PGOFF_RX_RING: u64 = 0;
pub(crate) const XDP_PGOFF_TX_RING: u64 = 0x8000_0000;
pub(crate) const XDP_UMEM_PGOFF_FILL_RING: u64 = 0x1_0000_0000;
pub(crate) const XDP_UMEM_PGOFF_COMPLETION_RING: u64 = 0x1_8000_0000;

/// Socket options of busy polling (asm-generic/socket.h).
pub(crate) const SO_BUSY_POLL: libc::c_int = 46;
pub(crate) const SO_PREFER_BUSY_POLL: libc::c_int = 69;
pub(crate) const SO_BUSY_POLL_BUDGET: libc::c_int = 70;

/// Bytes that the kernel keeps free before a received packet (linux/bpf.h, uapi since 4.18).
pub(crate) const XDP_PACKET_HEADROOM: u32 = 256;

/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE` of linux/if_link.h.
pub(crate) const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
pub(crate) const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// What an XDP program answers (enum xdp_action of linux/bpf.h).
pub(crate) const XDP_PASS: i32 = 2;
/// The program's answer for packets that nobody gets.
pub(crate) const XDP_DROP: i32 = 1;

/// Name and place of a socket.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct SockaddrXdp {
    pub(crate) family: u16,
    pub(crate) flags: u16,
    pub(crate) ifindex: u32,
    pub(crate) queue_id: u32,
    pub(crate) shared_umem_fd: u32,
}

/// `struct xdp_umem_reg`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct UmemReg {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) chunk_size: u32,
    pub(crate) headroom: u32,
    pub(crate) flags: u32,
    /// Since Linux 6.8; older kernels take the shorter structure and check the rest for zero.
    pub(crate) tx_metadata_len: u32,
}

/// `struct xdp_ring_offset`: where a ring's parts lie in its mapping.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RingOffset {
    pub(crate) producer: u64,
    pub(crate) consumer: u64,
    pub(crate) desc: u64,
    pub(crate) flags: u64,
}

/// `struct xdp_mmap_offsets`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct MmapOffsets {
    pub(crate) rx: RingOffset,
    pub(crate) tx: RingOffset,
    pub(crate) fill: RingOffset,
    pub(crate) completion: RingOffset,
}

/// `struct xdp_desc`: an entry of the receive and transmit rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct XdpDesc {
    /// Offset in the UMEM.
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) options: u32,
}

/// Flag of [`UmemReg`]: `tx_metadata_len` counts (since Linux 6.11).
pub(crate) const XDP_UMEM_TX_METADATA_LEN: u32 = 1 << 2;
/// Option of [`XdpDesc`]: a [`TxMetadata`] stands before the packet.
pub(crate) const XDP_TX_METADATA: u32 = 1 << 1;
/// Flag of [`TxMetadata`]: complete a checksum.
pub(crate) const XDP_TXMD_FLAGS_CHECKSUM: u64 = 1 << 1;
/// Bytes of `struct xsk_tx_metadata` (`launch_time` included, since Linux 6.14).
pub(crate) const TX_METADATA_BYTES: usize = 24;

/// The start of `struct xsk_tx_metadata`, asking for a checksum: from `start` to the packet's end,
/// to be written at `offset` behind `start`.
pub(crate) fn checksum_request(start: u16, offset: u16) -> [u8; TX_METADATA_BYTES] {
    let mut bytes = [0; TX_METADATA_BYTES];
    bytes[..8].copy_from_slice(&XDP_TXMD_FLAGS_CHECKSUM.to_ne_bytes());
    bytes[8..10].copy_from_slice(&start.to_ne_bytes());
    bytes[10..12].copy_from_slice(&offset.to_ne_bytes());
    bytes
}

/// `struct xdp_statistics`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Statistics {
    pub(crate) rx_dropped: u64,
    pub(crate) rx_invalid_descs: u64,
    pub(crate) tx_invalid_descs: u64,
    pub(crate) rx_ring_full: u64,
    pub(crate) rx_fill_ring_empty_descs: u64,
    pub(crate) tx_ring_empty_descs: u64,
}

const _: () = assert!(size_of::<XdpDesc>() == 16 && size_of::<SockaddrXdp>() == 16);
const _: () = assert!(size_of::<UmemReg>() == 32 && size_of::<MmapOffsets>() == 128);
