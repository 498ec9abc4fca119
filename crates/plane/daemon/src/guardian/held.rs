//! What the guardian holds.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use attach::{Peer, ToApp};
use base::{AppId, Nanos};
use port::xdp::{Take, XdpInterface, XdpRights};
use rustix::process::Signal;
use sys::pidfd::PidFd;

use super::message::{Kind, Message};
use super::spent::is_spent;
use crate::sockets::closer::Closer;

/// Time between two looks whether the daemon can do anything any more, and looks after it was
/// killed: five seconds.
const ENDS_EVERY: Nanos = Nanos::from_millis(100);
const ENDS_LOOKS: usize = 50;

/// An application.
pub(super) struct App {
    key: u64,
    pub(super) number: AppId,
    pub(super) uid: u32,
    /// Its region, and the records of its connections.
    pub(super) memory: OwnedFd,
    pub(super) records: OwnedFd,
}

/// A process of an application.
pub(super) struct Member {
    key: u64,
    app: AppId,
    pub(super) peer: Peer,
}

/// Where a poller of an application is woken.
pub(super) struct Poller {
    key: u64,
    pub(super) app: AppId,
    pub(super) number: u32,
    pub(super) pipe: OwnedFd,
}

/// The daemon's process.
struct DaemonProcess {
    pid: u32,
    /// Readable once it is dead.
    process: OwnedFd,
}

/// Everything.
#[derive(Default)]
pub(super) struct Held {
    pub(super) apps: Vec<App>,
    pub(super) members: Vec<Member>,
    pub(super) pollers: Vec<Poller>,
    pub(super) interfaces: Vec<Arc<XdpInterface>>,
    /// Open, and no more.
    sockets: Vec<OwnedFd>,
    daemon: Option<DaemonProcess>,
    /// Closes what processes have sent.
    closer: Option<Closer>,
    /// The daemon's place.
    lock: Option<OwnedFd>,
}

impl Held {
    /// Does what the daemon says.
    ///
    /// # Errors
    /// What came is none of what was agreed on, or there were no descriptors left for it: then
    /// nobody knows what is held, and it is better that nobody guards.
    pub(super) fn heed(&mut self, message: Message, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let Message { kind, key, app, number, text } = message;
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or(io::Error::from(ErrorKind::InvalidData));
        match kind {
            Kind::Begin => {
                let pid = u32::try_from(key).map_err(io::Error::other)?;
                self.daemon = Some(DaemonProcess { pid, process: next()? });
                self.lock = next().ok();
            }
            Kind::App => {
                let uid = u32::try_from(number).map_err(io::Error::other)?;
                let (memory, records) = (next()?, next()?);
                self.apps.push(App { key, number: app, uid, memory, records });
            }
            Kind::Member => {
                let peer = Peer::new(next()?).map_err(io::Error::other)?;
                self.members.push(Member { key, app, peer });
            }
            Kind::Poller => {
                let number = u32::try_from(number).map_err(io::Error::other)?;
                self.pollers.push(Poller { key, app, number, pipe: next()? });
            }
            Kind::Interface => {
                let (ours, flows, sockets) = (next()?, next()?, next()?);
                let rights = XdpRights { ours, flows, sockets, link: next().ok() };
                let interface = XdpInterface::from_rights(&text, Take::Ours, rights);
                self.interfaces.push(Arc::new(interface.map_err(io::Error::other)?));
            }
            Kind::Socket => self.sockets.push(next()?),
            Kind::Gone => {
                self.apps.retain(|app| app.key != key);
                for Member { peer, .. } in self.members.extract_if(.., |member| member.key == key) {
                    // With it goes what the process has sent and nobody has read: descriptors whose
                    // close may take as long as it likes, if the daemon has closed its own before.
                    let closer = self.closer.take().or_else(|| Closer::start().ok());
                    self.closer = closer;
                    if let Some(closer) = &mut self.closer {
                        closer.close(peer.credentials().uid, peer);
                    }
                }
                self.pollers.retain(|poller| poller.key != key);
            }
            Kind::Bye | Kind::Start | Kind::Stop | Kind::Alive | Kind::Ending => {}
        }
        Ok(())
    }

    /// Waits until no thread of the daemon can do anything any more.
    pub(super) fn await_death(&self) {
        while !self.has_ended() {}
    }

    /// Waits, not long, for the same after it was killed: where a program keeps one of its threads
    /// in the kernel its channel stays open.
    pub(super) fn ends_soon(&self) -> bool {
        (0..ENDS_LOOKS).any(|_| self.has_ended())
    }

    /// Whether no thread of the daemon can do anything any more; waits a moment for that.
    fn has_ended(&self) -> bool {
        self.daemon.as_ref().is_none_or(|DaemonProcess { pid, process }| {
            sys::poll::wait_readable(process.as_fd(), ENDS_EVERY) || is_spent(*pid)
        })
    }

    /// Ends a daemon that hangs, unless a debugger has it. Whether it does.
    pub(super) fn end_daemon(&self) -> bool {
        let Some(DaemonProcess { pid, process }) = &self.daemon else { return false };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        let is_traced = tracer.is_none_or(|tracer| tracer.trim() != "0");
        !is_traced && rustix::process::pidfd_send_signal(process, Signal::KILL).is_ok()
    }

    /// Those of an application: each process, as far as it has a number here.
    pub(super) fn members_of(&self, app: AppId) -> impl DoubleEndedIterator<Item = &Member> {
        self.members.iter().filter(move |member| member.app == app)
    }

    /// Lets go of the interfaces, so that what comes is the kernel's, and of the daemon's place.
    pub(super) fn let_go_of_interfaces(&mut self) {
        self.interfaces.clear();
        self.sockets.clear();
        self.lock = None;
    }
}

impl Member {
    pub(super) fn pid(&self) -> u32 {
        self.peer.credentials().pid
    }

    /// Whether the process lives: its number is its own then.
    pub(super) fn lives(&self) -> bool {
        PidFd::of_peer(self.peer.as_fd()).is_ok_and(|process| !process.is_dead())
    }

    /// Has it put a socket in the place of the one with this cookie.
    pub(super) fn give(&self, cookie: u64, socket: BorrowedFd<'_>) -> bool {
        self.peer.send(&ToApp::Given { cookie }, &[socket]).unwrap_or(false)
    }
}
