//! What is said on a connection: bytes of requests, and what the bytes that come back mean.
//!
//! Pure: no sockets here. Servers answer in the order in which they were asked; every answer is
//! checked against what was asked. What comes is hostile: nothing is kept of it beyond
//! [`Protocol::unread_max`] bytes, and what cannot be the answer is [`Read::Broken`].

use crate::Request;

/// Keys and values of stores.
pub mod cache;
mod http;
mod memcached;
mod redis;

pub use cache::{Cache, CacheConfig};
pub use http::Page;

/// Longest line that a server may say before its data.
const LINE_MAX: usize = 1024;

/// A protocol on a stream, and what is asked for by it.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// Requests of a fixed size that the server copies back: that of Shenango's `synthetic`.
    Echo {
        /// The size.
        payload_bytes: usize,
    },
    /// memcached's text protocol.
    Memcached(Cache),
    /// RESP2.
    Redis(Cache),
    /// HTTP/1.1.
    Http(Page),
}

/// What one request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// A copy of itself.
    Copy,
    /// The value of a key.
    Get { key: u32 },
    /// To store this many bytes.
    Set { key: u32, bytes: u32 },
    /// The page.
    Page,
}

/// What an answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The bytes are a copy, to be looked at.
    Copy,
    /// The right value.
    Hit,
    /// There is no such value.
    Miss,
    /// It was stored.
    Stored,
    /// The page, or one elsewhere. `last`: the server will close the connection.
    Page { last: bool },
    /// The server says that something is wrong.
    Error { last: bool },
    /// A whole answer with another value than the one that was stored.
    Wrong,
}

/// What the bytes at hand are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The answer goes on after this many bytes, which are used up.
    More(usize),
    /// The answer ends after this many bytes.
    Answer(usize, Heard),
    /// This is no answer.
    Broken,
}

/// How far one connection's answer has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    body: http::Body,
}

impl Protocol {
    /// What is asked for follows from `seed` from now on.
    pub(crate) fn reseed(&mut self, seed: u64) {
        match self {
            Self::Memcached(cache) | Self::Redis(cache) => cache.reseed(seed),
            Self::Echo { .. } | Self::Http(_) => {}
        }
    }

    /// What `request` asks for.
    #[inline]
    pub(crate) fn ask(&mut self) -> Ask {
        match self {
            Self::Echo { .. } => Ask::Copy,
            Self::Memcached(cache) | Self::Redis(cache) => cache.ask(),
            Self::Http(_) => Ask::Page,
        }
    }

    /// Adds the bytes of a request to `to`.
    #[inline]
    pub(crate) fn write(&self, request: &Request, ask: Ask, to: &mut Vec<u8>) {
        match (self, ask) {
            (Self::Echo { payload_bytes }, _) => {
                let start = to.len();
                to.resize(start + payload_bytes, 0);
                request.write(&mut to[start..]);
            }
            (Self::Memcached(cache), ask) => memcached::write(cache, ask, to),
            (Self::Redis(cache), ask) => redis::write(cache, ask, to),
            (Self::Http(page), _) => to.extend_from_slice(page.request()),
        }
    }

    /// Bytes of an answer that are kept until it is whole, at most.
    pub(crate) fn unread_max(&self) -> usize {
        match self {
            Self::Echo { payload_bytes } => *payload_bytes,
            Self::Memcached(cache) | Self::Redis(cache) => cache.longest() + 2 * LINE_MAX,
            Self::Http(_) => http::HEAD_MAX,
        }
    }

    /// What it is, for the report.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Echo { payload_bytes } => format!("requests of {payload_bytes} B"),
            Self::Memcached(cache) => format!("memcached, {}", cache.describe()),
            Self::Redis(cache) => format!("RESP, {}", cache.describe()),
            Self::Http(page) => format!("HTTP/1.1 GET {}", page.path()),
        }
    }
}

impl Reader {
    /// Reads on: `bytes` begin where the last call has stopped.
    #[inline]
    pub(crate) fn read(&mut self, protocol: &Protocol, ask: Ask, bytes: &[u8]) -> Read {
        match protocol {
            Protocol::Echo { payload_bytes } if bytes.len() < *payload_bytes => Read::More(0),
            Protocol::Echo { payload_bytes } => Read::Answer(*payload_bytes, Heard::Copy),
            Protocol::Memcached(cache) => memcached::read(cache, ask, bytes),
            Protocol::Redis(cache) => redis::read(cache, ask, bytes),
            Protocol::Http(_) => self.body.read(bytes),
        }
    }

    /// The connection has ended: whether that ends an answer.
    pub(crate) fn end(&mut self) -> Option<Heard> {
        self.body.end()
    }
}

/// The first line of `bytes` without its end, and how long it is with it. `None`: it has no end
/// yet; an error: it has none within [`LINE_MAX`] bytes, or is no line.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, ()> {
    let seen = &bytes[..bytes.len().min(LINE_MAX)];
    match seen.iter().position(|byte| *byte == b'\n') {
        Some(end) if end > 0 && seen[end - 1] == b'\r' => Ok(Some((&seen[..end - 1], end + 1))),
        Some(_) => Err(()),
        None if seen.len() == LINE_MAX => Err(()),
        None => Ok(None),
    }
}

/// A number in decimal digits and nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests;
