//! The daemon's configuration: every key, its default, its allowed values.
//!
//! A text becomes a [`Config`] or a [`ConfigError`] that names key, line and what is allowed;
//! nothing is guessed and no unknown key is passed over. No file is read here. `rule.rs` is the
//! table of all keys, `document.rs` holds a text against it, `edit.rs` does the same for one
//! `key=value` of a command line, `rewrite.rs` changes a text, `places.rs` says on which lines keys
//! stand, and `manual.rs` explains each key to people, of which `example.rs` makes a file to begin
//! with.
#![forbid(unsafe_code)]

#[cfg(test)]
mod compatibility;
mod config;
mod document;
mod edit;
mod error;
mod example;
mod log;
mod manual;
mod near;
mod places;
mod rewrite;
mod rule;
mod sockets;
mod tcp;
mod tenant;
#[cfg(test)]
mod tests;
mod value;
mod wait;
mod workers;

pub use config::{Apps, Config, Cores, FILE_BYTES_MAX, Frames, Handover, Steer};
pub use error::ConfigError;
pub use example::example;
pub use log::{Log, LogFormat, LogLevel};
pub use manual::{Key, keys, section};
pub use near::nearest;
pub use places::Places;
pub use rewrite::{NewValue, rewrite};
pub use rule::PINS_MAX;
pub use sockets::Sockets;
pub use tcp::{Congestion, Tcp};
pub use tenant::{Denied, Reach, Tenant, TenantUser};
pub use wait::{Idle, Spin, Wait};
pub use workers::{Arrangement, Job, Workers};
