//! The names that are known, and what is known of them.

use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::name::{Name, NameError};

/// Types of records (RFC 1035 section 3.2.2, RFC 3596).
const A: u16 = 1;
const TXT: u16 = 16;
const AAAA: u16 = 28;

/// Bytes of a TXT record's text, at most: it must fit into a response.
const TEXT_BYTES_MAX: usize = 1000;

/// One thing that is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    name: Name,
    kind: u16,
    data: Vec<u8>,
}

impl Record {
    /// The number of its type.
    pub fn kind(&self) -> u16 {
        self.kind
    }

    /// Its data, as messages have it.
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

impl FromStr for Record {
    type Err = RecordError;

    /// As in a zone file: `www.example.org A 192.0.2.1`.
    fn from_str(text: &str) -> Result<Self, RecordError> {
        let wrong = || RecordError::Form(text.to_owned());
        let (name, rest) = text.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
        let (kind, data) = rest.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
        let data = data.trim();
        let name = Name::from_text(name).map_err(RecordError::Name)?;
        let (kind, data) = match kind.to_ascii_uppercase().as_str() {
            "A" => (A, data.parse::<Ipv4Addr>().map_err(|_| wrong())?.octets().to_vec()),
            "AAAA" => (AAAA, data.parse::<Ipv6Addr>().map_err(|_| wrong())?.octets().to_vec()),
            "TXT" => {
                let inner = data.strip_prefix('"').and_then(|data| data.strip_suffix('"'));
                (TXT, character_strings(inner.unwrap_or(data)).ok_or_else(wrong)?)
            }
            _ => return Err(wrong()),
        };
        Ok(Self { name, kind, data })
    }
}

/// Text in pieces of 255 bytes at most, each with its length before it.
fn character_strings(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let pieces = text.as_bytes().chunks(255);
    Some(pieces.flat_map(|piece| [&[piece.len() as u8], piece].concat()).collect())
}

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct Zone {
    /// By name. A name above a known one exists too, with nothing known of it (RFC 8020).
    names: HashMap<Box<[u8]>, Vec<Record>>,
}

impl Zone {
    /// Of a name: what is known of it, or nothing when there is no such name.
    pub(super) fn find(&self, name: &Name) -> Option<&[Record]> {
        self.names.get(name.as_bytes()).map(Vec::as_slice)
    }
}

impl FromIterator<Record> for Zone {
    fn from_iter<Records: IntoIterator<Item = Record>>(records: Records) -> Self {
        let mut zone = Self::default();
        for record in records {
            for ancestor in record.name.ancestors() {
                zone.names.entry(ancestor.into()).or_default();
            }
            let known = zone.names.entry(record.name.as_bytes().into()).or_default();
            // Twice the same is once (RFC 2181 section 5).
            if !known.contains(&record) {
                known.push(record);
            }
        }
        zone
    }
}

/// A text that is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// Not a name, a type and its data.
    Form(String),
    /// Its name is none.
    Name(NameError),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(
                f,
                "{text:?} is no record: write a name, A, AAAA or TXT, and an address or up to \
                 {TEXT_BYTES_MAX} bytes of text, such as 'www.example.org A 192.0.2.1'"
            ),
            Self::Name(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecordError {}
