//! TCP for tokio: connections and listeners that the daemon serves, as
//! [`AsyncRead`] and [`AsyncWrite`].
//!
//! ```no_run
//! use calisto_client::sockets::{Session, SessionOptions, tokio::Net};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let net = Net::new(&Session::attach(&SessionOptions::new("client"))?)?;
//! let mut stream = net.connect("10.0.0.2:7".parse()?).await?;
//! stream.write_all(b"hello").await?;
//! stream.read_exact(&mut [0; 5]).await?;
//! # Ok(())
//! # }
//! ```

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use ::tokio::task::{JoinHandle, yield_now};
use rustix::net::SocketType;
use shm::sockets::SlotOption;

use super::kernel;
use super::polled::{PolledListener, PolledStream};
use super::reactor::Reactor;
use super::session::Session;

/// The sockets of one tokio runtime: a poller, and a task that listens to it. Clones are the same
/// one; the task ends with the last of them and of their sockets.
#[derive(Clone, Debug)]
pub struct Net(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    reactor: Arc<Reactor>,
    driver: JoinHandle<()>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Net {
    /// For the runtime that calls this.
    ///
    /// # Errors
    /// The application has as many pollers as it may have, or the daemon is gone.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    pub fn new(session: &Session) -> io::Result<Self> {
        let reactor = Arc::new(Reactor::new(session)?);
        #[allow(
            deprecated,
            reason = "what replaces it is unsafe, and the poller is kept with its fd"
        )]
        let fd = AsyncFd::with_interest(PollerFd(Arc::clone(&reactor)), Interest::READABLE)?;
        let driver = ::tokio::spawn(drive(fd));
        Ok(Self(Arc::new(Shared { reactor, driver })))
    }

    /// Connects to `address`: by the daemon if that can be, else by the kernel.
    ///
    /// # Errors
    /// As the kernel's connect(2).
    pub async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        Ok(TcpStream(match PolledStream::connect(&self.0.reactor, address).await? {
            Some(stream) => By::Us(stream, self.clone()),
            None => By::Kernel(::tokio::net::TcpStream::connect(address).await?),
        }))
    }

    /// Listens on `address`, with the daemon on its interfaces and with the kernel on all others.
    ///
    /// # Errors
    /// As the kernel's bind(2) and listen(2).
    pub fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let fd = kernel::bound(address, SocketType::STREAM)?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        let ours = PolledListener::new(&self.0.reactor, &fd)?;
        let kernel = ::tokio::net::TcpListener::from_std(OwnedFd::into(fd))?;
        Ok(TcpListener { kernel, ours, net: self.clone() })
    }
}

/// Wakes the tasks whose sockets have news, as long as the runtime lives.
async fn drive(fd: AsyncFd<PollerFd>) {
    let reactor = Arc::clone(&fd.get_ref().0);
    loop {
        if reactor.turn() {
            // They have their turn before the poller is listened to again.
            yield_now().await;
            continue;
        }
        if reactor.arm() {
            let Ok(mut ready) = fd.readable().await else { return };
            reactor.disarm();
            reactor.drain();
            ready.clear_ready();
        }
    }
}

/// A poller's descriptor, for tokio.
#[derive(Debug)]
struct PollerFd(Arc<Reactor>);

impl AsRawFd for PollerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.fd().as_raw_fd()
    }
}

/// A TCP connection.
#[derive(Debug)]
pub struct TcpStream(By);

#[derive(Debug)]
enum By {
    Us(PolledStream, #[expect(dead_code, reason = "it keeps alive who wakes its tasks")] Net),
    Kernel(::tokio::net::TcpStream),
}

impl TcpStream {
    /// Whether the daemon serves it, not the kernel.
    pub fn is_accelerated(&self) -> bool {
        matches!(self.0, By::Us(..))
    }

    /// The peer's address.
    ///
    /// # Errors
    /// It is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            By::Us(stream, _) => stream.peer_addr(),
            By::Kernel(stream) => stream.peer_addr(),
        }
    }

    /// Its own address.
    ///
    /// # Errors
    /// It is not connected.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            By::Us(stream, _) => stream.local_addr(),
            By::Kernel(stream) => stream.local_addr(),
        }
    }

    /// Whether a small segment is sent while others are not acknowledged, which Nagle's algorithm
    /// (RFC 9293 3.7.4) forbids: TCP_NODELAY of tcp(7).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_nodelay(&self, is_on: bool) -> io::Result<()> {
        match &self.0 {
            By::Us(stream, _) => {
                stream.socket().set_option(SlotOption::NoDelay, u32::from(is_on));
                Ok(())
            }
            By::Kernel(stream) => stream.set_nodelay(is_on),
        }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            By::Us(stream, _) => {
                let read = stream.poll_read(context, to.initialize_unfilled());
                read.map_ok(|count| to.advance(count))
            }
            By::Kernel(stream) => Pin::new(stream).poll_read(context, to),
        }
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            By::Us(stream, _) => stream.poll_write(context, from),
            By::Kernel(stream) => Pin::new(stream).poll_write(context, from),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What was written is the other side's already.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            By::Us(stream, _) => Poll::Ready(stream.shutdown()),
            By::Kernel(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// A TCP listener.
#[derive(Debug)]
pub struct TcpListener {
    kernel: ::tokio::net::TcpListener,
    ours: Option<PolledListener>,
    net: Net,
}

impl TcpListener {
    /// Waits for a connection; returns it with the peer's address.
    ///
    /// # Errors
    /// Out of descriptors, and as the kernel's accept(2).
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// See [`Self::accept`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let ours = self.ours.as_ref().map(|ours| ours.poll_accept(context));
        if let Some(Poll::Ready(accepted)) = ours {
            let us = |(stream, peer)| (TcpStream(By::Us(stream, self.net.clone())), peer);
            return Poll::Ready(accepted.map(us));
        }
        let kernel = self.kernel.poll_accept(context);
        kernel.map_ok(|(stream, peer)| (TcpStream(By::Kernel(stream)), peer))
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.kernel.local_addr()
    }

    /// Whether the daemon listens too.
    pub fn is_accelerated(&self) -> bool {
        self.ours.is_some()
    }
}
