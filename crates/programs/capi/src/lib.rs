//! libcalisto: the C interface of packet mode, of sockets and of slices, thin over the crates
//! `calisto-client` and `calisto-slice`.
//!
//! The crate may use `unsafe`, since C gives it raw pointers. It checks all that can be checked:
//! null, lengths, packets that were given back already, two threads in one worker. No panic crosses
//! the boundary. The header `include/calisto.h` is generated from this crate.
#![warn(clippy::missing_errors_doc)]

mod app;
mod failure;
mod packet;
mod session;
mod slice_control;
mod slice_packet;
mod slices;
mod slots;
mod tcp;
mod udp;
mod waiting;
mod worker;

pub use app::{
    CalistoApp, CalistoOptions, CalistoPort, calisto_attach, calisto_detach, calisto_error,
    calisto_port, calisto_worker,
};
pub use failure::{
    CALISTO_BUSY, CALISTO_DETACHED, CALISTO_INVALID, CALISTO_NO_DAEMON, CALISTO_NOT_UDP,
    CALISTO_PANIC, CALISTO_REFUSED, CALISTO_SYSTEM, calisto_errno,
};
pub use packet::{
    CALISTO_CHECKSUM_PARTIAL, CALISTO_CHECKSUM_UNKNOWN, CALISTO_CHECKSUM_VERIFIED, CalistoPacket,
};
pub use session::{CalistoSession, calisto_session_close, calisto_session_open};
pub use slice_control::{
    CalistoSliceCounter, calisto_slice_attach_filter, calisto_slice_counter,
    calisto_slice_get_cpus, calisto_slice_pin, calisto_slice_poll_fd, calisto_slice_set_cpus,
};
pub use slice_packet::{CALISTO_SLICE_CHECKSUM, CALISTO_SLICE_SKIP, CalistoSlicePacket};
pub use slices::{
    CalistoSlice, CalistoSliceOptions, calisto_slice_close, calisto_slice_open,
    calisto_slice_read_multi, calisto_slice_write_multi,
};
pub use tcp::{
    CalistoListener, CalistoStream, calisto_tcp_accept, calisto_tcp_close, calisto_tcp_connect,
    calisto_tcp_is_accelerated, calisto_tcp_listen, calisto_tcp_listener_address,
    calisto_tcp_peer_address, calisto_tcp_read, calisto_tcp_set_nodelay, calisto_tcp_set_timeouts,
    calisto_tcp_shutdown, calisto_tcp_unlisten, calisto_tcp_write,
};
pub use udp::{
    CalistoUdp, calisto_udp_address, calisto_udp_bind, calisto_udp_close, calisto_udp_receive,
    calisto_udp_send, calisto_udp_set_timeout,
};
pub use waiting::{
    CALISTO_FOREVER, calisto_arm, calisto_disarm, calisto_fd, calisto_flush, calisto_wait,
};
pub use worker::{
    CalistoWorker, calisto_done, calisto_receive, calisto_reply, calisto_send, calisto_take,
};
