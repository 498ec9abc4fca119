//! Capture files as a port: receiving plays one, transmitting writes one.

mod ng;
mod port;
mod reader;
mod writer;

pub use port::{Pace, PcapOptions, PcapPort};
pub use reader::{Damage, LinkedRecord, PcapReader, Record};
pub use writer::PcapWriter;
