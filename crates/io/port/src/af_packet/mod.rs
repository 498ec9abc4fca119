//! A packet socket as a port: needs CAP_NET_RAW and nothing else, works on every interface.
//!
//! Where BPF is refused (an unprivileged user namespace) this is what is left. Unlike with XDP the
//! kernel sees every packet too: use addresses that it does not own, or it answers as well.

mod block;
pub(crate) mod filter;
mod open;
mod options;
mod port;

pub use options::{AfPacketOptions, FanoutMode};
pub use port::AfPacketPort;
