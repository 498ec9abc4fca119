//! Sets every key once, so that gets find what they ask for.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base::Nanos;
use sys::clock::now;

use crate::protocol::{self, Heard, Protocol, Reader};
use crate::{Error, Request};

/// How long the store may take for one more answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of requests that are sent before their answers are read: less than sockets hold.
const BATCH_BYTES: usize = 32 << 10;

/// Whoever waits longer is told how far it is.
const PROGRESS: Nanos = Nanos::from_secs(2);

/// Stores a value for every key of `protocol`.
///
/// # Errors
/// The store cannot be reached, stores nothing, or is none.
pub(super) fn fill(protocol: &Protocol, target: SocketAddr) -> Result<(), Error> {
    let (Protocol::Memcached(cache) | Protocol::Redis(cache)) = protocol else { return Ok(()) };
    let (mut cache, keys) = (cache.clone(), cache.config().keys);
    let failed = |key: u32, why: &str| {
        Error::Failed(format!(
            "the store at {target} cannot be filled: {why} (key {key} of {keys}); --no-fill leaves \
             that out"
        ))
    };
    let mut stream = TcpStream::connect_timeout(&target, TIMEOUT)
        .map_err(|error| Error::io(format!("connect to {target}"), &error))?;
    let prepared = stream
        .set_read_timeout(Some(TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)))
        .and_then(|()| stream.set_nodelay(true));
    prepared.map_err(|error| failed(0, &error.to_string()))?;
    let (mut reader, mut requests, mut unread) = (Reader::default(), Vec::new(), Vec::new());
    let mut asks = Vec::new();
    let mut told = now();
    let mut next = 0;
    while next < keys {
        if sys::signal::stop_requested() {
            return Err(failed(next, "it was stopped"));
        }
        while next < keys && requests.len() < BATCH_BYTES {
            let ask = cache.set(next);
            protocol.write(&Request::default(), ask, &mut requests);
            asks.push(ask);
            next += 1;
        }
        stream.write_all(&requests).map_err(|error| failed(next, &error.to_string()))?;
        requests.clear();
        for ask in asks.drain(..) {
            match next_answer(&mut stream, &mut reader, protocol, ask, &mut unread) {
                Ok(Heard::Stored) => {}
                Ok(_) => return Err(failed(next, "it stores nothing, or has no room")),
                Err(why) => return Err(failed(next, &why)),
            }
        }
        if now().since(told) >= PROGRESS {
            eprintln!("filled {next} of {keys} keys");
            told = now();
        }
    }
    Ok(())
}

fn next_answer(
    stream: &mut TcpStream,
    reader: &mut Reader,
    protocol: &Protocol,
    ask: protocol::Ask,
    unread: &mut Vec<u8>,
) -> Result<Heard, String> {
    let mut chunk = [0; 4096];
    loop {
        match reader.read(protocol, ask, unread) {
            protocol::Read::Answer(used, heard) => {
                unread.drain(..used);
                return Ok(heard);
            }
            protocol::Read::Broken => return Err("it does not speak this protocol".to_owned()),
            protocol::Read::More(used) => drop(unread.drain(..used)),
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Err("it has closed the connection".to_owned()),
            Ok(count) => unread.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(format!("it does not answer within {TIMEOUT:?}"));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
