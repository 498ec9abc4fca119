//! The loop's list of applications: who is here, who was, and whose ringing counts.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use base::Nanos;
use datapath::counters::CounterReader;
use datapath::{AppDispatch as Remains, AttachmentId, DetachReason, RateLimit};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use sys::eventfd::EventFd;

use crate::apps::arrival::Facts;
use crate::apps::notices::{Notice, Notices};

/// Applications that are gone and still spoken of.
const DEPARTED_MAX: usize = 64;

/// Wake-ups for nothing that an application may cause in a second. One costs a few microseconds
/// of a loop that has nothing else to do.
const NEEDLESS_PER_SECOND: u32 = 1000;
const NEEDLESS_AT_ONCE: u32 = 100;

/// Every application that is or was here.
pub(crate) struct AttachedApps {
    present: Vec<AttachedApp>,
    departed: VecDeque<Departed>,
    /// All eventfds, edge by edge: each ringing is one event, and nothing is ever read from a
    /// descriptor whose flags an application can change.
    doorbells: OwnedFd,
    notices: Option<Notices>,
}

/// An application that is here.
pub(crate) struct AttachedApp {
    pub(crate) id: AttachmentId,
    pub(crate) facts: Facts,
    eventfd: Arc<EventFd>,
    needless: RateLimit,
    /// It rang too often for nothing and is not listened to until then.
    muted_until: Option<Nanos>,
    /// Times that it was muted.
    pub(crate) muted: u64,
}

/// An application that is gone.
pub(crate) struct Departed {
    pub(crate) id: AttachmentId,
    pub(crate) facts: Facts,
    pub(crate) reason: DetachReason,
    pub(crate) counters: CounterReader,
}

impl AttachedApps {
    pub(crate) fn new() -> Result<Self, sys::SysError> {
        let doorbells = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| {
            sys::SysError::new("make an epoll", errno, "raise the limit of open files (ulimit -n)")
        })?;
        Ok(Self { present: Vec::new(), departed: VecDeque::new(), doorbells, notices: None })
    }

    /// From now on the attach server is told who is detached.
    pub(crate) fn tell(&mut self, notices: Notices) {
        self.notices = Some(notices);
    }

    /// The way to the attach server, if there is one.
    pub(crate) fn notices(&self) -> Option<Notices> {
        self.notices.clone()
    }

    /// The daemon is about to end: no new connections.
    pub(crate) fn drain_attach_server(&self) {
        if let Some(notices) = &self.notices {
            notices.send(Notice::Drain);
        }
    }

    /// Whether the kernel has been handed what it can go on with.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.notices.as_ref().is_none_or(Notices::is_handed_over)
    }

    /// Whether no connection of an application is left, since [`Self::drain_attach_server`].
    pub(crate) fn are_sockets_closed(&self) -> bool {
        self.notices.as_ref().is_none_or(Notices::is_drained)
    }

    /// The daemon ends: the attach server may close.
    pub(crate) fn close_attach_server(&self) {
        if let Some(notices) = &self.notices {
            notices.send(Notice::End);
        }
    }

    pub(crate) fn add(&mut self, id: AttachmentId, facts: Facts, eventfd: Arc<EventFd>) {
        let data = EventData::new_u64(u64::from(id.number()));
        // Without it the application is heard when the loop wakes for other reasons.
        let _ = epoll::add(&self.doorbells, &*eventfd, data, EventFlags::IN | EventFlags::ET);
        self.present.push(AttachedApp {
            id,
            facts,
            eventfd,
            needless: RateLimit::new(NEEDLESS_PER_SECOND, NEEDLESS_AT_ONCE),
            muted_until: None,
            muted: 0,
        });
    }

    /// It is detached.
    pub(crate) fn remove(
        &mut self,
        app: AttachmentId,
        reason: DetachReason,
        remains: Box<Remains>,
    ) {
        let counters = remains.counters();
        let found = self.present.iter().position(|attached_app| attached_app.id == app);
        let uid = found.map(|at| self.present[at].facts.who.uid);
        if let Some(notices) = &self.notices {
            notices.send(Notice::Detached { app, uid, reason, remains });
        }
        let Some(at) = found else { return };
        let attached_app = self.present.swap_remove(at);
        let _ = epoll::delete(&self.doorbells, &*attached_app.eventfd);
        if self.departed.len() == DEPARTED_MAX {
            self.departed.pop_front();
        }
        let AttachedApp { id, facts, eventfd, .. } = attached_app;
        if let Some(notices) = &self.notices {
            notices.send(Notice::Close(facts.who.uid, Box::new(eventfd)));
        }
        self.departed.push_back(Departed { id, facts, reason, counters });
    }

    pub(crate) fn present(&self) -> &[AttachedApp] {
        &self.present
    }

    /// Latest last.
    pub(crate) fn departed(&self) -> impl DoubleEndedIterator<Item = &Departed> {
        self.departed.iter()
    }

    /// By its number, or by its name when only one has it.
    pub(crate) fn find(&self, text: &str) -> Result<&AttachedApp, String> {
        let by_number = text.parse().ok().and_then(|number: u32| {
            self.present.iter().find(|attached_app| attached_app.id.number() == number)
        });
        if let Some(attached_app) = by_number {
            return Ok(attached_app);
        }
        let mut named = self.present.iter().filter(|attached_app| attached_app.facts.name == text);
        match (named.next(), named.next()) {
            (Some(attached_app), None) => Ok(attached_app),
            (Some(_), Some(_)) => {
                Err(format!("several applications are called \"{text}\": name it by its number"))
            }
            (None, _) => Err(format!("no application \"{text}\" is attached: see `calisto apps`")),
        }
    }

    /// After a sleep: who rang, and whether it had anything to say.
    pub(crate) fn heard(&mut self, now: Nanos, has_messages: impl Fn(AttachmentId) -> bool) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let no_wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&self.doorbells, &mut events[..], Some(&no_wait)).unwrap_or(0);
        for event in &events[..count] {
            let number = event.data.u64();
            let is_it =
                |attached_app: &&mut AttachedApp| u64::from(attached_app.id.number()) == number;
            let Some(attached_app) = self.present.iter_mut().find(is_it) else { continue };
            if !has_messages(attached_app.id) && !attached_app.needless.take(now) {
                attached_app.muted_until = Some(attached_app.needless.next());
                attached_app.muted += 1;
                let _ = epoll::delete(&self.doorbells, &*attached_app.eventfd);
            }
        }
    }

    /// Listens again to those whose time has come; when the next one's does.
    pub(crate) fn unmute(&mut self, now: Nanos) -> Nanos {
        let mut next = Nanos::FAR_FUTURE;
        for attached_app in &mut self.present {
            match attached_app.muted_until {
                Some(until) if until <= now => {
                    attached_app.muted_until = None;
                    let data = EventData::new_u64(u64::from(attached_app.id.number()));
                    let flags = EventFlags::IN | EventFlags::ET;
                    // What it rang meanwhile is an event at once.
                    let _ = epoll::add(&self.doorbells, &*attached_app.eventfd, data, flags);
                }
                Some(until) => next = next.min(until),
                None => {}
            }
        }
        next
    }
}

impl AsFd for AttachedApps {
    /// Readable when somebody rang.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbells.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use attach::PeerCredentials;
    use shm::packets::PacketSizes;
    use sys::poll::wait_readable;

    use super::*;

    fn facts(name: &str) -> Facts {
        Facts {
            name: name.to_owned(),
            who: PeerCredentials { pid: 1, uid: 0, gid: 0 },
            listen: Vec::new(),
            sizes: PacketSizes {
                workers: 1,
                ring_slots: 2,
                chunk_bytes: 2048,
                receive_chunks: 1,
                send_chunks: 0,
                handovers: 1,
            },
            packets_per_s: 0,
            wakes_per_s: 0,
            memory_bytes_max: 0,
        }
    }

    #[test]
    fn who_rings_for_nothing_too_often_is_not_heard_for_a_while_and_then_again() {
        let mut attached_apps = AttachedApps::new().expect("descriptors are left");
        let doorbell = Arc::new(EventFd::new().expect("descriptors are left"));
        attached_apps.add(AttachmentId::OWN, facts("loud"), Arc::clone(&doorbell));
        let now = Nanos::from_secs(1);
        let mut heard = 0;
        for _ in 0..500 {
            doorbell.ring();
            if wait_readable(attached_apps.as_fd(), Nanos::ZERO) {
                heard += 1;
            }
            attached_apps.heard(now, |_| false);
        }
        assert_eq!(heard, NEEDLESS_AT_ONCE + 1, "one more, which mutes it");
        let until = attached_apps.unmute(now);
        assert!(until > now && until < now + Nanos::from_millis(10));
        assert_eq!(attached_apps.unmute(until), Nanos::FAR_FUTURE);
        assert!(wait_readable(attached_apps.as_fd(), Nanos::ZERO), "it rang meanwhile");
    }

    #[test]
    fn who_has_something_to_say_is_heard_however_often() {
        let mut attached_apps = AttachedApps::new().expect("descriptors are left");
        let doorbell = Arc::new(EventFd::new().expect("descriptors are left"));
        attached_apps.add(AttachmentId::OWN, facts("busy"), Arc::clone(&doorbell));
        for _ in 0..500 {
            doorbell.ring();
            assert!(wait_readable(attached_apps.as_fd(), Nanos::ZERO));
            attached_apps.heard(Nanos::ZERO, |_| true);
            assert!(
                !wait_readable(attached_apps.as_fd(), Nanos::ZERO),
                "each ringing is heard once"
            );
        }
    }

    #[test]
    fn an_application_is_found_by_number_or_by_a_name_of_its_own() {
        let mut attached_apps = AttachedApps::new().expect("descriptors are left");
        let doorbell = Arc::new(EventFd::new().expect("descriptors are left"));
        attached_apps.add(AttachmentId::OWN, facts("dns"), Arc::clone(&doorbell));
        assert!(attached_apps.find("dns").is_ok());
        assert!(attached_apps.find(&AttachmentId::OWN.number().to_string()).is_ok());
        assert!(attached_apps.find("web").is_err_and(|why| why.contains("calisto apps")));
        attached_apps.add(AttachmentId::OWN, facts("dns"), doorbell);
        assert!(attached_apps.find("dns").is_err_and(|why| why.contains("several")));
    }
}
