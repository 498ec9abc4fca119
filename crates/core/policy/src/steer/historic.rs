//! Rules of the past, kept to be measured against: what a paper printed, and what its code did.

mod listing3;
mod public_code;

pub(super) use listing3::Listing3;
pub(super) use public_code::PublicCode;
