//! TCP for tasks: connections and listeners that the daemon serves, on the runtime's own workers.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::SocketType;
use shm::sockets::SlotOption;

use crate::rt::local::Local;
use crate::sockets::polled::{PolledListener, PolledStream};
use crate::sockets::reactor::Reactor;
use crate::sockets::{Session, kernel};

/// The sockets of one worker: it listens to them beside its packets. Clones are the same ones.
///
/// There is no kernel behind them: what the daemon does not take fails with `Unsupported`.
///
/// ```no_run
/// use calisto_client::AttachOptions;
/// use calisto_client::rt::{self, Net, Runtime};
/// use calisto_client::sockets::{Session, SessionOptions};
///
/// async fn echo(rt: Runtime) -> std::io::Result<()> {
///     let session = Session::attach(&SessionOptions::new("echo")).map_err(std::io::Error::other)?;
///     let net = Net::new(&session)?;
///     let listener = net.listen("10.0.0.2:7".parse().expect("an address"))?;
///     loop {
///         let (mut stream, _) = listener.accept().await?;
///         rt.spawn_local(async move {
///             let mut bytes = [0; 4096];
///             while let Ok(count @ 1..) = stream.read(&mut bytes).await {
///                 if stream.write_all(&bytes[..count]).await.is_err() {
///                     return;
///                 }
///             }
///         });
///     }
/// }
///
/// rt::run(AttachOptions::new("echo"), echo)?;
/// # Ok::<(), rt::RunError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Net(Arc<Reactor>);

impl Net {
    /// The sockets of the worker that runs this task.
    ///
    /// # Errors
    /// The application has as many pollers as it may have, the daemon is gone, or the worker has
    /// sockets of another session.
    ///
    /// # Panics
    /// On a thread that is no worker's: a programmer's error.
    pub fn new(session: &Session) -> io::Result<Self> {
        let local = Local::here();
        let mut place = local.reactor.borrow_mut();
        if let Some(reactor) = &*place {
            return match reactor.session().app() == session.app() {
                true => Ok(Self(Arc::clone(reactor))),
                false => Err(io::Error::other("this worker has sockets of another session")),
            };
        }
        let reactor = Arc::new(Reactor::new(session)?);
        local.packets.with_worker(|worker| worker.hear(Arc::clone(&reactor)));
        *place = Some(Arc::clone(&reactor));
        Ok(Self(reactor))
    }

    /// Connects to `address`.
    ///
    /// # Errors
    /// As connect(2), and Unsupported when only the kernel can.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = PolledStream::connect(&self.0, address).await?;
        stream.map(TcpStream).ok_or_else(left_to_kernel)
    }

    /// Listens on `address`, on the daemon's interfaces.
    ///
    /// # Errors
    /// As bind(2) and listen(2), and Unsupported when only the kernel can.
    pub fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let mut reservation = kernel::bound(address, SocketType::STREAM)?;
        let local = kernel::address(&reservation)?;
        if address.port() == 0 {
            // A port that the kernel has chosen would be free again when its socket does not listen
            // any more.
            reservation = kernel::bound(local, SocketType::STREAM)?;
        }
        let listener = PolledListener::new(&self.0, &reservation)?.ok_or_else(left_to_kernel)?;
        // This runtime cannot wait for the kernel's callers: better refused than kept waiting.
        rustix::net::shutdown(&reservation, rustix::net::Shutdown::Both)?;
        Ok(TcpListener { listener, local, _reservation: reservation })
    }
}

fn left_to_kernel() -> io::Error {
    let text = "the daemon leaves this to the kernel, which this runtime cannot wait for: see \
                `calisto explain`";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// A TCP connection; closed when it drops.
#[derive(Debug)]
pub struct TcpStream(PolledStream);

impl TcpStream {
    /// Reads some bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// As recv(2).
    pub async fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.0.poll_read(context, to)).await
    }

    /// Reads as many bytes as `to` has room for.
    ///
    /// # Errors
    /// As recv(2), and UnexpectedEof.
    pub async fn read_exact(&mut self, mut to: &mut [u8]) -> io::Result<()> {
        while !to.is_empty() {
            match self.read(to).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => to = &mut to[count..],
            }
        }
        Ok(())
    }

    /// Writes some bytes; how many.
    ///
    /// # Errors
    /// As send(2).
    pub async fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        poll_fn(|context| self.0.poll_write(context, from)).await
    }

    /// Writes all of `from`.
    ///
    /// # Errors
    /// As send(2).
    pub async fn write_all(&mut self, mut from: &[u8]) -> io::Result<()> {
        while !from.is_empty() {
            let count = self.write(from).await?;
            from = &from[count..];
        }
        Ok(())
    }

    /// Ends the sending: the peer sees the end of the stream.
    ///
    /// # Errors
    /// As shutdown(2).
    pub fn shutdown(&self) -> io::Result<()> {
        self.0.shutdown()
    }

    /// Small segments do not wait for acknowledgements: TCP_NODELAY.
    pub fn set_nodelay(&self, is_on: bool) {
        self.0.socket().set_option(SlotOption::NoDelay, u32::from(is_on));
    }

    /// Whom it is connected to.
    ///
    /// # Errors
    /// It is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Its own address.
    ///
    /// # Errors
    /// It is not connected.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A TCP listener; closed when it drops.
#[derive(Debug)]
pub struct TcpListener {
    listener: PolledListener,
    local: SocketAddr,
    /// Keeps the port.
    _reservation: OwnedFd,
}

impl TcpListener {
    /// Waits for a connection; whose it is.
    ///
    /// # Errors
    /// Out of descriptors, and as accept(2).
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = poll_fn(|context| self.listener.poll_accept(context)).await;
        accepted.map(|(stream, peer)| (TcpStream(stream), peer))
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}
