//! One connection at the attach server: a stranger, or the application that it has become.

use std::os::fd::AsFd;
use std::time::Instant;

use attach::{Detached, Peer, ToApp, ToDaemon};
use datapath::{AttachmentId, DetachReason};
use port::xdp::Destination;
use sys::pidfd::PidFd;

use crate::guardian::{Guarded, Guardian, Guards};
use crate::sockets::Member;

/// One connection.
pub(super) struct Client {
    pub(super) peer: Peer,
    origin: Origin,
    pub(super) since: Instant,
    /// It may have said something, or its process has ended.
    pub(super) has_news: bool,
    /// It had the opportunity to say something.
    pub(super) was_heard: bool,
    /// What it wants, until its user may begin again.
    pub(super) pending: Option<ToDaemon>,
    /// Its application, once it is in.
    pub(super) app: Option<App>,
    /// The same of a process whose sockets are served.
    pub(super) member: Option<Membership>,
}

/// By which listener a connection has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Its file says who may.
    CommandQueue,
    /// Anybody may, but only to join.
    Side,
}

/// A process with sockets.
pub(super) struct Membership {
    pub(super) member: Member,
    pub(super) process: Option<PidFd>,
    /// The guardian has the connection too.
    pub(super) guarded: Option<Guarded>,
}

/// The application of a connection.
pub(super) struct App {
    pub(super) id: AttachmentId,
    pub(super) process: Option<PidFd>,
    pub(super) destinations: Vec<Destination>,
}

impl Client {
    pub(super) fn new(peer: Peer, origin: Origin) -> Self {
        Self {
            peer,
            origin,
            since: Instant::now(),
            has_news: true,
            was_heard: false,
            pending: None,
            app: None,
            member: None,
        }
    }

    /// Whether it has not said yet what it wants.
    pub(super) fn is_stranger(&self) -> bool {
        self.app.is_none() && self.member.is_none()
    }

    /// Whether a stranger may say this first.
    pub(super) fn may_begin_with(&self, message: &ToDaemon) -> bool {
        self.origin == Origin::CommandQueue || matches!(message, ToDaemon::Join(_))
    }

    /// The process of its application.
    pub(super) fn process(&self) -> Option<&PidFd> {
        match &self.member {
            Some(member) => member.process.as_ref(),
            None => self.app.as_ref()?.process.as_ref(),
        }
    }

    /// Why the connection has ended: the descriptors of a dying process close before it is dead.
    pub(super) fn gone(&self) -> DetachReason {
        match self.process() {
            Some(process) if process.is_ending() => DetachReason::Died,
            _ => DetachReason::Left,
        }
    }

    /// The guardian, or another one, is to have the connection of a process of an application.
    pub(super) fn guard(&mut self, guardian: Option<&Guardian>) {
        let Self { peer, member: Some(membership), .. } = self else { return };
        let app = membership.member.app();
        membership.guarded =
            guardian.map(|guardian| guardian.hold(Guards::Member, app, 0, &[peer.as_fd()]));
    }

    /// Says why it is not let in.
    pub(super) fn refuse(&self, why: &str) {
        let _ = self.peer.send(&ToApp::Refused { message: why.to_owned() }, &[]);
    }

    /// The same, as the reason for which its connection ends.
    pub(super) fn refused(&self, why: &str) -> DetachReason {
        self.refuse(why);
        DetachReason::Protocol
    }

    /// Ends the connection, whoever has a copy of it. What it was told stays there to be read.
    pub(super) fn end(&self) {
        // It fails only if the other side is gone.
        let _ = rustix::net::shutdown(&self.peer, rustix::net::Shutdown::Both);
    }

    /// Says why it is out. One that does not read learns it from the end of the connection.
    pub(super) fn detach(&self, reason: DetachReason) {
        let told = Detached { reason: word(reason), message: reason.to_string() };
        let _ = self.peer.send(&ToApp::Detached(told), &[]);
    }
}

/// A reason as the application reads it.
fn word(reason: DetachReason) -> attach::DetachReason {
    attach::DetachReason::from_number(reason.code()).unwrap_or(attach::DetachReason::Other)
}

#[cfg(test)]
mod tests {
    use attach::{JoinListener, JoinRequest, Link, Profile, SocketsRequest};

    use super::*;

    #[test]
    fn who_comes_by_the_join_listener_can_only_join() {
        let side = JoinListener::open().expect("it opens");
        let _link = Link::connect_aside(side.name(), rustix::process::geteuid().as_raw())
            .expect("somebody listens");
        let peer = side.accept().expect("descriptors are left").expect("one has come");
        let client = Client::new(peer, Origin::Side);
        let join = JoinRequest { app: 1, token: String::new() };
        assert!(client.may_begin_with(&ToDaemon::Join(join)));
        let (name, profile) = ("new".to_owned(), Profile::Safe);
        let stream = SocketsRequest { name, profile, features: 0, token_before: None };
        assert!(!client.may_begin_with(&ToDaemon::Stream(stream)));
    }

    #[test]
    fn a_reason_has_the_same_name_in_memory_and_in_messages() {
        for (reason, named) in [
            (DetachReason::Left, attach::DetachReason::Left),
            (
                DetachReason::Violation(shm::ProtocolViolation::Buffer),
                attach::DetachReason::Violation,
            ),
            (DetachReason::Protocol, attach::DetachReason::Protocol),
            (DetachReason::Stalled, attach::DetachReason::Stalled),
            (DetachReason::Operator, attach::DetachReason::Operator),
            (DetachReason::DaemonEnds, attach::DetachReason::Stopping),
        ] {
            assert_eq!(word(reason), named);
        }
    }
}
