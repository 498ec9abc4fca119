//! A small authoritative DNS responder as a function: query and zone in, response out (RFC 1035,
//! RFC 6891 for EDNS, RFC 4343 for upper and lower case). It neither allocates nor waits.

mod answer;
mod name;
mod query;
mod zone;

pub use answer::{Ignored, RESPONSE_BYTES_MAX, answer};
pub use name::{Name, NameError};
pub use zone::{Record, RecordError, Zone};

#[cfg(test)]
mod tests;
