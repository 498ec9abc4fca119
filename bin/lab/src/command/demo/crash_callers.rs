//! Callers of redis-server over a daemon's death: each counts up a number of its own, one request
//! at a time, and knows what the answer has to be.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cli::failure::Failure;
use testbed::Side;

/// A caller that has waited this long for an answer gets none any more.
const TIMEOUT: Duration = Duration::from_secs(30);

/// It needs little.
const STACK_BYTES: usize = 256 << 10;

/// Some of them; dropped, they end.
pub(super) struct Callers {
    all: Vec<JoinHandle<Called>>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

/// What one has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Called {
    pub(super) answered: u64,
    /// The longest that it was without an answer.
    pub(super) longest: Duration,
    /// What was wrong, which ended it.
    pub(super) broken: Option<String>,
}

impl Callers {
    /// `count` connections from `side`; `round` tells their numbers from others'.
    pub(super) fn start(
        side: &Side,
        server: SocketAddr,
        round: u32,
        count: u32,
    ) -> Result<Self, Failure> {
        let connect = || (0..count).map(|_| TcpStream::connect_timeout(&server, TIMEOUT)).collect();
        let streams: Result<Vec<TcpStream>, _> = side.enter(connect).map_err(Failure::new)?;
        let streams = streams
            .map_err(|error| Failure::new(format!("redis-server takes no connection: {error}")))?;
        let (stop, answered) = Default::default();
        let mut callers = Self { all: Vec::new(), stop, answered };
        for (number, stream) in streams.into_iter().enumerate() {
            let name = format!("caller:{round}:{number}");
            let (stop, answered) = (Arc::clone(&callers.stop), Arc::clone(&callers.answered));
            let call = move || call(&stream, &name, &stop, &answered);
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(call);
            callers.all.push(thread.map_err(|error| {
                Failure::new(format!("cannot start a thread for each caller: {error}"))
            })?);
        }
        Ok(callers)
    }

    /// Answers that all of them have got so far.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Ends them: what each has seen.
    pub(super) fn end(mut self) -> Vec<Called> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = std::mem::take(&mut self.all).into_iter().map(JoinHandle::join);
        ended.map(|called| called.unwrap_or_else(|_| Called::broken("it has panicked"))).collect()
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Called {
    fn broken(why: &str) -> Self {
        Self { broken: Some(why.to_owned()), ..Self::default() }
    }
}

/// Counts up until it is told to stop.
fn call(stream: &TcpStream, name: &str, stop: &AtomicBool, answered: &AtomicU64) -> Called {
    let mut called = Called::default();
    let request = format!("INCR {name}\r\n");
    let prepared = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(TIMEOUT)));
    if let Err(error) = prepared {
        return Called::broken(&error.to_string());
    }
    let (mut from, mut to, mut line) = (BufReader::new(stream), stream, String::new());
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        line.clear();
        let heard = to.write_all(request.as_bytes()).and_then(|()| from.read_line(&mut line));
        let expected = format!(":{}\r\n", called.answered + 1);
        let wrong = match heard {
            Ok(_) if line == expected => None,
            Ok(0) => Some("its connection has ended".to_owned()),
            Ok(_) => Some(format!("{line:?} came instead of {expected:?}")),
            Err(error) => Some(error.to_string()),
        };
        called.longest = called.longest.max(asked.elapsed());
        if wrong.is_some() {
            called.broken = wrong;
            break;
        }
        called.answered += 1;
        answered.fetch_add(1, Ordering::Relaxed);
    }
    called
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Calls a server that says `lines`, whatever it is asked, and then nothing more.
    fn against(lines: &[&str]) -> Called {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
        let address = listener.local_addr().expect("it is bound");
        std::thread::scope(|threads| {
            threads.spawn(move || {
                let (mut caller, _) = listener.accept().expect("one calls");
                let mut asked = BufReader::new(caller.try_clone().expect("descriptors are left"));
                for line in lines {
                    asked.read_line(&mut String::new()).expect("it asks");
                    caller.write_all(line.as_bytes()).expect("it reads");
                }
            });
            let stream = TcpStream::connect(address).expect("somebody listens");
            call(&stream, "n", &AtomicBool::new(false), &AtomicU64::new(0))
        })
    }

    #[test]
    fn an_answer_that_is_lost_doubled_or_cut_off_is_seen() {
        let told =
            |called: Called| (called.answered, called.broken.expect("all of them end badly"));
        assert_eq!(
            told(against(&[":1\r\n", ":3\r\n"])),
            (1, r#"":3\r\n" came instead of ":2\r\n""#.to_owned())
        );
        assert_eq!(told(against(&[":1\r\n", ":1\r\n"])).0, 1);
        assert_eq!(told(against(&[":1\r\n", ":2\r\n", ""])).0, 2);
    }
}
