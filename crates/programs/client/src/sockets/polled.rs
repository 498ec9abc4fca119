//! Connections and listeners for the tasks of any executor.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::SocketType;

use super::kernel::{self, Named};
use super::reactor::{Direction, Reactor};
use super::socket::{Shutdown, Socket};
use super::{tcp_listener, tcp_stream::TcpStream};

/// A connection; closed when this drops.
#[derive(Debug)]
pub(crate) struct PolledStream {
    named: Named,
    reactor: Arc<Reactor>,
}

impl PolledStream {
    /// Connects; none: the kernel is to do it.
    pub(crate) async fn connect(
        reactor: &Arc<Reactor>,
        address: SocketAddr,
    ) -> io::Result<Option<Self>> {
        let fd = kernel::open(address, SocketType::STREAM)?;
        let begun = TcpStream::begin(reactor.session(), &fd, address)?;
        let Some(socket) = begun else { return Ok(None) };
        // Closed if the caller gives it up while it connects.
        let stream = Self::new(reactor, Named::new(socket, fd)?)?;
        let socket = &stream.named.socket;
        poll_fn(|context| {
            stream.reactor.poll(context, socket, Direction::Write, || socket.connected())
        })
        .await?;
        Ok(Some(stream))
    }

    fn new(reactor: &Arc<Reactor>, named: Named) -> Result<Self, Errno> {
        reactor.watch(&named.socket)?;
        Ok(Self { named, reactor: Arc::clone(reactor) })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.named.socket
    }

    pub(crate) fn poll_read(
        &self,
        context: &mut Context<'_>,
        to: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let socket = &self.named.socket;
        let read = self.reactor.poll(context, socket, Direction::Read, || socket.receive(to));
        read.map_err(io::Error::from)
    }

    pub(crate) fn poll_write(
        &self,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = &self.named.socket;
        let written = self.reactor.poll(context, socket, Direction::Write, || socket.send(from));
        written.map_err(io::Error::from)
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        match self.named.socket.shutdown(Shutdown::Write) {
            // The peer has ended it already.
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.named.socket.peer_address().ok_or(Errno::NOTCONN.into())
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.named.socket.local_address().ok_or(Errno::NOTCONN.into())
    }
}

impl Drop for PolledStream {
    fn drop(&mut self) {
        self.reactor.forget(&self.named.socket);
    }
}

/// The daemon's half of a listener.
#[derive(Debug)]
pub(crate) struct PolledListener {
    socket: Socket,
    local: SocketAddr,
    reactor: Arc<Reactor>,
}

impl PolledListener {
    /// Listens on an address whose kernel listener is `kernel`; none: the kernel alone does.
    pub(crate) fn new(
        reactor: &Arc<Reactor>,
        kernel: &std::os::fd::OwnedFd,
    ) -> io::Result<Option<Self>> {
        let local = kernel::address(kernel)?;
        let Some(socket) = tcp_listener::listen(reactor.session(), kernel)? else {
            return Ok(None);
        };
        reactor.watch(&socket)?;
        Ok(Some(Self { socket, local, reactor: Arc::clone(reactor) }))
    }

    pub(crate) fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(PolledStream, SocketAddr)>> {
        let accepted = self.reactor.poll(context, &self.socket, Direction::Read, || {
            tcp_listener::accept(&self.socket, self.local)?.ok_or(Errno::AGAIN)
        });
        let stream = PolledStream::new(&self.reactor, ready!(accepted)?)?;
        let peer = stream.peer_addr()?;
        Poll::Ready(Ok((stream, peer)))
    }
}

impl Drop for PolledListener {
    fn drop(&mut self) {
        self.reactor.forget(&self.socket);
        self.socket.close();
    }
}
