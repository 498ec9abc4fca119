//! Time, ids, units and the frame descriptor: the words every other crate shares.
#![forbid(unsafe_code)]

mod frame;
mod id;
mod text;
mod time;

pub use frame::{ChecksumState, FrameDesc, FrameMeta, NO_FRAGMENT, TxChecksum};
pub use id::{
    AppId, Epoch, FlowGroup, FlowHash, Generation, PortId, QueueId, RegionId, SlotId, WorkerId,
};
pub use text::printable;
pub use time::Nanos;

/// Frames in a full batch: the unit of work of ports, dispatcher and workers.
///
/// 64 amortises one kick or one index publication over enough packets that it no longer shows
/// (Shenango, DPDK and AF_XDP samples use 32 to 64), and 64 descriptors still fit in L1.
pub const BURST: usize = 64;
