//! Applications: who comes in, with what memory, and who is here.
//!
//! `attach_server.rs` is a thread that talks to applications and forwards no packets: what a
//! hostile one does to its socket holds up nobody. `attached_apps.rs` is the loop's list of who is
//! here and who was.

mod arrival;
mod attach_server;
mod attached_apps;
mod claims;
mod client;
mod rules;
mod sockets;

pub(crate) use arrival::{Arrival, Facts, Terms};
pub(crate) use attach_server::{AttachServer, Notice, Notices};
pub(crate) use attached_apps::{AttachedApp, AttachedApps, Departed};
pub(crate) use claims::Claims;
pub(crate) use rules::{RuleError, Rules};
