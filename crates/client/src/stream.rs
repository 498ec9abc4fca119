//! Sockets that the daemon serves.

mod lock;
mod profile;
mod readiness;
mod verdict;

pub use profile::{NoSuchProfile, Profile};
pub use readiness::Readiness;
