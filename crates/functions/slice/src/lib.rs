//! Slices: one queue of every chosen NIC, some CPUs and their memory, in the hands of one thread.
//!
//! A slice reads batches of packets from its ports and writes batches to them, without a copy in
//! between: all its ports share one pool of frames. Slices share nothing, so that n of them on n
//! cores do n times the work. Read `slice.rs` first; a program that changes nothing is
//!
//! ```no_run
//! # fn main() -> Result<(), calisto_slice::SliceError> {
//! use base::PortId;
//! use calisto_slice::{Slice, SliceSpec};
//!
//! let ports = ["xdp:eth0", "xdp:eth1"].map(|port| port.parse().expect("these are ports"));
//! let mut slice = Slice::open(&SliceSpec::new("bridge", ports.to_vec()))?;
//! let mut batch = shm::Batch::new();
//! loop {
//!     if slice.read_multi(&mut batch, sys::clock::now()) == 0 {
//!         slice.wait(base::Nanos::FAR_FUTURE);
//!         continue;
//!     }
//!     for frame in &mut batch {
//!         let meta = frame.meta_mut();
//!         (meta.port, meta.transmit) = (PortId(1 - meta.port.0), true);
//!     }
//!     slice.write_multi(&mut batch, sys::clock::now());
//!     slice.give_back(&mut batch);
//! }
//! # }
//! ```
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

mod counters;
mod error;
mod filter;
mod kernel_side;
mod receive;
mod slice;
mod spec;
mod symmetric_rss;
mod transmit;
mod wait;

pub use counters::SliceCounters;
pub use error::SliceError;
pub use kernel_side::KernelSide;
pub use port::{Filter, FilterError, Judge};
pub use slice::Slice;
pub use spec::SliceSpec;
pub use symmetric_rss::{SymmetricRss, symmetric_key};
pub use wait::Waker;
