//! The echo of the Linux kernel that the third act compares with: epoll, one thread.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use cli::failure::Failure;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use testbed::Side;

/// Between two looks whether to end.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Bytes read at once, at most.
const CHUNK: usize = 1 << 16;

const LISTENER: u64 = u64::MAX;

/// A listening thread; dropped, it has ended.
pub(super) struct LinuxEcho {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Server {
    set: OwnedFd,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    bytes: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    /// What has to go back and did not fit; while there is some, nothing is read.
    owed: Vec<u8>,
}

impl LinuxEcho {
    /// Listens at `address` of `side`, and serves on `cpu`.
    pub(super) fn start(
        side: &Side,
        address: SocketAddr,
        cpu: Option<usize>,
    ) -> Result<Self, Failure> {
        let open = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let set = epoll::create(CreateFlags::CLOEXEC)?;
            epoll::add(&set, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
            Ok((set, listener))
        };
        let opened = side.enter(open).map_err(Failure::new)?;
        let (set, listener) = opened.map_err(|error: io::Error| {
            Failure::new(format!("the echo of Linux cannot listen at {address}: {error}"))
        })?;
        let ending = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ending);
        let mut server = Server { set, listener, connections: Vec::new(), bytes: vec![0; CHUNK] };
        let serve = move || {
            // On another CPU it serves all the same.
            let _ = cpu.map_or(Ok(()), sys::thread::pin);
            while !told.load(Ordering::Relaxed) {
                server.turn();
            }
        };
        let thread = std::thread::Builder::new().name("linux-echo".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| {
            Failure::new(format!("cannot start the thread of Linux's echo: {error}"))
        })?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for LinuxEcho {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Why it ended is of no interest any more.
            let _ = thread.join();
        }
    }
}

impl Server {
    fn turn(&mut self) {
        let mut room = [const { MaybeUninit::uninit() }; 64];
        let Ok((events, _)) = epoll::wait(&self.set, &mut room, Some(&LOOK_EVERY)) else { return };
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept(),
                number => self.serve(number as usize),
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let free = self.connections.iter().position(Option::is_none);
            let number = free.unwrap_or(self.connections.len());
            let set_up = || {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                let data = EventData::new_u64(number as u64);
                epoll::add(&self.set, &stream, data, EventFlags::IN).map_err(io::Error::from)
            };
            // One that cannot be served is closed, and its client says so.
            if set_up().is_ok() {
                let connection = Some(Connection { stream, owed: Vec::new() });
                match self.connections.get_mut(number) {
                    Some(place) => *place = connection,
                    None => self.connections.push(connection),
                }
            }
        }
    }

    fn serve(&mut self, number: usize) {
        let Some(place) = self.connections.get_mut(number) else { return };
        let Some(connection) = place else { return };
        match connection.serve(&mut self.bytes) {
            Ok(Some(wanted)) => {
                let data = EventData::new_u64(number as u64);
                let _ = epoll::modify(&self.set, &connection.stream, data, wanted);
            }
            Ok(None) => {}
            Err(_) => *place = None,
        }
    }
}

impl Connection {
    /// Sends back what came; what to wait for from now on, if that is something else than before.
    /// An error: it is over.
    fn serve(&mut self, bytes: &mut [u8]) -> io::Result<Option<EventFlags>> {
        if !self.owed.is_empty() {
            let written = written(self.stream.write(&self.owed))?;
            self.owed.drain(..written);
            return Ok(self.owed.is_empty().then_some(EventFlags::IN));
        }
        let len = match self.stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let written = written(self.stream.write(&bytes[..len]))?;
        self.owed.extend_from_slice(&bytes[written..len]);
        Ok((written < len).then_some(EventFlags::OUT))
    }
}

fn written(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}
