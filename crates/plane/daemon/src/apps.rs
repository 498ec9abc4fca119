//! Applications: who comes in, with what memory, and who is here.
//!
//! `attach_server.rs` is a thread that talks to applications and forwards no packets: what a
//! hostile one does to its socket holds up nobody. `attached_apps.rs` is the loop's list of who is
//! here and who was.

mod admission;
mod alone;
mod arrival;
mod attach_server;
mod attached_apps;
mod changes;
mod chatter;
mod claims;
mod client;
mod entrances;
mod notices;
mod places;
mod rules;
mod socket_file;
mod sockets;
mod strangers;

pub(crate) use arrival::{Arrival, Facts, Terms};
pub(crate) use attach_server::AttachServer;
pub(crate) use attached_apps::{AttachedApp, AttachedApps, Departed};
pub(crate) use claims::{Claims, overlap};
pub(crate) use notices::{Notice, Notices, TraceAsk};
pub(crate) use rules::{RuleError, Rules};
pub(crate) use socket_file::MODE as SOCKET_MODE;
pub(crate) use sockets::GIVEN_BYTES_MAX;
