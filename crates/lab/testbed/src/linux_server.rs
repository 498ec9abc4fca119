//! Linux's own TCP behind epoll, one thread: what others are held against.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use crate::{Side, Watch};

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Every byte comes back.
    Echo,
    /// Every byte is swallowed.
    Discard,
    /// Bytes for as long as anybody reads.
    Chargen,
}

impl Service {
    /// The daemon's job that does the same.
    pub fn job(self) -> &'static str {
        match self {
            Self::Echo => "tcp-echo",
            Self::Discard => "tcp-discard",
            Self::Chargen => "tcp-chargen",
        }
    }
}

/// What a thread does when nothing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It looks again, so that no wake-up is measured: for who has a CPU of its own.
    Spin,
    /// It sleeps, and leaves the CPU to its neighbours.
    Sleep,
}

impl Idle {
    /// How long it may wait for events; after that it looks whether all is over.
    pub fn timeout(self) -> Duration {
        Duration::from_millis(if self == Self::Spin { 0 } else { 20 })
    }
}

/// Bytes of one read or write.
const CHUNK: usize = 1 << 16;

/// Listens at `ports` of an address in a namespace, under that congestion control of Linux or its
/// default.
///
/// # Errors
/// A port is taken, or there is no such congestion control.
pub fn linux_listeners(
    side: &Side,
    address: Ipv4Addr,
    ports: Range<u16>,
    congestion: Option<&str>,
) -> Result<Vec<TcpListener>> {
    let bind = || ports.map(|port| TcpListener::bind((address, port))).collect();
    let bound: Result<Vec<TcpListener>> = side.enter(bind).map_err(Error::other)?;
    let bound = bound?;
    if let Some(congestion) = congestion {
        for listener in &bound {
            rustix::net::sockopt::set_tcp_congestion(listener, congestion)?;
        }
    }
    Ok(bound)
}

/// Serves until it is dropped.
pub struct LinuxServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
    addresses: Vec<SocketAddr>,
}

impl LinuxServer {
    /// Serves at `listeners`, on that CPU if one is named.
    ///
    /// # Errors
    /// There is no such CPU, or the kernel gives no thread.
    pub fn start(
        cpu: Option<usize>,
        listeners: Vec<TcpListener>,
        service: Service,
        idle: Idle,
    ) -> Result<Self> {
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<_>>()?;
        let mut serving = Serving::new(listeners, service, idle)?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let run = move || {
            cpu.map_or(Ok(()), sys::thread::pin).map_err(Error::other)?;
            while !is_over.load(Ordering::Relaxed) {
                serving.step()?;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("linux-server".to_owned()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread), addresses })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Ends it.
    ///
    /// # Errors
    /// What went wrong meanwhile.
    pub fn end(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), |thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for LinuxServer {
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
    watch: Watch,
    listeners: Vec<TcpListener>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    service: Service,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    /// What has to go back and did not fit; while there is some, nothing is read.
    owed: Vec<u8>,
}

impl Serving {
    fn new(listeners: Vec<TcpListener>, service: Service, idle: Idle) -> Result<Self> {
        let watch = Watch::new(idle.timeout())?;
        for (index, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            watch.add(listener, index, EventFlags::IN)?;
        }
        let (connections, free, buffer) = (Vec::new(), Vec::new(), vec![b'.'; CHUNK]);
        Ok(Self { watch, listeners, connections, free, service, buffer })
    }

    fn step(&mut self) -> Result<()> {
        for at in 0..self.watch.look()? {
            let (number, flags) = self.watch.event(at);
            match number.checked_sub(self.listeners.len()) {
                None => self.accept(number)?,
                Some(index) => {
                    let has_hung_up = flags.contains(EventFlags::RDHUP);
                    if self.serve(index, has_hung_up).is_err() {
                        self.connections[index] = None;
                        self.free.push(index);
                    }
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, number: usize) -> Result<()> {
        // A client that is gone again is no error.
        while let Ok((stream, _)) = self.listeners[number].accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let index = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let wanted = match self.service {
                Service::Chargen => EventFlags::OUT | EventFlags::RDHUP,
                Service::Echo | Service::Discard => EventFlags::IN,
            };
            self.watch.add(&stream, self.listeners.len() + index, wanted)?;
            self.connections[index] = Some(Connection { stream, owed: Vec::new() });
        }
        Ok(())
    }

    /// An error: the connection is over.
    fn serve(&mut self, index: usize, has_hung_up: bool) -> Result<()> {
        let Some(Some(Connection { stream, owed })) = self.connections.get_mut(index) else {
            return Ok(());
        };
        let number = self.listeners.len() + index;
        match self.service {
            Service::Chargen if has_hung_up => Err(ErrorKind::UnexpectedEof.into()),
            Service::Chargen => moved(stream.write(&self.buffer)).map(drop),
            Service::Echo if !owed.is_empty() => {
                let written = moved(stream.write(owed))?.unwrap_or(0);
                owed.drain(..written);
                if owed.is_empty() {
                    self.watch.change(&*stream, number, EventFlags::IN)?;
                }
                Ok(())
            }
            Service::Echo | Service::Discard => {
                let Some(count) = moved(stream.read(&mut self.buffer))? else { return Ok(()) };
                if self.service == Service::Discard {
                    return Ok(());
                }
                let written = match stream.write(&self.buffer[..count]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                    other => other?,
                };
                if written < count {
                    owed.extend_from_slice(&self.buffer[written..count]);
                    self.watch.change(&*stream, number, EventFlags::OUT)?;
                }
                Ok(())
            }
        }
    }
}

/// What was moved; nothing if that has to wait. Its end is an error.
fn moved(result: Result<usize>) -> Result<Option<usize>> {
    match result {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(service: Service, idle: Idle) -> (LinuxServer, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let server = LinuxServer::start(None, vec![listener], service, idle).expect("it starts");
        let client = TcpStream::connect(server.addresses()[0]).expect("it listens");
        client.set_read_timeout(Some(Duration::from_secs(10))).expect("no zero");
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

    #[test]
    fn an_echo_whose_client_reads_late_owes_what_does_not_fit_and_loses_nothing() {
        let (server, client) = server(Service::Echo, Idle::Sleep);
        // More than the buffers of two sockets hold.
        const BYTES: usize = 32 << 20;
        let mut writer = client.try_clone().expect("it is a socket");
        let writing = std::thread::spawn(move || {
            let text: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
            writer.write_all(&text).expect("it is read in the end");
            writer.shutdown(std::net::Shutdown::Write).expect("it is connected");
        });
        let mut reader = client;
        std::thread::sleep(Duration::from_millis(300));
        let mut back = vec![0; BYTES];
        reader.read_exact(&mut back).expect("all comes back");
        assert!(back.iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
        writing.join().expect("it wrote all");
        server.end().expect("nothing went wrong");
    }
}
