//! Connections of a session: to the test, and with both ends here.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use base::SlotId;
use calisto_client::sockets::{Outcome, Readiness, Session, Socket, Waited};
use rustix::net::SocketType;

use crate::streams::{Daemon, SILENT_PORT, address_of, kernel_socket};

pub(crate) const SOON: Option<Duration> = Some(Duration::from_secs(10));

pub(crate) fn ours(outcome: Outcome) -> Socket {
    match outcome {
        Outcome::Ours(socket) => socket,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn to(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A connection whose other end is the test.
pub(crate) fn connected(daemon: &Daemon, session: &Session) -> (Socket, SlotId) {
    let socket = connecting(session);
    let slot = socket.key().1;
    daemon.establish(slot);
    (socket, slot)
}

pub(crate) fn connecting(session: &Session) -> Socket {
    let fd = kernel_socket(SocketType::STREAM, 0);
    ours(session.connect(fd.as_fd(), to(SILENT_PORT)).expect("the daemon answers"))
}

/// Both ends of a connection; local ones from some port on.
pub(crate) fn pair(session: &Session, port: u16) -> (Socket, Socket) {
    let listening = kernel_socket(SocketType::STREAM, port);
    let listener = ours(session.listen(listening.as_fd(), 8).expect("the daemon answers"));
    let fd = kernel_socket(SocketType::STREAM, 0);
    let address = address_of(&listening);
    let client = ours(session.connect(fd.as_fd(), address).expect("the daemon answers"));
    assert_eq!(listener.wait(Readiness::IN, SOON), Ok(Waited::Ready));
    let server = listener.accept().expect("it has connected");
    (client, server)
}

pub(crate) fn receive_text(socket: &Socket) -> String {
    assert_eq!(socket.wait(Readiness::IN, SOON), Ok(Waited::Ready));
    let mut bytes = [0; 100];
    let count = socket.receive(&mut bytes).expect("it is ready");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}
