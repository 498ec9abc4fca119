//! Domain names: from people, and from messages.

use std::fmt;

/// Bytes of a name in a message, at most (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// Bytes of one label, at most.
const LABEL_BYTES_MAX: usize = 63;

/// Upper bits of a length byte that make it a pointer (RFC 1035 section 4.1.4).
const POINTER: u8 = 0xc0;

/// A name as messages have it, labels with their lengths and the empty label at the end, in lower
/// case: equal names have equal bytes.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    len: usize,
}

impl Name {
    const EMPTY: Self = Self { bytes: [0; NAME_BYTES_MAX], len: 0 };

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The name as people write it, such as `www.example.org`, with or without a dot at the end.
    ///
    /// # Errors
    /// It cannot be a name, or has characters that need escapes, which are not read here.
    pub fn from_text(text: &str) -> Result<Self, NameError> {
        let wrong = |what| NameError { text: text.to_owned(), what };
        let mut name = Self::EMPTY;
        let labels = text.strip_suffix('.').unwrap_or(text);
        if labels.is_empty() && text != "." {
            return Err(wrong("it is empty"));
        }
        for label in labels.split('.').filter(|_| !labels.is_empty()) {
            if label.is_empty() || label.len() > LABEL_BYTES_MAX {
                return Err(wrong("between dots are 1 to 63 characters"));
            }
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if !label.bytes().all(is_plain) {
                return Err(wrong("it has characters other than letters, digits, '-' and '_'"));
            }
            name.label(label.as_bytes()).ok_or_else(|| wrong("it is longer than 255 bytes"))?;
        }
        name.label(&[]).ok_or_else(|| wrong("it is longer than 255 bytes"))?;
        Ok(name)
    }

    /// Reads the name at `at` of a message and says where it ends there. Pointers are followed;
    /// each must point before everything that was read so far, so there is an end.
    pub(super) fn read(message: &[u8], at: usize) -> Option<(Self, usize)> {
        let mut name = Self::EMPTY;
        let (mut next, mut lowest) = (at, at);
        // The end of the name where it began: behind the first pointer.
        let mut end = None;
        loop {
            let length = *message.get(next)?;
            if length & POINTER == POINTER {
                let low = *message.get(next + 1)?;
                let target = usize::from(u16::from_be_bytes([length & !POINTER, low]));
                end = end.or(Some(next + 2));
                // The header holds no names.
                if target >= lowest || target < super::query::HEADER_BYTES {
                    return None;
                }
                (next, lowest) = (target, target);
                continue;
            }
            // The other two kinds of label are not in use (RFC 6891 section 5).
            if usize::from(length) > LABEL_BYTES_MAX {
                return None;
            }
            let label = message.get(next + 1..next + 1 + usize::from(length))?;
            next += 1 + label.len();
            name.label(label)?;
            if label.is_empty() {
                return Some((name, end.unwrap_or(next)));
            }
        }
    }

    /// Where the name at `at` of a message ends there; what a pointer points to is not looked at.
    pub(super) fn skip(message: &[u8], at: usize) -> Option<usize> {
        let mut next = at;
        loop {
            let length = *message.get(next)?;
            match length {
                0 => return Some(next + 1),
                1..64 => next += 1 + usize::from(length),
                _ if length & POINTER == POINTER => {
                    message.get(next + 1)?;
                    return Some(next + 2);
                }
                _ => return None,
            }
        }
    }

    /// The names above it, nearest first, the root last.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.as_bytes();
        std::iter::from_fn(move || {
            let (&length, _) = rest.split_first().filter(|(length, _)| **length > 0)?;
            rest = rest.get(1 + usize::from(length)..)?;
            Some(rest)
        })
    }

    fn label(&mut self, label: &[u8]) -> Option<()> {
        let to = self.bytes.get_mut(self.len..self.len + 1 + label.len())?;
        let (length, to) = to.split_first_mut()?;
        *length = u8::try_from(label.len()).ok()?;
        to.copy_from_slice(label);
        to.make_ascii_lowercase();
        self.len += 1 + label.len();
        Some(())
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

/// A text that is no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    text: String,
    what: &'static str,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no name: {}", self.text, self.what)
    }
}

impl std::error::Error for NameError {}
