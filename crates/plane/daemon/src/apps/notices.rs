//! What the loop, operators and a changed configuration tell the attach server, and how.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender};

use admin::{Command, ReplyBody};
use datapath::{AppDispatch, AttachmentId, DetachReason, Listener};
use sys::eventfd::EventFd;

use crate::admin_clients::ClientId;
use crate::changes::AttachChange;

/// What the loop tells the attach server.
pub(crate) enum Notice {
    /// It has detached an application.
    Detached {
        app: AttachmentId,
        /// Whose it was, where that is known.
        uid: Option<u32>,
        reason: DetachReason,
        /// Its memory and tables, to be unmapped here.
        remains: Box<AppDispatch>,
    },
    /// An operator asks about sockets.
    Ask(Command, Option<String>, SyncSender<ReplyBody>),
    /// An operator traces requests.
    Trace(TraceAsk, SyncSender<ReplyBody>),
    /// Own listeners come with a changed configuration: their packets are to be taken from the
    /// kernel, all of them or none.
    Claim(Vec<Listener>, SyncSender<Result<(), String>>),
    /// They do not come.
    Unclaim(Vec<Listener>),
    /// The configuration has changed.
    Change(Box<AttachChange>),
    /// No new connections: the daemon is about to end.
    Drain,
    /// To be closed, some time: an application of that user has it, too, and may keep whoever
    /// closes the last copy.
    Close(u32, Box<dyn std::any::Any + Send>),
    /// Is anybody there?
    IsTurning(SyncSender<()>),
    /// The daemon ends.
    End,
}

/// What a client that traces asks.
pub(crate) enum TraceAsk {
    /// One in this many requests, of the application of that name or number, or of all.
    Begin(ClientId, Option<String>, u32),
    /// What has come since.
    Take,
    /// No more, if it is this client that traces.
    End(ClientId),
}

/// How far the attach server is with the end.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// The kernel has been handed the connections that it can go on with.
    pub(super) is_handed_over: AtomicBool,
    /// No socket of an application is left, and no new one comes.
    pub(super) is_drained: AtomicBool,
}

/// How the loop tells the attach server.
#[derive(Clone)]
pub(crate) struct Notices {
    sender: Sender<Notice>,
    eventfd: Arc<EventFd>,
    ending: Arc<Ending>,
}

impl Notices {
    pub(super) fn new(sender: Sender<Notice>, eventfd: Arc<EventFd>, ending: Arc<Ending>) -> Self {
        Self { sender, eventfd, ending }
    }

    pub(crate) fn send(&self, notice: Notice) {
        // Without an attach server nobody is attached.
        let _ = self.sender.send(notice);
        self.eventfd.ring();
    }

    /// Whether no socket of an application is left, and no new one comes.
    pub(crate) fn is_drained(&self) -> bool {
        self.ending.is_drained.load(Ordering::Acquire)
    }

    /// Whether the kernel has been handed the connections that it can go on with.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.ending.is_handed_over.load(Ordering::Acquire)
    }
}
