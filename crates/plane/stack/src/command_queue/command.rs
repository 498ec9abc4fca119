//! What workers are told, and what they tell.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{AppId, Generation, SlotId};
use shm::sockets::Backlog;
use tcp::FlowOptions;

use crate::app_sockets::AppSockets;
use crate::datagrams::Datagrams;
use crate::eviction::Eviction;
use crate::routes::{NextHop, PortLink};
use crate::sources::Sources;

/// What workers are told.
#[derive(Clone, Debug)]
pub enum Command {
    /// An application has come.
    Add(Arc<AppSockets>),
    /// It is gone: its connections are reset.
    Remove {
        /// Which.
        app: AppId,
    },
    /// Accept connections. Several listeners of one address share them by flow hash (SO_REUSEPORT).
    Listen(Arc<Listening>),
    /// Accept no more.
    Unlisten {
        /// Whose listener.
        app: AppId,
        /// Which.
        slot: SlotId,
    },
    /// Open a connection for a slot that was lent and set up.
    Connect {
        /// Whose.
        app: AppId,
        /// Its slot.
        slot: SlotId,
        /// From where: both parts are settled.
        local: SocketAddr,
        /// To where.
        remote: SocketAddr,
        /// Its settings.
        options: FlowOptions,
        /// How its segments leave until the peer has answered.
        next_hop: NextHop,
    },
    /// Serve a UDP socket whose slot was lent and set up; one of the same slot goes.
    Bind(Arc<Datagrams>),
    /// Take their rings from connections that nobody reads, as if their peers had reset them.
    Evict(Arc<Eviction>),
    /// A worker has ended and left sockets behind whose flows are over: they are this one's now.
    Adopt,
    /// How datagrams to an address leave from now on; none: it cannot be reached.
    Resolved {
        /// The address.
        remote: std::net::IpAddr,
        /// Its way and our address on it.
        next_hop: Option<(NextHop, std::net::IpAddr)>,
    },
    /// There was no room for the question who is the next hop of an address: it may be asked again
    /// soon.
    Unasked {
        /// The address.
        remote: std::net::IpAddr,
    },
    /// Routes have changed: where first packets may come from, from now on; none: anywhere. Next
    /// hops of datagrams are asked for again.
    Sources(Option<Arc<Sources>>),
    /// What each port's interface is now. Programs are told its number with their datagrams; what
    /// left with the link address before leaves with the present one.
    Interfaces(Arc<[PortLink]>),
    /// Segments of connections that are known to nobody are not refused from now on: the kernel is
    /// about to go on with some.
    BeSilent,
    /// Let all connections go that their programs have closed and that are not over: the same, for
    /// sockets that nobody has. A worker has done so once it has dropped this.
    HandOverOrphans(Arc<()>),
    /// Let a connection go, for the kernel to go on with: a [`Parcel`](crate::Parcel) says what it
    /// was. Nobody copies into its rings or out of them any more.
    HandOver {
        /// Whose.
        app: AppId,
        /// Which.
        slot: SlotId,
        /// Of which generation.
        generation: Generation,
        /// Who waits for the parcel may take the request back first.
        request: LetGoRequest,
    },
    /// The last descriptor of a socket was closed, or its application is to have it no more.
    Close {
        /// Whose.
        app: AppId,
        /// Which.
        slot: SlotId,
        /// Of which generation: a later socket in the same slot is another.
        generation: Generation,
        /// With a reset, whatever was written.
        is_abort: bool,
    },
}

/// A request to let a connection go, until somebody decides it: the worker, which then lets it go
/// or says why not, or who has asked and waits no longer.
#[derive(Clone, Debug, Default)]
pub struct LetGoRequest(Arc<AtomicBool>);

impl LetGoRequest {
    /// True for the first who decides.
    pub fn decide(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

impl Command {
    /// Whose application it concerns.
    pub(crate) fn app(&self) -> Option<AppId> {
        match self {
            Self::Add(streams) => Some(streams.app),
            other => other.socket().map(|(app, _)| app),
        }
    }

    /// Which socket it concerns: application and slot.
    pub(super) fn socket(&self) -> Option<(AppId, SlotId)> {
        match self {
            Self::Listen(listening) => Some((listening.app.app, listening.slot)),
            Self::Bind(socket) => Some((socket.app.app, socket.slot)),
            Self::Unlisten { app, slot }
            | Self::Connect { app, slot, .. }
            | Self::HandOver { app, slot, .. }
            | Self::Close { app, slot, .. } => Some((*app, *slot)),
            Self::Add(_)
            | Self::Remove { .. }
            | Self::Resolved { .. }
            | Self::Unasked { .. }
            | Self::Evict(_)
            | Self::Sources(_)
            | Self::Interfaces(_)
            | Self::BeSilent
            | Self::HandOverOrphans(_)
            | Self::Adopt => None,
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listening {
    /// Whose.
    pub app: Arc<AppSockets>,
    /// Its slot.
    pub slot: SlotId,
    /// Where.
    pub address: SocketAddr,
    /// Connections that nobody has taken yet; those of the socket's other addresses as well.
    pub backlog: Arc<Backlog>,
    /// Connections that may be half open before cookies take their place.
    pub half_open_max: u32,
    /// Settings of every accepted flow.
    pub options: FlowOptions,
}

/// What workers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// A socket's descriptor has this cookie.
    Named {
        /// Whose.
        app: AppId,
        /// Which.
        slot: SlotId,
        /// Its generation.
        generation: Generation,
        /// SO_COOKIE.
        cookie: u64,
    },
    /// A connection that was opened here is over, or could not be opened.
    Finished {
        /// Whose.
        app: AppId,
        /// Which.
        slot: SlotId,
        /// Its generation.
        generation: Generation,
        /// Both sides have closed it, so that its name stays taken for a while: late segments may
        /// come (TIME-WAIT). One that was refused or reset leaves nothing behind.
        may_linger: bool,
    },
    /// The slot is free again.
    Freed {
        /// Whose.
        app: AppId,
        /// Which.
        slot: SlotId,
        /// The generation that has ended.
        generation: Generation,
    },
    /// An application has written what no honest one writes.
    Violation {
        /// Which.
        app: AppId,
    },
    /// Datagrams wait for a way to an address.
    Unresolved {
        /// The address.
        remote: std::net::IpAddr,
        /// The user whose program wants to send there.
        user: u32,
        /// Something came from there: a stranger may have chosen to whom it sends.
        is_answer: bool,
    },
}
