//! The baseline on real packets: Linux's TCP behind epoll, one thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use testbed::Side;

use crate::error::{Error, OrNeeds};

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Every byte comes back.
    Echo,
    /// Every byte is swallowed.
    Discard,
    /// Bytes for as long as anybody reads.
    Chargen,
}

impl Service {
    /// The daemon's job that does the same.
    pub(super) fn job(self) -> &'static str {
        match self {
            Self::Echo => "tcp-echo",
            Self::Discard => "tcp-discard",
            Self::Chargen => "tcp-chargen",
        }
    }
}

/// What a thread does when nothing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// It looks again, so that no wake-up is measured: for who has a CPU of its own.
    Spin,
    /// It sleeps, and leaves the CPU to its neighbours.
    Sleep,
}

impl Idle {
    /// How long it may wait for events; after that it looks whether all is over.
    pub(super) fn timeout(self) -> Timespec {
        let tv_nsec = if self == Self::Spin { 0 } else { 20_000_000 };
        Timespec { tv_sec: 0, tv_nsec }
    }
}

/// Events of one look.
const EVENTS: usize = 64;

/// Bytes of one read or write.
const CHUNK: usize = 1 << 16;

/// Makes `listeners` in a namespace, under that congestion control.
pub(super) fn listeners_in(
    side: &Side,
    ports: std::ops::Range<u16>,
    congestion: &str,
) -> Result<Vec<TcpListener>, Error> {
    let address = side.ipv4();
    let bind = || ports.map(|port| TcpListener::bind((address, port))).collect();
    let bound: std::io::Result<Vec<TcpListener>> =
        side.enter(bind).or_needs("thread in a namespace")?;
    let bound = bound.or_needs("listener of Linux")?;
    for listener in &bound {
        rustix::net::sockopt::set_tcp_congestion(listener, congestion)
            .or_needs("congestion control of Linux")?;
    }
    Ok(bound)
}

/// Serves until it is dropped.
pub(super) struct KernelServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    addresses: Vec<SocketAddr>,
}

impl KernelServer {
    /// Serves at `listeners`, on that CPU.
    pub(super) fn start(
        cpu: usize,
        listeners: Vec<TcpListener>,
        service: Service,
        idle: Idle,
    ) -> Result<Self, Error> {
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>();
        let addresses = addresses.or_needs("listener of Linux")?;
        let mut serving = Serving::new(listeners, service, idle)?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let run = move || {
            sys::thread::pin(cpu).or_needs("place on that CPU")?;
            while !is_over.load(Ordering::Relaxed) {
                serving.step()?;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("kernel-server".to_owned()).spawn(run);
        Ok(Self { stop, thread: Some(thread.or_needs("thread of Linux's server")?), addresses })
    }

    /// Where it listens.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Ends it, and says what went wrong.
    pub(super) fn end(mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread.map_or(Ok(()), |thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for KernelServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whoever wants to know what went wrong calls `end`.
            let _ = thread.join();
        }
    }
}

/// The server's loop, and all of its sockets.
struct Serving {
    epoll: std::os::fd::OwnedFd,
    listeners: Vec<TcpListener>,
    connections: Vec<Option<TcpStream>>,
    free: Vec<usize>,
    service: Service,
    idle: Idle,
    buffer: Vec<u8>,
}

impl Serving {
    fn new(listeners: Vec<TcpListener>, service: Service, idle: Idle) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).or_needs("epoll")?;
        for (index, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true).or_needs("listener of Linux")?;
            let data = EventData::new_u64(index as u64);
            epoll::add(&epoll, listener.as_fd(), data, EventFlags::IN).or_needs("epoll")?;
        }
        let buffer = vec![b'.'; CHUNK];
        let (connections, free) = (Vec::new(), Vec::new());
        Ok(Self { epoll, listeners, connections, free, service, idle, buffer })
    }

    fn step(&mut self) -> Result<(), Error> {
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [none; EVENTS];
        let timeout = self.idle.timeout();
        let count = match epoll::wait(&self.epoll, &mut events[..], Some(&timeout)) {
            Ok(count) => count,
            // A signal: the next look is soon.
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error).or_needs("epoll"),
        };
        for event in &events[..count] {
            let number = event.data.u64() as usize;
            match number.checked_sub(self.listeners.len()) {
                None => self.accept(number)?,
                Some(index) => {
                    let flags = event.flags;
                    if !self.serve(index, flags.contains(EventFlags::RDHUP)) {
                        self.connections[index] = None;
                        self.free.push(index);
                    }
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, number: usize) -> Result<(), Error> {
        // A connection that is gone again is no loss.
        while let Ok((stream, _)) = self.listeners[number].accept() {
            stream.set_nonblocking(true).or_needs("connection of Linux")?;
            stream.set_nodelay(true).or_needs("connection of Linux")?;
            let index = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let wanted = match self.service {
                Service::Chargen => EventFlags::OUT | EventFlags::RDHUP,
                Service::Echo | Service::Discard => EventFlags::IN,
            };
            let data = EventData::new_u64((self.listeners.len() + index) as u64);
            epoll::add(&self.epoll, stream.as_fd(), data, wanted).or_needs("epoll")?;
            self.connections[index] = Some(stream);
        }
        Ok(())
    }

    /// Whether the connection goes on.
    fn serve(&mut self, index: usize, has_hung_up: bool) -> bool {
        let Some(Some(stream)) = self.connections.get_mut(index) else { return true };
        let buffer = &mut self.buffer;
        let done = match self.service {
            Service::Chargen if has_hung_up => return false,
            Service::Chargen => stream.write(buffer),
            Service::Discard => stream.read(buffer),
            Service::Echo => match stream.read(buffer) {
                Ok(count) if count > 0 => stream.write_all(&buffer[..count]).map(|()| count),
                other => other,
            },
        };
        match done {
            Ok(count) => count > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(service: Service, idle: Idle) -> (KernelServer, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let cpu = crate::place::Cpus::choose().server;
        let server = KernelServer::start(cpu, vec![listener], service, idle).expect("it starts");
        let client = TcpStream::connect(server.addresses()[0]).expect("it listens");
        client.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("no zero");
        (server, client)
    }

    #[test]
    fn each_service_does_what_its_name_says_and_ends_with_its_client() {
        let services = [Service::Echo, Service::Discard, Service::Chargen];
        for (service, idle) in services.into_iter().zip([Idle::Spin, Idle::Sleep, Idle::Sleep]) {
            let (server, mut client) = server(service, idle);
            client.write_all(b"12345678").expect("it reads");
            let mut bytes = [0; 8];
            if service != Service::Discard {
                client.read_exact(&mut bytes).expect("it writes");
                let is_echo = bytes == *b"12345678";
                assert_eq!(is_echo, service == Service::Echo, "{service:?}: {bytes:?}");
            }
            client.shutdown(std::net::Shutdown::Write).expect("it is connected");
            let mut rest = Vec::new();
            // With bytes unread it may reset instead.
            let ended = client.read_to_end(&mut rest);
            assert!(ended.is_ok() || service == Service::Chargen, "{service:?}: {ended:?}");
            server.end().expect("nothing went wrong");
        }
    }
}
