//! The client of every case on real packets: Linux's sockets, one thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use base::Nanos;
use rustix::event::epoll::EventFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use sys::clock::now;
use testbed::{Idle, Side, Watch};

use crate::error::{Error, OrNeeds, unless_interrupted};

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
    let mut watch = Watch::new(idle.timeout()).or_needs("epoll")?;
    for (number, stream) in streams.iter().enumerate() {
        stream.set_nonblocking(true).or_needs("connection")?;
        watch.add(stream, number, EventFlags::IN).or_needs("epoll")?;
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
        for at in 0..watch.look().or_needs("epoll")? {
            let (number, _) = watch.event(at);
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
        let mut watch = Watch::new(Idle::Spin.timeout()).or_needs("epoll")?;
        let mut slots: Vec<Slot> = Vec::new();
        let (mut next, mut done) = (0, 0_u64);
        let mut open = |watch: &Watch, number: usize| {
            next += 1;
            let socket = begin(servers[next % servers.len()])?;
            watch.add(&socket, number, EventFlags::OUT).or_needs("epoll")?;
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
            for at in 0..watch.look().or_needs("epoll")? {
                let (number, _) = watch.event(at);
                let slot = &mut slots[number];
                moved_at = time;
                if !slot.is_closing {
                    if let Some(error) = slot.stream.take_error().or_needs("connection")? {
                        return Err(error).or_needs("connection");
                    }
                    slot.stream.shutdown(Shutdown::Write).or_needs("connection")?;
                    slot.is_closing = true;
                    watch.change(&slot.stream, number, EventFlags::IN).or_needs("epoll")?;
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
    use testbed::{LinuxServer, Service};

    use super::*;

    fn with(service: Service, work: impl FnOnce(SocketAddr)) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let server = LinuxServer::start(None, vec![listener], service, Idle::Sleep);
        let server = server.expect("it starts");
        work(server.addresses()[0]);
        server.end().expect("nothing went wrong");
    }

    fn streams(server: SocketAddr, count: usize) -> Vec<TcpStream> {
        (0..count).map(|_| TcpStream::connect(server).expect("it listens")).collect()
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
