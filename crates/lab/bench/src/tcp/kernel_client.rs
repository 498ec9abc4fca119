//! The client of every case on real packets: Linux's sockets, one thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use base::Nanos;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use sys::clock::now;
use testbed::Side;

use super::end::REQUEST_BYTES;
use super::kernel_server::Idle;
use crate::echo_wire::Answers;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::median;

/// One attempt to connect.
const ATTEMPT: Duration = Duration::from_millis(250);

/// All of them: what is between the two may have to come up first.
const TIMEOUT: Nanos = Nanos::from_secs(8);

/// Nothing moved for this long: it will not.
const STALLED: Nanos = Nanos::from_secs(5);

const CHUNK: usize = 1 << 18;

/// `count` connections from a namespace, under that congestion control.
pub(super) fn connect(
    side: &Side,
    server: SocketAddr,
    count: usize,
    congestion: &str,
) -> Result<Vec<TcpStream>, Error> {
    let connected = side.enter(|| {
        let began = now();
        let mut streams: Vec<TcpStream> = Vec::new();
        while streams.len() < count {
            match TcpStream::connect_timeout(&server, ATTEMPT) {
                Ok(stream) => streams.push(stream),
                Err(error) if now().since(began) > TIMEOUT => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        Ok(streams)
    });
    let streams = connected.or_needs("thread in a namespace")?.or_needs("connection")?;
    for stream in &streams {
        stream.set_nodelay(true).or_needs("connection")?;
        rustix::net::sockopt::set_tcp_congestion(stream, congestion)
            .or_needs("congestion control of Linux")?;
    }
    Ok(streams)
}

/// Looks after many sockets.
struct Watch {
    epoll: OwnedFd,
    idle: Idle,
    events: [Event; 64],
}

impl Watch {
    fn new(idle: Idle) -> Result<Self, Error> {
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let epoll = epoll::create(CreateFlags::CLOEXEC).or_needs("epoll")?;
        Ok(Self { epoll, idle, events: [none; 64] })
    }

    fn add(&self, socket: impl AsFd, number: usize, flags: EventFlags) -> Result<(), Error> {
        let data = EventData::new_u64(number as u64);
        epoll::add(&self.epoll, socket, data, flags).or_needs("epoll")
    }

    fn change(&self, socket: impl AsFd, number: usize, flags: EventFlags) -> Result<(), Error> {
        let data = EventData::new_u64(number as u64);
        epoll::modify(&self.epoll, socket, data, flags).or_needs("epoll")
    }

    /// The numbers of sockets that something has happened to.
    fn look(&mut self) -> Result<impl Iterator<Item = usize>, Error> {
        let timeout = self.idle.timeout();
        let count = match epoll::wait(&self.epoll, &mut self.events[..], Some(&timeout)) {
            Ok(count) => count,
            // A signal: whoever looks next sees what it was.
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error).or_needs("epoll"),
        };
        Ok(self.events[..count].iter().map(|event| event.data.u64() as usize))
    }
}

/// A request under way on every connection, for `length`.
pub(super) fn ask(streams: &mut [TcpStream], length: Nanos) -> Result<Answers, Error> {
    let mut watch = Watch::new(Idle::Spin)?;
    let mut sent_at = vec![Nanos::ZERO; streams.len()];
    let mut received = vec![0; streams.len()];
    let mut delays = Vec::with_capacity(1 << 18);
    let request = [0x5a; REQUEST_BYTES];
    let began = now();
    for (number, stream) in streams.iter_mut().enumerate() {
        stream.set_nonblocking(true).or_needs("connection")?;
        watch.add(&*stream, number, EventFlags::IN)?;
        sent_at[number] = now();
        stream.write_all(&request).or_needs("way to send")?;
    }
    let mut answer = [0; REQUEST_BYTES];
    let (mut time, mut moved_at) = (began, began);
    while time.since(began) < length {
        time = now();
        if time.since(moved_at) > STALLED {
            return Err(format!("nothing came for {STALLED}")).or_needs("answer");
        }
        let ready: arrayvec::ArrayVec<usize, 64> = watch.look()?.collect();
        for number in ready {
            let wanted = REQUEST_BYTES - received[number];
            match streams[number].read(&mut answer[..wanted]) {
                Ok(0) => return Err("the server has closed").or_needs("answer"),
                Ok(count) if count < wanted => received[number] += count,
                Ok(_) => {
                    time = now();
                    moved_at = time;
                    delays.push(time.since(sent_at[number]).as_micros_f64());
                    (received[number], sent_at[number]) = (0, time);
                    streams[number].write_all(&request).or_needs("way to send")?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).or_needs("answer"),
            }
        }
    }
    let per_second = delays.len() as f64 / time.since(began).as_secs_f64();
    // What is still under way is left behind with the connection.
    let mut left = streams.len();
    let until = now() + Nanos::from_millis(200);
    while left > 0 && now() < until {
        let ready: arrayvec::ArrayVec<usize, 64> = watch.look()?.collect();
        for number in ready {
            let wanted = REQUEST_BYTES - received[number];
            let count = streams[number].read(&mut answer[..wanted]).unwrap_or(0);
            received[number] += count;
            left -= usize::from(count > 0 && count == wanted);
        }
    }
    Ok(Answers { per_second, p50_us: median(&delays).unwrap_or(f64::NAN), resent: 0 })
}

/// Sends for `length` and waits until all of it has arrived: bytes a second.
pub(super) fn send(mut stream: TcpStream, length: Nanos) -> Result<f64, Error> {
    let timeout = Some(Duration::from_nanos(STALLED.0));
    stream.set_write_timeout(timeout).or_needs("connection")?;
    stream.set_read_timeout(timeout).or_needs("connection")?;
    let chunk = vec![b'.'; CHUNK];
    let (mut bytes, began) = (0_u64, now());
    while now().since(began) < length {
        bytes += stream.write(&chunk).or_needs("way to send")? as u64;
    }
    stream.shutdown(Shutdown::Write).or_needs("end of a stream")?;
    // The server closes when it has read everything.
    let last = stream.read(&mut [0; 16]).or_needs("end of a stream")?;
    if last > 0 {
        return Err("it answers").or_needs("server that discards");
    }
    Ok(bytes as f64 / now().since(began).as_secs_f64())
}

/// Reads from every connection for `length`: bytes a second of each.
pub(super) fn receive(
    streams: &mut [TcpStream],
    length: Nanos,
    idle: Idle,
) -> Result<Vec<f64>, Error> {
    let mut watch = Watch::new(idle)?;
    for (number, stream) in streams.iter().enumerate() {
        stream.set_nonblocking(true).or_needs("connection")?;
        watch.add(stream, number, EventFlags::IN)?;
    }
    let mut bytes = vec![0_u64; streams.len()];
    let mut chunk = vec![0; CHUNK];
    let began = now();
    let (mut time, mut moved_at) = (began, began);
    while time.since(began) < length {
        time = now();
        if time.since(moved_at) > STALLED {
            return Err(format!("nothing came for {STALLED}")).or_needs("byte of the stream");
        }
        let ready: arrayvec::ArrayVec<usize, 64> = watch.look()?.collect();
        for number in ready {
            match streams[number].read(&mut chunk) {
                Ok(0) => return Err("the server has closed").or_needs("byte of the stream"),
                Ok(count) => {
                    bytes[number] += count as u64;
                    moved_at = time;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).or_needs("byte of the stream"),
            }
        }
    }
    let seconds = time.since(began).as_secs_f64();
    Ok(bytes.into_iter().map(|bytes| bytes as f64 / seconds).collect())
}

/// Opens and closes connections to `servers` in turn for `length`, `under_way` at a time: how many
/// a second. The client closes its side first, and waits for the server's.
pub(super) fn open_and_close(
    side: &Side,
    servers: &[SocketAddr],
    under_way: usize,
    length: Nanos,
) -> Result<f64, Error> {
    let opened = side.enter(|| {
        let mut watch = Watch::new(Idle::Spin)?;
        let mut slots: Vec<Slot> = Vec::new();
        let (mut next, mut done) = (0, 0_u64);
        let mut open = |watch: &Watch, number: usize| {
            next += 1;
            let socket = begin(servers[next % servers.len()])?;
            watch.add(&socket, number, EventFlags::OUT)?;
            Ok::<_, Error>(Slot { stream: socket.into(), is_closing: false })
        };
        for number in 0..under_way {
            slots.push(open(&watch, number)?);
        }
        let began = now();
        let (mut time, mut moved_at) = (began, began);
        while time.since(began) < length {
            time = now();
            if time.since(moved_at) > STALLED {
                unless_interrupted()?;
                return Err(format!("nothing came for {STALLED}")).or_needs("connection");
            }
            let ready: arrayvec::ArrayVec<usize, 64> = watch.look()?.collect();
            for number in ready {
                let slot = &mut slots[number];
                moved_at = time;
                if !slot.is_closing {
                    if let Some(error) = slot.stream.take_error().or_needs("connection")? {
                        return Err(error).or_needs("connection");
                    }
                    slot.stream.shutdown(Shutdown::Write).or_needs("connection")?;
                    slot.is_closing = true;
                    watch.change(&slot.stream, number, EventFlags::IN)?;
                    continue;
                }
                match slot.stream.read(&mut [0; 16]) {
                    Ok(0) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    Ok(_) => return Err("it sends").or_needs("server without words"),
                    Err(error) => return Err(error).or_needs("end of a connection"),
                }
                done += 1;
                *slot = open(&watch, number)?;
            }
        }
        Ok(done as f64 / time.since(began).as_secs_f64())
    });
    opened.or_needs("thread in a namespace")?
}

/// A connection on its way.
struct Slot {
    stream: TcpStream,
    /// We have closed our side.
    is_closing: bool,
}

/// Begins to connect.
fn begin(server: SocketAddr) -> Result<OwnedFd, Error> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
    let socket = socket.or_needs("socket")?;
    match rustix::net::connect(&socket, &server) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error).or_needs("connection"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel_server::{KernelServer, Service};
    use super::*;

    fn with(service: Service, work: impl FnOnce(SocketAddr)) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let cpu = crate::place::Cpus::choose().server;
        let server =
            KernelServer::start(cpu, vec![listener], service, Idle::Sleep).expect("it starts");
        work(server.addresses()[0]);
        server.end().expect("nothing went wrong");
    }

    fn streams(server: SocketAddr, count: usize) -> Vec<TcpStream> {
        (0..count).map(|_| TcpStream::connect(server).expect("it listens")).collect()
    }

    #[test]
    fn answers_are_counted_and_connections_can_be_asked_again() {
        with(Service::Echo, |server| {
            let mut streams = streams(server, 3);
            for _ in 0..2 {
                let answers = ask(&mut streams, Nanos::from_secs(2)).expect("it echoes");
                let count = answers.per_second * 2.0;
                assert!(count > 3.0, "an answer is followed by the next request: {count}");
                assert!(answers.p50_us > 0.0);
            }
        });
    }

    #[test]
    fn bulk_is_counted_both_ways() {
        with(Service::Discard, |server| {
            let stream = streams(server, 1).remove(0);
            assert!(send(stream, Nanos::from_millis(50)).expect("it reads") > 0.0);
        });
        with(Service::Echo, |server| {
            let stream = streams(server, 1).remove(0);
            assert!(send(stream, Nanos::from_millis(50)).is_err(), "it does not discard");
        });
        with(Service::Chargen, |server| {
            let mut streams = streams(server, 2);
            let rates = receive(&mut streams, Nanos::from_secs(1), Idle::Sleep).expect("it writes");
            assert!(rates.len() == 2 && rates.iter().all(|&rate| rate > 0.0), "{rates:?}");
        });
    }
}
