//! The client of the third act: Linux sockets that ask, check every answer, and measure.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use base::Nanos;
use cli::failure::Failure;
use load::Latencies;
use rustix::event::epoll::EventFlags;
use testbed::{Side, Watch};

use super::progress::check_stop;

/// Bytes of a request, and of its answer.
pub(super) const REQUEST_BYTES: usize = 64;

/// Asked before anything is measured: windows and caches are then warm.
const WARM_UP: Duration = Duration::from_millis(100);

/// A server that is silent for this long is stuck.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Between two looks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Period of what bulk is made of: no ring and no segment is a whole number of it.
const PERIOD: usize = 251;

/// Bytes written or read at once, at most.
const CHUNK: usize = 1 << 16;

/// What the requests of one round have shown.
#[derive(Debug)]
pub(super) struct Answers {
    /// From the request's write to its whole answer, after the warm-up.
    pub(super) latencies: Latencies,
    /// How long those were taken.
    pub(super) seconds: f64,
    /// All answers, the warm-up's included.
    pub(super) all: u64,
}

/// A connection with a request under way, or none.
struct Asker {
    stream: TcpStream,
    number: u64,
    asked: Instant,
    answer: [u8; REQUEST_BYTES],
    filled: usize,
}

/// Asks `server` over that many connections from `side`, one request at a time over each.
pub(super) fn ask(
    side: &Side,
    cpu: Option<usize>,
    server: SocketAddr,
    connections: u32,
    length: Duration,
) -> Result<Answers, Failure> {
    inside(side, cpu, || {
        let mut watch = Watch::new(LOOK_EVERY).map_err(|error| failed(&error))?;
        let mut askers = Vec::new();
        for number in 0..connections as usize {
            let stream = connect(server)?;
            watch.add(&stream, number, EventFlags::IN).map_err(|error| failed(&error))?;
            let answer = [0; REQUEST_BYTES];
            askers.push(Asker { stream, number: 0, asked: Instant::now(), answer, filled: 0 });
        }
        drive(&mut watch, &mut askers, length)
    })
}

fn drive(watch: &mut Watch, askers: &mut [Asker], length: Duration) -> Result<Answers, Failure> {
    let warm = Instant::now() + WARM_UP;
    let end = warm + length;
    askers.iter_mut().try_for_each(Asker::ask)?;
    let (mut latencies, mut all, mut open) = (Latencies::default(), 0, askers.len());
    let mut heard = Instant::now();
    while open > 0 {
        let ready = watch.look().map_err(|error| failed(&error))?;
        if ready == 0 && heard.elapsed() > TIMEOUT {
            return Err(silent());
        }
        for at in 0..ready {
            let Some(asker) = askers.get_mut(watch.event(at).0) else { continue };
            if !asker.hear()? {
                continue;
            }
            heard = Instant::now();
            all += 1;
            if heard >= warm && heard < end {
                latencies.record((heard - asker.asked).into());
            }
            if heard < end {
                asker.ask()?;
            } else {
                open -= 1;
            }
        }
        check_stop()?;
    }
    Ok(Answers { latencies, seconds: length.as_secs_f64(), all })
}

impl Asker {
    /// Sends the next request.
    fn ask(&mut self) -> Result<(), Failure> {
        self.number += 1;
        self.filled = 0;
        self.asked = Instant::now();
        // One at a time: the socket's buffer has room for it.
        self.stream.write_all(&request(self.number)).map_err(|error| failed(&error))
    }

    /// Takes what has come; true when that completes the answer.
    fn hear(&mut self) -> Result<bool, Failure> {
        match self.stream.read(&mut self.answer[self.filled..]) {
            Ok(0) => Err(Failure::new("the server has closed a connection early")),
            Ok(len) => {
                self.filled += len;
                if self.filled < REQUEST_BYTES {
                    return Ok(false);
                }
                if self.answer == request(self.number) { Ok(true) } else { Err(wrong()) }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(failed(&error)),
        }
    }
}

/// Bytes that depend on a number.
fn request(number: u64) -> [u8; REQUEST_BYTES] {
    let mut bytes = [number as u8; REQUEST_BYTES];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Sends as much as can be over one connection, and takes it back; bits a second of what came back.
pub(super) fn bulk(
    side: &Side,
    cpu: Option<usize>,
    server: SocketAddr,
    length: Duration,
) -> Result<f64, Failure> {
    inside(side, cpu, || {
        let mut stream = connect(server)?;
        let text: Vec<u8> = (0..CHUNK + PERIOD).map(|at| (at % PERIOD) as u8).collect();
        let mut bytes = vec![0; CHUNK];
        let begun = Instant::now();
        let (mut sent, mut back, mut moved) = (0_usize, 0_usize, begun);
        // Until everything that was sent within the time is back.
        while begun.elapsed() < length || back < sent {
            let before = (sent, back);
            if begun.elapsed() < length {
                sent += done(stream.write(&text[sent % PERIOD..][..CHUNK]))?;
            }
            let len = done(stream.read(&mut bytes))?;
            if bytes[..len] != text[back % PERIOD..][..len] {
                return Err(wrong());
            }
            back += len;
            check_stop()?;
            if before != (sent, back) {
                moved = Instant::now();
            } else if moved.elapsed() > TIMEOUT {
                return Err(silent());
            } else {
                sys::poll::wait_readable(stream.as_fd(), Nanos::from_millis(50));
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        stream.shutdown(Shutdown::Write).map_err(|error| failed(&error))?;
        Ok(back as f64 * 8.0 / seconds)
    })
}

/// What was moved; nothing, if that would have blocked.
fn done(result: io::Result<usize>) -> Result<usize, Failure> {
    match result {
        Ok(len) => Ok(len),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(failed(&error)),
    }
}

fn connect(server: SocketAddr) -> Result<TcpStream, Failure> {
    let connect = || {
        let stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    connect().map_err(|error: io::Error| {
        Failure::new(format!("cannot connect to the server at {server}: {error}"))
    })
}

/// Does something on `cpu`, as a host of `side`.
fn inside<T: Send>(
    side: &Side,
    cpu: Option<usize>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let on_cpu = || {
        cpu.map_or(Ok(()), sys::thread::pin).map_err(Failure::new)?;
        work()
    };
    side.enter(on_cpu).map_err(Failure::new)?
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(format!("the client of the demo cannot go on: {error}"))
}

fn wrong() -> Failure {
    Failure::new("the server has sent back other bytes than it was sent")
}

fn silent() -> Failure {
    Failure::new(format!("the server has been silent for {} s", TIMEOUT.as_secs()))
}
