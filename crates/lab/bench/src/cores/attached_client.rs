//! The daemon's side of an attachment, so that a real client's worker waits for the allocator of a
//! realm.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use attach::{AttachListener, Attached, Peer, Received, ToApp};
use calisto_client::{App, AttachOptions, CoresClass, CoresRequest, Worker};
use sys::eventfd::EventFd;
use testbed::ScratchDir;

use super::realm::Subject;
use crate::error::{Error, OrNeeds};

/// Both ends are in this process.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client that is attached, with its only worker.
pub(super) struct AttachedClient {
    pub(super) worker: Worker,
    pub(super) app: App,
    /// Closed, it ends the attachment.
    pub(super) peer: Peer,
}

/// Attaches a client to what was made for it.
pub(super) fn attach(subject: &Subject) -> Result<AttachedClient, Error> {
    let folder = ScratchDir::new("cores").or_needs("folder for a socket")?;
    let path = folder.path().join("apps.sock");
    let listener = AttachListener::bind(&path, 0o600).or_needs("socket to attach at")?;
    let cores =
        CoresRequest { guaranteed: 1, burst: None, class: CoresClass::Latency, queue_delay_us: 0 };
    let options = AttachOptions::new("worker").socket(path).cores(cores);
    let options = options.listen("udp:10.0.0.1:1");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| App::attach(&options));
        let peer = answer(&listener, subject);
        let asked = asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (app, mut workers) = asked.or_needs("attachment")?;
        let worker = workers.pop().ok_or("it has no worker").or_needs("attachment")?;
        Ok(AttachedClient { worker, app, peer: peer? })
    })
}

/// Lets the next one in.
fn answer(listener: &AttachListener, subject: &Subject) -> Result<Peer, Error> {
    let eventfd = EventFd::new().or_needs("eventfd")?;
    let attached = Attached {
        id: 1,
        workers: subject.doorbells.len() as u32,
        ports: Vec::new(),
        on_granted_cores: true,
        features: 0,
    };
    let began = Instant::now();
    let mut come = None;
    while began.elapsed() < TIMEOUT {
        if come.is_none() {
            come = listener.accept().or_needs("attachment")?;
        }
        if let Some(peer) = &come
            && let Received::Message(_) = peer.receive().or_needs("attachment")?
        {
            let first = [subject.region.as_fd(), eventfd.as_fd()];
            let all: Vec<_> =
                first.into_iter().chain(subject.doorbells.iter().map(AsFd::as_fd)).collect();
            peer.send(&ToApp::Attached(attached), &all).or_needs("attachment")?;
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    come.ok_or("nobody came").or_needs("attachment")
}
