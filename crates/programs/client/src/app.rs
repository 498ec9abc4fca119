//! The attachment of an application.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attach::{
    AttachError, AttachRequest, Attached, DetachReason, Detached, Link, PortInfo, ToApp, ToDaemon,
};
use base::Nanos;
use shm::packets::PacketMemory;
use std::os::fd::AsFd;
use sys::eventfd::EventFd;

use crate::options::AttachOptions;
use crate::shared::{self, Shared};
use crate::worker::Worker;

/// The daemon allocates memory and changes its ports' rules before it answers.
const ANSWER_MAX: Nanos = Nanos::from_secs(10);

/// Between two attempts while there is no daemon.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// An attached application. It stays attached until this and all of its workers are dropped, or
/// until [`App::detach`].
#[derive(Debug)]
pub struct App {
    shared: Arc<Shared>,
    attached: Attached,
}

impl App {
    /// Attaches. The workers come in their order; each is for one thread.
    ///
    /// # Errors
    /// No daemon answers (after [`AttachOptions::wait`]), or it refuses.
    pub fn attach(options: &AttachOptions) -> Result<(Self, Vec<Worker>), AttachError> {
        let path = options.path();
        let begun = Instant::now();
        loop {
            match Self::attach_once(&path, &options.request) {
                Err(error) if error.may_pass() && begun.elapsed() < options.wait => {
                    std::thread::sleep(RETRY_AFTER.min(options.wait));
                }
                result => return result,
            }
        }
    }

    fn attach_once(
        path: &Path,
        request: &AttachRequest,
    ) -> Result<(Self, Vec<Worker>), AttachError> {
        let link = Link::connect(path)?;
        link.send(&ToDaemon::Attach(request.clone()))?;
        let (message, descriptors) = link.receive(ANSWER_MAX)?.ok_or(AttachError::TimedOut)?;
        let attached = match message {
            ToApp::Attached(attached) => attached,
            ToApp::Refused { message } => return Err(AttachError::Refused(message)),
            ToApp::Detached(detached) => return Err(AttachError::Refused(detached.to_string())),
            ToApp::Streaming(_) | ToApp::Reply { .. } | ToApp::Given { .. } => {
                return Err(AttachError::Protocol("the daemon answered something else".to_owned()));
            }
        };
        Self::assemble(link, attached, descriptors)
    }

    /// Puts together what the daemon sent, once it is found to fit together.
    fn assemble(
        link: Link,
        attached: Attached,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(Self, Vec<Worker>), AttachError> {
        let wrong = |what: &str| {
            AttachError::Protocol(format!(
                "the daemon's answer cannot be used: {what}; build both from the same release"
            ))
        };
        let count = descriptors.len();
        let mut descriptors = descriptors.into_iter();
        let (Some(region), Some(daemon)) = (descriptors.next(), descriptors.next()) else {
            return Err(wrong("it came without shared memory"));
        };
        if count - 2 != attached.workers as usize {
            return Err(wrong("it came without a pipe for each worker"));
        }
        let mut memory =
            PacketMemory::open(region).map_err(|error| AttachError::Protocol(error.to_string()))?;
        if memory.sizes().workers != attached.workers {
            return Err(wrong("its memory is for another number of workers"));
        }
        if attached.on_granted_cores {
            // A worker that must give its core back may be in a system call of its own.
            sys::signal::install_nudge_handler()
                .map_err(|error| AttachError::Protocol(error.to_string()))?;
        }
        let ends: Vec<_> = (0..attached.workers).filter_map(|worker| memory.end(worker)).collect();
        let shared = Arc::new(Shared::new(link, memory, EventFd::from_fd(daemon)?));
        let workers = ends
            .into_iter()
            .zip(descriptors)
            .map(|(end, pipe)| {
                Worker::new(end, pipe, Arc::clone(&shared), attached.on_granted_cores)
            })
            .collect::<Result<_, _>>()?;
        Ok((Self { shared, attached }, workers))
    }

    /// The daemon's number for it.
    pub fn id(&self) -> u32 {
        self.attached.id
    }

    /// The daemon's ports; a packet's [`base::PortId`] is an index of these.
    pub fn ports(&self) -> &[PortInfo] {
        &self.attached.ports
    }

    /// Whether the daemon is still there.
    pub fn is_attached(&self) -> bool {
        self.shared.look().is_ok()
    }

    /// Why it is no longer attached.
    pub fn detached_reason(&self) -> Option<Detached> {
        self.shared.look().err()
    }

    /// Readable when the attachment has ended.
    pub fn closed_fd(&self) -> BorrowedFd<'_> {
        self.shared.link.as_fd()
    }

    /// Ends the attachment. The workers' next calls say so; what they have not sent is lost.
    pub fn detach(self) {
        self.shared.end(shared::of(DetachReason::Left));
        self.shared.link.close();
    }
}
