//! Applications: who comes in, with what memory, and who is here.
//!
//! `attach_server.rs` is a thread that talks to applications and forwards no packets: what a
//! hostile one does to its socket holds up nobody. `guests.rs` is the loop's list of who is here
//! and who was.

mod arrival;
mod attach_server;
mod claims;
mod client;
mod guests;
mod rules;
mod streams;

pub(crate) use arrival::{Arrival, Facts, Terms};
pub(crate) use attach_server::{AttachServer, Notice, Notices};
pub(crate) use claims::Claims;
pub(crate) use guests::{Departed, Guest, Guests};
pub(crate) use rules::{RuleError, Rules};
