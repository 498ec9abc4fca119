//! HTTP/1.1 (RFC 9112): GET of one page on connections that stay open. Bodies are counted off, not
//! kept.

use super::{Heard, Read, number};

/// Longest head of an answer: what common servers send is less than a tenth of it.
pub(super) const HEAD_MAX: usize = 16 << 10;

/// Longest body.
const BODY_MAX: u64 = 1 << 30;

/// Longest line of a chunk's size.
const CHUNK_LINE_MAX: usize = 256;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    path: String,
    request: Vec<u8>,
}

impl Page {
    /// `path` of the site that calls itself `host`.
    pub fn new(host: &str, path: &str) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: calisto\r\n\r\n");
        Self { path: path.to_owned(), request: request.into_bytes() }
    }

    pub(super) fn request(&self) -> &[u8] {
        &self.request
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

/// Where in an answer a connection is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Body {
    /// Before its head.
    #[default]
    Head,
    /// In a body of which this many bytes are left.
    Length { left: u64, heard: Heard },
    /// Before the size of a chunk; this many bytes came before.
    ChunkSize { before: u64, heard: Heard },
    /// In a chunk.
    Chunk { left: u64, before: u64, heard: Heard },
    /// Before the line's end behind a chunk.
    ChunkEnd { before: u64, heard: Heard },
    /// Behind the last chunk.
    Trailer { heard: Heard },
    /// In a body that the connection's end will end.
    UntilClose { before: u64, heard: Heard },
}

impl Body {
    pub(super) fn read(&mut self, bytes: &[u8]) -> Read {
        match *self {
            Self::Head => self.read_head(bytes),
            Self::Length { left, heard } => {
                let used = left.min(bytes.len() as u64);
                *self = Self::Length { left: left - used, heard };
                if used < left {
                    Read::More(used as usize)
                } else {
                    self.done(used as usize, heard)
                }
            }
            Self::ChunkSize { before, heard } => self.read_chunk_size(before, heard, bytes),
            Self::Chunk { left, before, heard } => {
                let used = left.min(bytes.len() as u64);
                *self = match left - used {
                    0 => Self::ChunkEnd { before, heard },
                    left => Self::Chunk { left, before, heard },
                };
                Read::More(used as usize)
            }
            Self::ChunkEnd { before, heard } => {
                const END: &[u8] = b"\r\n";
                if bytes.starts_with(END) {
                    *self = Self::ChunkSize { before, heard };
                    Read::More(END.len())
                } else if END.starts_with(bytes) {
                    Read::More(0)
                } else {
                    Read::Broken
                }
            }
            Self::Trailer { heard } => match line(bytes, HEAD_MAX) {
                Err(()) => Read::Broken,
                Ok(None) => Read::More(0),
                Ok(Some(([], used))) => self.done(used, heard),
                Ok(Some((_, used))) => Read::More(used),
            },
            Self::UntilClose { before, heard } => {
                let before = before + bytes.len() as u64;
                *self = Self::UntilClose { before, heard };
                if before > BODY_MAX { Read::Broken } else { Read::More(bytes.len()) }
            }
        }
    }

    /// The connection has ended.
    pub(super) fn end(&mut self) -> Option<Heard> {
        match std::mem::take(self) {
            Self::UntilClose { heard, .. } => Some(heard),
            _ => None,
        }
    }

    fn done(&mut self, used: usize, heard: Heard) -> Read {
        *self = Self::Head;
        Read::Answer(used, heard)
    }

    fn read_head(&mut self, bytes: &[u8]) -> Read {
        let seen = &bytes[..bytes.len().min(HEAD_MAX)];
        // What does not begin like this need not be waited for.
        if !b"HTTP/1.".iter().zip(seen).all(|(meant, found)| meant == found) {
            return Read::Broken;
        }
        let Some(used) = seen.windows(4).position(|end| end == b"\r\n\r\n") else {
            return if seen.len() == HEAD_MAX { Read::Broken } else { Read::More(0) };
        };
        let Some(head) = Head::parse(&seen[..used + 2]) else { return Read::Broken };
        let used = used + 4;
        let Head { status, length, is_chunked, closes } = head;
        let heard = |last| match status {
            200..=399 => Heard::Page { last },
            _ => Heard::Error { last },
        };
        // RFC 9112 section 6.3: what has no body, and what ends a body.
        match (status, is_chunked, length) {
            (101, ..) => Read::Broken,
            (100..=199, ..) => Read::More(used),
            (204 | 304, ..) => Read::Answer(used, heard(closes)),
            (_, true, _) => {
                *self = Self::ChunkSize { before: 0, heard: heard(closes) };
                Read::More(used)
            }
            (_, false, Some(0)) => Read::Answer(used, heard(closes)),
            (_, false, Some(left)) => {
                *self = Self::Length { left, heard: heard(closes) };
                Read::More(used)
            }
            (_, false, None) => {
                *self = Self::UntilClose { before: 0, heard: heard(true) };
                Read::More(used)
            }
        }
    }

    fn read_chunk_size(&mut self, before: u64, heard: Heard, bytes: &[u8]) -> Read {
        let (first, used) = match line(bytes, CHUNK_LINE_MAX) {
            Ok(Some(found)) => found,
            Ok(None) => return Read::More(0),
            Err(()) => return Read::Broken,
        };
        // What follows a semicolon are extensions, to be ignored.
        let digits = first.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let is_hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
        let size = std::str::from_utf8(digits).ok().and_then(|digits| {
            let fits = |size: &u64| before.checked_add(*size).is_some_and(|all| all <= BODY_MAX);
            u64::from_str_radix(digits, 16).ok().filter(|size| is_hex && fits(size))
        });
        match size {
            None => Read::Broken,
            Some(0) => {
                *self = Self::Trailer { heard };
                Read::More(used)
            }
            Some(size) => {
                *self = Self::Chunk { left: size, before: before + size, heard };
                Read::More(used)
            }
        }
    }
}

/// What matters of an answer's head.
struct Head {
    status: u16,
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
}

impl Head {
    /// `bytes` are whole lines.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.next()?;
        let version = first.strip_prefix(b"HTTP/1.")?;
        let (&[minor, space], rest) = version.split_first_chunk()?;
        let status = number(rest.get(..3)?)? as u16;
        let ends = rest.get(3).is_none_or(|byte| *byte == b' ');
        if space != b' ' || !ends || !(100..=599).contains(&status) || !minor.is_ascii_digit() {
            return None;
        }
        // RFC 9112 section 9.3: before 1.1 connections end unless they are said to stay.
        let mut head = Self { status, length: None, is_chunked: false, closes: minor == b'0' };
        for line in lines.filter(|line| !line.is_empty()) {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"content-length") {
                let length = number(value).filter(|length| *length <= BODY_MAX)?;
                // Two that differ: nobody knows where the answer ends.
                if head.length.is_some_and(|other| other != length) {
                    return None;
                }
                head.length = Some(length);
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return None;
                }
                head.is_chunked = true;
            } else if name.eq_ignore_ascii_case(b"connection") {
                head.closes = value.eq_ignore_ascii_case(b"close")
                    || head.closes && !value.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Some(head)
    }
}

/// The first line without its end, and how long it is with it.
fn line(bytes: &[u8], most: usize) -> Result<Option<(&[u8], usize)>, ()> {
    let seen = &bytes[..bytes.len().min(most)];
    match seen.iter().position(|byte| *byte == b'\n') {
        Some(end) => Ok(Some((seen[..end].trim_ascii_end(), end + 1))),
        None if seen.len() == most => Err(()),
        None => Ok(None),
    }
}
