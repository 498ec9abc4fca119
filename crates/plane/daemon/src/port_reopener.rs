//! Ports whose interface has changed: one that was removed and has come back is opened anew, and
//! one that has another link address is followed, by a thread of its own, which has the rights for
//! it and sees no packet.
//!
//! The kernel takes the program's attachment and the sockets with an interface, and one of the same
//! name that comes later is another. Program, maps of what is ours, frames and flows are still
//! here: what is missing is attached and bound again, and the event loop goes on with the new
//! sockets.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use base::{Nanos, PortId, QueueId};
use port::xdp::{Umem, XdpInterface, XdpOptions, XdpSockets};
use port::{OpenError, Opener, PortSpec, Stations};
use sys::eventfd::EventFd;
use sys::net_changes::NetChanges;
use sys::poll::Waiter;

use crate::confinement::{self, Role};
use crate::failure::Failure;
use crate::log;
use crate::station_follower::StationFollower;
use crate::watched::Watched;

/// Time between two tries to open a port whose interface is there and refuses.
const RETRY: Nanos = Nanos::from_secs(1);

/// The sockets of a port whose interface has come back.
pub(crate) struct Returned {
    /// Which port of the dispatcher.
    pub(crate) port: usize,
    pub(crate) sockets: XdpSockets,
}

/// An AF_XDP port that is to come back.
struct Kept {
    /// As it was configured.
    text: String,
    number: usize,
    interface: Arc<XdpInterface>,
    /// The number of the interface that its sockets are bound to.
    index: u32,
    queue: Option<QueueId>,
    options: XdpOptions,
}

/// What looks after the ports.
pub(crate) struct PortReopener {
    ports: Vec<Kept>,
    stations: StationFollower,
    umem: Umem,
    changes: NetChanges,
    stop: Arc<EventFd>,
    returned: Sender<Returned>,
    /// What was said of each port last.
    said: BTreeMap<usize, String>,
    /// Why the link addresses are not known, as it was said last.
    said_of_stations: Option<String>,
}

/// The thread, which ends when this is dropped.
pub(crate) struct ReopenerThread {
    thread: Option<Watched>,
    stop: Arc<EventFd>,
}

impl PortReopener {
    /// Looks after those of `ports` that `opener` has opened; what comes back is received by the
    /// other one. The link addresses of each are in its `stations` when this returns, and nothing
    /// more happens before [`Self::start`].
    ///
    /// # Errors
    /// Netlink is not available.
    pub(crate) fn new(
        ports: &[(String, PortSpec)],
        stations: impl IntoIterator<Item = Arc<Stations>>,
        opener: &Opener,
    ) -> Result<(Self, Receiver<Returned>), Failure> {
        let kept = |(number, (text, spec)): (usize, &(String, PortSpec))| {
            let PortSpec::Xdp { interface: name, queue, options, .. } = spec else { return None };
            let interface = opener.interfaces().find(|interface| interface.name() == name)?;
            Some(Kept {
                text: text.clone(),
                number,
                interface: Arc::clone(interface),
                index: interface.index(),
                queue: *queue,
                options: *options,
            })
        };
        let (returned, receiver) = channel();
        // First, so that no change goes unheard.
        let changes = NetChanges::watch()?;
        let mut stations = StationFollower::new(ports, stations, opener);
        stations.follow()?;
        let reopener = Self {
            ports: ports.iter().enumerate().filter_map(kept).collect(),
            stations,
            umem: opener.umem().clone(),
            changes,
            stop: Arc::new(EventFd::new()?),
            returned,
            said: BTreeMap::new(),
            said_of_stations: None,
        };
        Ok((reopener, receiver))
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// There are no more threads.
    pub(crate) fn start(mut self) -> std::io::Result<ReopenerThread> {
        let stop = Arc::clone(&self.stop);
        let end = || {
            tracing::error!(
                target: log::PORTS,
                "the thread that looks after the ports has died: the daemon ends"
            );
            sys::signal::request_stop();
        };
        let run = move || {
            if confinement::is_entered(Role::Ports) {
                self.run();
            }
        };
        let thread = Some(Watched::start("ports", run, end)?);
        Ok(ReopenerThread { thread, stop })
    }

    fn run(&mut self) {
        let mut is_owed = false;
        loop {
            let mut waiter = Waiter::new();
            let waits = waiter.add(self.stop.as_fd()) && waiter.add(self.changes.as_fd());
            debug_assert!(waits, "there is room for two");
            waiter.wait(if is_owed { RETRY } else { Nanos::FAR_FUTURE });
            if waiter.is_ready(0) {
                return;
            }
            if self.changes.take().links || is_owed {
                is_owed = self.look();
            }
        }
    }

    /// Follows link addresses, and opens what has come back. Whether something refuses, so that it
    /// is to be tried again.
    fn look(&mut self) -> bool {
        // Opening takes its time, and other ports go on meanwhile.
        let mut is_owed = !self.follow();
        let mut back = Vec::new();
        for at in 0..self.ports.len() {
            // Its port says itself that it is gone.
            if sys::interface::index_of(self.ports[at].interface.name()).is_none() {
                continue;
            }
            let attached = self.attach(at);
            // Its program takes packets from here on, by the link address that it has now.
            if matches!(attached, Ok(true)) {
                is_owed |= !self.follow();
            }
            let opened =
                attached.and_then(|is_another| is_another.then(|| self.open(at)).transpose());
            let Kept { text, number, .. } = &self.ports[at];
            let number = *number;
            match opened {
                Ok(None) => {}
                Ok(Some(sockets)) => {
                    self.said.remove(&number);
                    tracing::info!(target: log::PORTS, port = text, "its interface is back");
                    back.push(Returned { port: number, sockets });
                }
                Err(error) => {
                    is_owed = true;
                    let sentence = format!("it does not come back: {error}");
                    if self.said.get(&number) != Some(&sentence) {
                        tracing::warn!(target: log::PORTS, port = text, "{sentence}");
                        self.said.insert(number, sentence);
                    }
                }
            }
        }
        for returned in back {
            // The event loop has ended otherwise, and so will this thread.
            let _ = self.returned.send(returned);
        }
        is_owed
    }

    /// Writes down under which link addresses the ports are reached now. Whether that is known.
    fn follow(&mut self) -> bool {
        let error = self.stations.follow().err().map(|error| error.to_string());
        let is_known = error.is_none();
        if let Some(error) = news(&mut self.said_of_stations, error) {
            tracing::warn!(
                target: log::PORTS,
                "the link addresses of the ports are not known, and are taken to be as they were: \
                 {error}"
            );
        }
        is_known
    }

    /// Attaches a port's program, if its interface is another one. Whether it is not the one that
    /// the port's sockets are bound to.
    fn attach(&self, at: usize) -> Result<bool, OpenError> {
        let Kept { interface, index, .. } = &self.ports[at];
        interface.attach_again()?;
        Ok(interface.index() != *index)
    }

    /// Sockets for a port whose interface is another one now.
    fn open(&mut self, at: usize) -> Result<XdpSockets, OpenError> {
        let Kept { number, interface, index, queue, options, .. } = &mut self.ports[at];
        let id = PortId(u16::try_from(*number).unwrap_or(u16::MAX));
        let sockets = XdpSockets::open(interface, id, *queue, &self.umem, options)?;
        *index = interface.index();
        Ok(sockets)
    }
}

/// What is to be said now: nothing where that was said last, however often it is tried again.
fn news(said: &mut Option<String>, now: Option<String>) -> Option<&str> {
    let is_said = *said == now;
    *said = now;
    said.as_deref().filter(|_| !is_said)
}

impl Drop for ReopenerThread {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take() {
            // Its end was told when it came.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_is_said_once_until_it_is_another_thing_or_was_over() {
        let mut said = None;
        let mut tell = |error: Option<&str>| news(&mut said, error.map(str::to_owned)).is_some();
        let tries = [Some("a"), Some("a"), Some("b"), Some("b"), None, Some("b"), None, None];
        let told = tries.map(&mut tell);
        assert_eq!(told, [true, false, true, false, false, true, false, false]);
    }
}
