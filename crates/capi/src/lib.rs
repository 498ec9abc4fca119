//! libcalisto: the C interface of packet mode, a thin skin over the crate `client`.
//!
//! One of the crates that may use `unsafe`: what C gives are raw pointers. Everything that can be
//! checked is: null, lengths, packets that were given back already, two threads in one worker. No
//! panic crosses the boundary. The header `include/calisto.h` is generated from this crate.

mod app;
mod failure;
mod packet;
mod slots;
mod waiting;
mod worker;

pub use app::{
    CalistoApp, CalistoOptions, CalistoPort, calisto_attach, calisto_detach, calisto_error,
    calisto_port, calisto_worker,
};
pub use failure::{
    CALISTO_BUSY, CALISTO_DETACHED, CALISTO_INVALID, CALISTO_NO_DAEMON, CALISTO_NOT_UDP,
    CALISTO_PANIC, CALISTO_REFUSED, CALISTO_SYSTEM,
};
pub use packet::{
    CALISTO_CHECKSUM_PARTIAL, CALISTO_CHECKSUM_UNKNOWN, CALISTO_CHECKSUM_VERIFIED, CalistoPacket,
};
pub use waiting::{
    CALISTO_FOREVER, calisto_arm, calisto_disarm, calisto_fd, calisto_flush, calisto_wait,
};
pub use worker::{
    CalistoWorker, calisto_done, calisto_receive, calisto_reply, calisto_send, calisto_take,
};
