//! A process's connection to the daemon for its sockets.

mod given;

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use attach::{
    AttachError, Call, DetachReason, FallbackReason, Given, JoinRequest, Link, Profile, Reply,
    SocketsRequest, Streaming,
};
use base::RegionId;
use rustix::io::Errno;
use rustix::process::{Pid, getpid};

use super::answer::{event, map, open, unusable};
use super::confined::is_confined;
use super::lock;
use super::pollers::Pollers;
use super::region::Region;
use crate::options::default_socket;

/// What a process asks for.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The daemon's socket; if not given, that of [`crate::default_socket`].
    pub socket: Option<PathBuf>,
    /// The name by which operators know the application: 1 to 32 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// How it waits.
    pub profile: Profile,
    /// What [`Session::ticket`] gave the program that this process was before exec: with it the
    /// process goes on as a member of the same application, whose sockets it may have kept. The
    /// daemon wants it to be of the same user and group by then; one that is not attaches anew,
    /// with memory of its own (see [`Session::ticket_refusal`]).
    pub ticket: Option<String>,
    /// The session of this process that ended with the daemon before, if there was one: its
    /// processes become one application again.
    pub before: Option<Session>,
}

impl SessionOptions {
    /// For an application that people call `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            socket: None,
            name: name.into(),
            profile: Profile::default(),
            ticket: None,
            before: None,
        }
    }

    fn path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(default_socket)
    }
}

/// The connection; clones are the same one. One in each process: a forked child makes its own with
/// [`Session::rejoin`] before it uses any socket.
#[derive(Clone, Debug)]
pub struct Session(Arc<Core>);

#[derive(Debug)]
struct Core {
    /// The process that it is the connection of.
    process: Pid,
    path: PathBuf,
    profile: Profile,
    streaming: Streaming,
    link: Link,
    /// Held during a call: answers are read by the thread that asked.
    calling: Mutex<()>,
    /// Connections that are the kernel's, which came while a thread waited for its answer.
    given: Mutex<Vec<Given>>,
    own: Arc<Region>,
    /// The others that were mapped: local pairs, and regions of other applications.
    others: Mutex<Vec<Arc<Region>>>,
    pollers: Arc<Pollers>,
    /// In a forked child: the session that has taken this one's place.
    successor: OnceLock<Session>,
    /// See [`Session::ticket_refusal`].
    ticket_refusal: OnceLock<String>,
}

thread_local! {
    /// This thread asks the daemon, or waits for its turn.
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
}

impl Session {
    /// Attaches to the daemon.
    ///
    /// # Errors
    /// No daemon answers, or it refuses.
    pub fn attach(options: &SessionOptions) -> Result<Self, AttachError> {
        let path = options.path();
        let mut refusal = None;
        if let Some((app, token)) = options.ticket.as_deref().and_then(read_ticket) {
            let link = Link::connect(&path)?.out_of_the_way();
            match link.join(&JoinRequest { app, token }) {
                Ok((streaming, descriptors)) => {
                    return Self::assemble(path, options.profile, link, streaming, descriptors);
                }
                Err(AttachError::Refused(why)) => refusal = Some(why),
                // An application that is no more has no sockets to go on with.
                Err(_) => {}
            }
        }
        let link = Link::connect(&path)?.out_of_the_way();
        let name = options.name.clone();
        let before = options.before.as_ref();
        let token_before = before.map(|session| session.current().0.streaming.token.clone());
        let request = SocketsRequest { name, profile: options.profile, features: 0, token_before };
        let (streaming, descriptors) = link.stream(&request)?;
        let session = Self::assemble(path, options.profile, link, streaming, descriptors)?;
        if let Some(refusal) = refusal {
            // It was empty: nobody else has the session yet.
            let _ = session.0.ticket_refusal.set(refusal);
        }
        Ok(session)
    }

    /// Why the daemon did not let this process go on with the ticket that it came with, if it did
    /// not: a sentence. The sockets that came with the process are the kernel's then.
    pub fn ticket_refusal(&self) -> Option<&str> {
        self.0.ticket_refusal.get().map(String::as_str)
    }

    /// What proves that a process belongs to this application, for the program that this one
    /// becomes by exec: see [`SessionOptions::ticket`]. A process of the same user that has it can
    /// be a member: do not show it.
    pub fn ticket(&self) -> String {
        let streaming = &self.current().0.streaming;
        format!("{}:{}", streaming.app, streaming.ticket)
    }

    /// In a forked child: a connection of its own to the same application. Sockets go on with it;
    /// pollers are the parent's and of no use here. It is let in whatever user it is by then: it
    /// shows what only memory that was forked has, and has the region mapped.
    ///
    /// # Errors
    /// As for [`Self::attach`].
    pub fn rejoin(&self) -> Result<Self, AttachError> {
        lock::note_fork();
        let core = &self.current().0;
        let link = core.reach()?.out_of_the_way();
        let token = core.streaming.token.clone();
        let (streaming, descriptors) =
            link.join(&JoinRequest { app: core.streaming.app, token })?;
        let path = core.path.clone();
        let session = Self::assemble(path, core.profile, link, streaming, descriptors)?;
        // It was empty: nobody else is in this process yet.
        let _ = core.successor.set(session.clone());
        Ok(session)
    }

    fn assemble(
        path: PathBuf,
        profile: Profile,
        link: Link,
        streaming: Streaming,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self, AttachError> {
        let mut descriptors = descriptors.into_iter();
        let (Some(memory), Some(daemon)) = (descriptors.next(), descriptors.next()) else {
            return Err(unusable("it came without shared memory"));
        };
        let region = RegionId(streaming.region);
        let own = Region::own(region, open(memory)?, event(daemon)?);
        Ok(Self(Arc::new(Core {
            process: getpid(),
            path,
            profile,
            streaming,
            pollers: Arc::new(Pollers::new()?),
            link,
            calling: Mutex::new(()),
            given: Mutex::new(Vec::new()),
            own: Arc::new(own),
            others: Mutex::new(Vec::new()),
            successor: OnceLock::new(),
            ticket_refusal: OnceLock::new(),
        })))
    }

    /// This process's session: of a forked child the one that it has rejoined with.
    pub(crate) fn current(&self) -> &Self {
        let mut current = self;
        while let Some(next) = current.0.successor.get() {
            current = next;
        }
        current
    }

    /// Whether it is this process's: not the parent's of a forked child, joined or not.
    pub(crate) fn is_current(&self) -> bool {
        self.0.successor.get().is_none() && self.0.process == getpid()
    }

    /// How this process waits.
    pub fn profile(&self) -> Profile {
        self.0.profile
    }

    /// The daemon's number for the application.
    pub fn app(&self) -> u32 {
        self.0.streaming.app
    }

    /// Tells the daemon that a socket was left to the kernel, and why, for `calisto explain`.
    pub fn fallback(&self, fd: BorrowedFd<'_>, reason: FallbackReason) {
        let session = self.current();
        if let Some(count) = session.0.own.memory.fallbacks(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        // A daemon that is gone is asked by nobody.
        let _ = session.call(&Call::Fallback { reason }, Some(fd));
    }

    /// Whether the daemon lives and serves this application.
    pub fn is_alive(&self) -> bool {
        let core = &self.current().0;
        if core.own.is_over() {
            return false;
        }
        if core.link.is_closed() {
            core.own.end(DetachReason::DaemonGone);
            for region in self.others().iter() {
                region.end(DetachReason::DaemonGone);
            }
            return false;
        }
        true
    }

    /// Whether the daemon was heard to have ended, or to have let go of this application: without a
    /// look at the connection, so that it costs next to nothing.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.current().0.own.is_over()
    }

    /// Why the daemon no longer serves this application; `None` as long as it does.
    pub fn detach_reason(&self) -> Option<DetachReason> {
        if self.is_alive() { None } else { self.current().0.own.detach_reason() }
    }

    /// The descriptors of this process that are the session's own.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let core = &self.current().0;
        let mut all = vec![core.link.as_fd().as_raw_fd()];
        core.pollers.add_descriptors(&mut all);
        core.own.add_descriptors(&mut all);
        self.others().iter().for_each(|region| region.add_descriptors(&mut all));
        all
    }

    /// Asks the daemon; one call at a time. The handler of a signal that has interrupted a call of
    /// its own thread is told that there is no answer.
    pub(crate) fn call(
        &self,
        call: &Call,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<(Reply, Vec<OwnedFd>), AttachError> {
        let core = &self.0;
        if is_confined() {
            return Err(AttachError::TimedOut);
        }
        if core.process != getpid() {
            // A forked child that could not join. The answers would be taken from the parent.
            return Err(AttachError::Closed);
        }
        if IS_CALLING.replace(true) {
            return Err(AttachError::TimedOut);
        }
        let result = {
            let _calling = core.calling.lock().unwrap_or_else(PoisonError::into_inner);
            core.link.call(call, fd, |given| self.keep_given(given))
        };
        IS_CALLING.set(false);
        if let Err(AttachError::Closed | AttachError::Detached(_)) = &result {
            core.own.end(DetachReason::DaemonGone);
        }
        result
    }

    pub(crate) fn link(&self) -> BorrowedFd<'_> {
        self.0.link.as_fd()
    }

    pub(crate) fn own_region(&self) -> &Arc<Region> {
        &self.0.own
    }

    pub(crate) fn pollers(&self) -> &Arc<Pollers> {
        &self.0.pollers
    }

    fn others(&self) -> MutexGuard<'_, Vec<Arc<Region>>> {
        self.current().0.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A region, mapped when it is named for the first time.
    pub(crate) fn region(&self, id: RegionId) -> Result<Arc<Region>, AttachError> {
        if let Some(region) = self.known(id) {
            return Ok(region);
        }
        let (reply, descriptors) = self.ask_for(id)?;
        Ok(self.keep(map(id, &reply, descriptors)?))
    }

    /// Makes sure that a region is mapped, or that asking for it again would be for nothing. A
    /// connection that another application's listener has taken is in a region of that one.
    ///
    /// # Errors
    /// EMFILE and the like: there are no descriptors for it, or no memory.
    pub(crate) fn reach(&self, id: RegionId, is_foreign: bool) -> Result<(), Errno> {
        if self.known(id).is_some() {
            return Ok(());
        }
        match self.ask_for(id) {
            Ok((reply @ Reply::Region { .. }, descriptors)) => {
                let region = map(id, &reply, descriptors).map_err(|_| Errno::MFILE)?;
                self.keep(if is_foreign { region.foreign() } else { region });
                Ok(())
            }
            // Descriptors that do not fit into this process come as too many.
            Err(AttachError::Protocol(_)) => Err(Errno::MFILE),
            Err(AttachError::System(error)) => Err(error.errno()),
            _ => Ok(()),
        }
    }

    /// A region that is mapped already.
    pub(crate) fn known(&self, id: RegionId) -> Option<Arc<Region>> {
        if id == self.0.own.id {
            return Some(Arc::clone(&self.0.own));
        }
        self.others().iter().find(|region| region.id == id).map(Arc::clone)
    }

    /// Asks the daemon for a region.
    pub(crate) fn ask_for(&self, id: RegionId) -> Result<(Reply, Vec<OwnedFd>), AttachError> {
        self.call(&Call::Region { region: id.0 }, None)
    }

    /// Keeps a region that was mapped, unless another thread has done so meanwhile. Those that are
    /// over and that no socket uses any more are let go.
    pub(crate) fn keep(&self, region: Region) -> Arc<Region> {
        let mut others = self.others();
        others.retain(|known| Arc::strong_count(known) > 1 || !known.is_over());
        if let Some(known) = others.iter().find(|known| known.id == region.id) {
            return Arc::clone(known);
        }
        let region = Arc::new(region);
        others.push(Arc::clone(&region));
        region
    }
}

impl Core {
    /// Another connection to the daemon that this one leads to. A process that has changed its root
    /// since does not see the daemon's file any more.
    fn reach(&self) -> Result<Link, AttachError> {
        let Some(join_listener) = &self.streaming.join_listener else {
            return Link::connect(&self.path);
        };
        Link::connect_aside(join_listener, self.link.daemon_uid())
            .or_else(|_| Link::connect(&self.path))
    }
}

/// An application's number and the proof of belonging to it.
fn read_ticket(ticket: &str) -> Option<(u32, String)> {
    let (app, token) = ticket.split_once(':')?;
    Some((app.parse().ok()?, token.to_owned()))
}
