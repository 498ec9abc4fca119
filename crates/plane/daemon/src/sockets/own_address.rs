//! The address that a connection comes from: the program's choice or the kernel's, guarded there.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use attach::FallbackReason;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use sys::SysError;
use sys::port_guard::PortGuard;
use sys::socket;
use sys::socket_owner::{self, Transport};

use super::answer::Refusal;
use super::aside::Passed;
use super::asking::Asking;
use super::descriptors::{Descriptors, Payer};
use super::examine::Examined;
use super::guards::{Guard, Holds, flow};
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent;

/// A connection's own address, guarded in the kernel.
pub(super) struct OwnAddress {
    pub(super) local: SocketAddr,
    /// The program has not chosen the port.
    pub(super) is_automatic: bool,
    pub(super) guard: Option<Guard>,
}

/// For whom an address is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    /// The user and the program to whose share the guard goes.
    pub(super) payer: Payer,
    /// Its user may have one more port that is chosen for it.
    pub(super) may_have_a_port: bool,
}

/// Why a connection gets no address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Its user has as many as it may.
    Share(AttachServerEvent),
    Refused(Refusal),
}

impl From<AttachServerEvent> for Taken {
    fn from(share: AttachServerEvent) -> Self {
        Self::Share(share)
    }
}

impl From<Refusal> for Taken {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Taken> for Refusal {
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Share(_) => FallbackReason::TooManySockets.into(),
            Taken::Refused(refusal) => refusal,
        }
    }
}

impl OwnAddress {
    /// From `source`, at the port that the socket is bound to; at one that the kernel chooses, and
    /// binds it to, if there is none.
    pub(super) fn take(
        examined: &Examined,
        source: IpAddr,
        remote: SocketAddr,
        who: Who,
        holds: &mut Holds,
        descriptors: &mut Descriptors,
        asking: &mut Asking<'_>,
    ) -> Result<Self, Taken> {
        let Who { payer, may_have_a_port } = who;
        let socket = Passed::clone(&examined.socket);
        let bound = SocketAddr::new(source, examined.local.port());
        if bound.port() == 0 {
            let port = match may_have_a_port {
                true => asking
                    .ask(move || bind_and_guard(&socket, source))
                    .unwrap_or(Err(FallbackReason::DaemonBusy.into()))
                    .map_err(Taken::Refused),
                false => Err(AttachServerEvent::PortShareUsedUp.into()),
            };
            return match port {
                Ok((address, guard)) => {
                    let local = SocketAddr::new(source, address.port());
                    let guard = guard_of(local, || guard, payer, holds, descriptors)?;
                    Ok(Self { local, is_automatic: true, guard })
                }
                // One that leads to other peers only. The program's own socket has no port then.
                Err(taken) => {
                    let (local, guard) =
                        holds.shared_port(source, remote, payer.uid).ok_or(taken)?;
                    Ok(Self { local, is_automatic: true, guard: Some(guard) })
                }
            };
        }
        if holds.has_chosen((bound, remote)) {
            // It was connected there before, and that connection may not be over yet: the next one
            // has another port, as Linux gives it when a socket is connected again (connect(2):
            // AF_UNSPEC).
            Self::beside_the_socket(source, payer, descriptors)
        } else {
            let late = || SysError::new("guard a port", Errno::BUSY, "its socket does not answer");
            let make = || {
                let made = asking.ask(move || PortGuard::beside(socket.as_fd()));
                made.unwrap_or_else(|| Err(late()))
            };
            let guard = guard_of(bound, make, payer, holds, descriptors)?;
            Ok(Self { local: bound, is_automatic: false, guard })
        }
    }

    /// A port that the program's own socket is not bound to: nothing but the guard has it.
    fn beside_the_socket(
        source: IpAddr,
        payer: Payer,
        descriptors: &mut Descriptors,
    ) -> Result<Self, Taken> {
        let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let spare = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let spare = spare.map_err(Refusal::Errno)?;
        let port = bind_anew(spare.as_fd(), source)?.port();
        let guard = Guard::new(payer, descriptors, || PortGuard::beside(spare.as_fd()))?;
        let guard = guard.map_err(|error| Refusal::Errno(error.errno()))?;
        Ok(Self { local: SocketAddr::new(source, port), is_automatic: true, guard: Some(guard) })
    }

    /// Takes what the peer sends from the kernel, and nothing that others send to the port: that
    /// may be another's listener.
    pub(super) fn claim(
        &self,
        examined: &Examined,
        remote: SocketAddr,
        interface: u32,
        claims: &mut Claims,
    ) -> Result<(), Taken> {
        // The kernel opens no second connection of one name, whoever asks; nor do we beside one of
        // its.
        let owner = socket_owner::of_ends(Transport::Tcp, self.local, remote, interface)
            .map_err(|_| Refusal::Kernel(FallbackReason::DaemonBusy))?;
        let is_free =
            owner.is_none_or(|owner| owner.is_listener || owner.cookie == examined.cookie);
        if !is_free {
            return Err(Refusal::Errno(Errno::ADDRNOTAVAIL).into());
        }
        let claimed = claims.add_flow(flow((self.local, remote)));
        claimed.map_err(|_| Refusal::Kernel(FallbackReason::NoMemory).into())
    }
}

/// The guard of a port. Without one the port is the program's own for as long as it has the socket,
/// and no longer.
fn guard_of(
    local: SocketAddr,
    make: impl FnOnce() -> Result<PortGuard, SysError>,
    payer: Payer,
    holds: &Holds,
    descriptors: &mut Descriptors,
) -> Result<Option<Guard>, Taken> {
    match holds.guard_of(local) {
        Some(guard) => Ok(Some(guard)),
        None => Ok(Guard::new(payer, descriptors, make)?.ok()),
    }
}

/// Binds a socket to a port that the kernel chooses, and guards that.
fn bind_and_guard(
    socket: &Passed,
    source: IpAddr,
) -> Result<(SocketAddr, Result<PortGuard, SysError>), Refusal> {
    let address = bind_anew(socket.as_fd(), source)?;
    Ok((address, PortGuard::beside(socket.as_fd())))
}

fn bind_anew(fd: BorrowedFd<'_>, source: IpAddr) -> Result<SocketAddr, Refusal> {
    socket::bind(fd, SocketAddr::new(source, 0)).map_err(|error| Refusal::Errno(error.errno()))
}

#[cfg(test)]
mod tests {
    use super::super::aside::Aside;
    use super::super::examine;
    use super::super::wait_budget::WaitBudget;
    use base::{AppId, Generation, SlotId};

    use super::*;

    #[test]
    fn who_is_connected_again_gets_another_port_unless_it_has_chosen_its_own() {
        let made = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        let namespace = examine::own_namespace().expect("sockets can be made");
        let look = |socket| Examined::new(socket, wire::Protocol::Tcp, namespace);
        let examined = look(Passed::new(made.expect("descriptors are left")));
        let examined = examined.expect("TCP, here, not connected");
        let (aside, counters) = (Aside::start().expect("threads are left"), Default::default());
        let source = IpAddr::from([127, 0, 0, 1]);
        let remote = SocketAddr::from(([10, 0, 0, 1], 80));
        let (mut holds, mut shares) = (Holds::default(), Descriptors::of(100));
        let who = Who { payer: Payer { uid: 5, app: AppId(1) }, may_have_a_port: true };
        let mut take = |examined: &Examined, holds: &mut Holds| {
            let wait_budget = &mut WaitBudget::default();
            let mut asking = Asking { aside: &aside, wait_budget, counters: &counters, user: 0 };
            OwnAddress::take(examined, source, remote, who, holds, &mut shares, &mut asking)
                .expect("ports are left")
        };
        let first = take(&examined, &mut holds);
        assert!(first.is_automatic && first.guard.is_some());
        let bound = socket::local_address(examined.socket.as_fd()).expect("it is a socket");
        assert_eq!(first.local, bound, "the kernel's socket has the port too");
        let again = look(examined.socket).expect("still not connected");
        holds.add(
            (AppId(1), SlotId(0), Generation(1)),
            5,
            (first.local, remote),
            first.is_automatic,
            first.guard,
        );
        let second = take(&again, &mut holds);
        assert!(second.local != first.local && second.is_automatic && second.guard.is_some());
        let mut holds = Holds::default();
        holds.add((AppId(1), SlotId(0), Generation(1)), 5, (first.local, remote), false, None);
        assert_eq!(take(&again, &mut holds).local, first.local, "that was its own choice");
    }
}
