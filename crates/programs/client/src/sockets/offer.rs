//! Kernel sockets that are offered to the daemon, and what comes of it.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use attach::{AttachError, Call, FallbackReason, RegionKind, Reply};
use base::{RegionId, SlotId};
use rustix::io::Errno;

use super::answer::{map, unusable};
use super::poller::Poller;
use super::session::Session;
use super::socket::Socket;

/// Which side serves a socket that was offered to the daemon.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The daemon serves it.
    Ours(Socket),
    /// The kernel is to serve it, for this reason.
    Kernel(FallbackReason),
    /// The call fails with this error, as the kernel's own call would.
    Errno(Errno),
}

impl Session {
    /// Offers a bound kernel socket on which listen(2) was or will be called.
    ///
    /// # Errors
    /// The daemon is gone, or does not answer.
    pub fn listen(&self, fd: BorrowedFd<'_>, backlog: u32) -> Result<Outcome, AttachError> {
        self.offer(&Call::Listen { backlog }, fd)
    }

    /// Takes back what [`Self::listen`] has brought: connections that were not accepted are reset.
    /// The kernel socket is as it was, or listens.
    pub fn unlisten(&self, listener: &Socket) {
        let (region, slot) = listener.key();
        // A daemon that is gone listens no more.
        let _ = self.current().call(&Call::Unlisten { region: region.0, slot: slot.0 }, None);
    }

    /// Offers a kernel socket that is to be connected. If the daemon takes it, a SYN is under way:
    /// wait for the socket to be ready for writing.
    ///
    /// # Errors
    /// As for [`Self::listen`].
    pub fn connect(&self, fd: BorrowedFd<'_>, remote: SocketAddr) -> Result<Outcome, AttachError> {
        self.offer(&Call::Connect { remote }, fd)
    }

    /// Offers a bound kernel socket for datagrams, that talks to `remote` only if there is one.
    ///
    /// # Errors
    /// As for [`Self::listen`].
    pub fn udp(
        &self,
        fd: BorrowedFd<'_>,
        remote: Option<SocketAddr>,
    ) -> Result<Outcome, AttachError> {
        self.offer(&Call::Udp { remote }, fd)
    }

    /// The socket that a kernel socket from elsewhere (another process of this user, or this
    /// program before exec) stands for; none if the daemon knows of none.
    ///
    /// # Errors
    /// As for [`Self::listen`].
    pub fn adopt(&self, fd: BorrowedFd<'_>) -> Result<Option<Socket>, AttachError> {
        let session = self.current();
        let (reply, _) = session.call(&Call::Adopt, Some(fd))?;
        let Reply::Slot { region, slot } = reply else { return Ok(None) };
        let region = RegionId(region);
        if session.known(region).is_none() {
            session.map_foreign(region)?;
        }
        session.socket(region, SlotId(slot)).map(Some)
    }

    /// Maps a region of another application. Only of our own we are told which pollers there are.
    fn map_foreign(&self, region: RegionId) -> Result<(), AttachError> {
        let (reply, descriptors) = self.ask_for(region)?;
        self.keep(map(region, &reply, descriptors)?.foreign());
        Ok(())
    }

    /// Another poller.
    ///
    /// # Errors
    /// As for [`Self::listen`], or the application has as many as it may have.
    pub fn poller(&self) -> Result<Poller, AttachError> {
        Poller::new(self.current().clone())
    }

    /// Another handle of a socket, by its key.
    ///
    /// # Errors
    /// There is no such region or slot, or as for [`Self::listen`].
    pub fn socket(&self, region: RegionId, slot: SlotId) -> Result<Socket, AttachError> {
        let session = self.current();
        let region = session.region(region)?;
        Socket::new(session.clone(), region, slot)
            .ok_or_else(|| unusable("there is no such socket in its memory"))
    }

    fn offer(&self, call: &Call, fd: BorrowedFd<'_>) -> Result<Outcome, AttachError> {
        let session = self.current();
        let (reply, descriptors) = session.call(call, Some(fd))?;
        match reply {
            Reply::Slot { region, slot } => {
                if !descriptors.is_empty() {
                    // A local pair that is new to this process.
                    let (kind, side) = (RegionKind::LocalPair, SlotId(slot).end() as u8);
                    let reply = Reply::Region { kind, side };
                    session.keep(map(RegionId(region), &reply, descriptors)?);
                } else if session.known(RegionId(region)).is_none() {
                    // A listener that another application has brought, with the same descriptor.
                    session.map_foreign(RegionId(region))?;
                }
                session.socket(RegionId(region), SlotId(slot)).map(Outcome::Ours)
            }
            Reply::Kernel { reason } => Ok(Outcome::Kernel(reason)),
            Reply::Errno { errno: errno @ 1..=4095 } => {
                Ok(Outcome::Errno(Errno::from_raw_os_error(errno)))
            }
            _ => Err(unusable("it answers another question")),
        }
    }
}
