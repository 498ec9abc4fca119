//! UDP sockets on the packets of a worker's own flows.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::TxChecksum;

use crate::reply;
use crate::rt::class_guard::ClassGuard;
use crate::rt::listener;
use crate::rt::local::Local;
use crate::rt::peers::Link;
use crate::rt::readers::Reader;
use crate::rt::runtime::Runtime;
use crate::rt::sleep::yield_now;

/// Rounds that a send waits for a free buffer.
const SEND_ROUNDS: u32 = 64;

/// A UDP socket of one worker. It receives the packets of the flows that this worker owns, and each
/// worker has one of its own for the same address: no packet goes from worker to worker, but when
/// the owner does not get to it and another one has nothing to do (see [`crate::rt`]).
///
/// Packets of a flow come in their order. What a task has received counts as done when it asks for
/// the next one (or drops the socket): until then no other task gets packets of the same class of
/// flows, and no flow of this worker can move to another. So a task asks again when it is done, not
/// before, and does not keep a socket that it does not read.
pub struct UdpSocket {
    local: Rc<Local>,
    listener: usize,
    class_guard: Option<ClassGuard>,
    reader: Rc<Reader>,
    /// Where the search for the next class begins.
    cursor: Cell<u32>,
}

impl UdpSocket {
    /// A socket of this worker at `listener`, which is one of the addresses that the application
    /// attached with, written in the same way: `udp:10.0.0.2:7`.
    ///
    /// # Errors
    /// The application has not attached with it.
    ///
    /// # Panics
    /// Outside of a task of `runtime` that stays on its worker: a programmer's error.
    #[track_caller]
    pub fn bind(runtime: &Runtime, listener: &str) -> Result<Self, BindError> {
        let local = Local::here();
        let worker_set = &local.worker_set;
        assert!(
            Arc::ptr_eq(worker_set, runtime.worker_set()),
            "the task belongs to another runtime"
        );
        let address = listener::parse(listener);
        let found = worker_set.listeners.iter().position(|known| Some(known.address) == address);
        let listener = found.ok_or_else(|| BindError { listener: listener.to_owned() })?;
        Ok(Self::new(local, listener))
    }

    fn new(local: Rc<Local>, listener: usize) -> Self {
        Self { local, listener, class_guard: None, reader: Rc::default(), cursor: Cell::new(0) }
    }

    /// The address that it was bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local.worker_set.listeners[self.listener].address
    }

    /// Waits for the next packet, and copies as much of its payload into `buffer` as fits; returns
    /// how many bytes those are, and the address that sent it. The packet before it counts as done.
    ///
    /// Dropped before it is ready, it has taken nothing.
    ///
    /// # Errors
    /// The runtime is to stop.
    pub async fn recv_from(&mut self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), RecvError> {
        let waiting = Leave(Rc::clone(&self.reader));
        poll_fn(|context| self.poll_next(context)).await?;
        drop(waiting);
        let packet = self.class_guard.as_ref().and_then(|class_guard| class_guard.packet.as_ref());
        let packet = packet.expect("the poll was ready with a packet");
        let payload = packet.payload();
        let count = payload.len().min(buffer.len());
        buffer[..count].copy_from_slice(&payload[..count]);
        Ok((count, packet.from))
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RecvError>> {
        let local = &self.local;
        if !local.spend() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.class_guard.as_mut().is_some_and(|class_guard| !class_guard.advance()) {
            self.class_guard = None;
        }
        let inbox = &local.worker_set.listeners[self.listener].inboxes[local.index];
        while self.class_guard.is_none() && !local.worker_set.is_stopping() {
            let claimed = self.reader.take_given().or_else(|| {
                let mut cursor = self.cursor.get();
                let ready = inbox.claim(&mut cursor)?;
                self.cursor.set(cursor);
                Some(ClassGuard::new(local, self.listener, local.index, ready))
            });
            let Some(mut class_guard) = claimed else {
                local.readers.join(self.listener, &self.reader, context.waker());
                return Poll::Pending;
            };
            if class_guard.advance() {
                self.class_guard = Some(class_guard);
            }
        }
        let Some(packet) =
            self.class_guard.as_ref().and_then(|class_guard| class_guard.packet.as_ref())
        else {
            return Poll::Ready(Err(RecvError));
        };
        if let Some(link) = packet.link() {
            local.peers.borrow_mut().learn(packet.from.ip(), link);
        }
        if !inbox.is_quiet() {
            local.readers.wake_one(self.listener);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends `payload` to `to`: an answer to the packet received last, in its own buffer, or a
    /// packet to any host that this worker had one from a moment ago. It leaves by the port that it
    /// came from, when the task gives way. Whether it arrives is not told: this is UDP.
    ///
    /// # Errors
    /// It cannot be sent, and why; counted as `unsent`.
    pub async fn send_to(&mut self, payload: &[u8], to: SocketAddr) -> Result<(), SendError> {
        let result = match self.answer(payload, to) {
            Some(result) => result,
            None => self.send_new(payload, to).await,
        };
        if result.is_err() {
            self.local.mailbox().counters.unsent.add(1);
        }
        result
    }

    /// Turns the received packet around, if it is from `to` and was not answered yet.
    fn answer(&mut self, payload: &[u8], to: SocketAddr) -> Option<Result<(), SendError>> {
        let class_guard = self.class_guard.as_mut().filter(|class_guard| class_guard.is_own())?;
        let packet = class_guard.packet.take_if(|packet| packet.from == to)?;
        let mut frame = packet.frame;
        let mtu = self.local.mtu(frame.meta().port.0);
        let old = reply::payload(&frame).map_or(0, <[u8]>::len);
        let ip_bytes = frame.len() - usize::from(frame.meta().l3_offset);
        if ip_bytes.saturating_sub(old) + payload.len() > mtu
            || !reply::turn_around_with(&mut frame, payload)
        {
            self.local.packets.finish(frame);
            return Some(Err(SendError::TooLong));
        }
        self.local.packets.send(frame);
        Some(Ok(()))
    }

    async fn send_new(&mut self, payload: &[u8], to: SocketAddr) -> Result<(), SendError> {
        let link = self.local.peers.borrow().find(to.ip()).ok_or(SendError::NoWay)?;
        let mut frame = None;
        for _ in 0..SEND_ROUNDS {
            frame = self.local.packets.take();
            if frame.is_some() {
                break;
            }
            yield_now().await;
        }
        let mut frame = frame.ok_or(SendError::NoBuffer)?;
        let source = self.source(&link);
        let is_written = link.write(&mut frame, source, to, payload);
        let headers = usize::from(wire::ethernet::HEADER_BYTES);
        if !is_written || frame.len() - headers > self.local.mtu(link.port.0) {
            self.local.packets.finish(frame);
            return Err(SendError::TooLong);
        }
        frame.meta_mut().tx_checksum = TxChecksum::Complete;
        self.local.packets.send(frame);
        if let Some(class_guard) = &mut self.class_guard {
            class_guard.note_sent();
        }
        Ok(())
    }

    /// The address to send from: the listener's, and what it leaves open as the peer knows it.
    fn source(&self, link: &Link) -> SocketAddr {
        let address = self.local_addr();
        let ip = if address.ip().is_unspecified() { link.local.ip() } else { address.ip() };
        let port = if address.port() == 0 { link.local.port() } else { address.port() };
        SocketAddr::new(ip, port)
    }
}

/// Another socket of the same worker at the same address: for another task, which then gets packets
/// of other flows at the same time.
impl Clone for UdpSocket {
    fn clone(&self) -> Self {
        Self::new(Rc::clone(&self.local), self.listener)
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("local_addr", &self.local_addr()).finish_non_exhaustive()
    }
}

/// A socket that waits no more: neither is it woken then, nor does it keep what it was given.
struct Leave(Rc<Reader>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.leave();
        drop(self.0.take_given());
    }
}

/// There is no such address to bind to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindError {
    listener: String,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the application has not attached with '{}': give it to `AttachOptions::listen` in these \
             very words, protocol, address and port",
            self.listener
        )
    }
}

impl std::error::Error for BindError {}

/// The runtime is to stop: no more packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime is stopping: no more packets come")
    }
}

impl std::error::Error for RecvError {}

/// Why a packet was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// It does not fit into a packet of that port, or into a buffer.
    TooLong,
    /// This worker has had no packet from that host lately, so the way there is not known.
    NoWay,
    /// All buffers are on their way to the daemon, which is slow to take them.
    NoBuffer,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the payload is too long for one packet: send less at once",
            Self::NoWay => "the host is unknown: packets go to hosts that have sent one lately",
            Self::NoBuffer => "all buffers are under way: send less, or ask for more with `frames`",
        })
    }
}

impl std::error::Error for SendError {}
