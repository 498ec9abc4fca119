//! What a query says.

use super::answer::Ignored;
use super::name::Name;

/// Bytes of a message's header (RFC 1035 section 4.1.1).
pub(super) const HEADER_BYTES: usize = 12;

/// The type of the record that carries EDNS.
pub(super) const OPT: u16 = 41;

/// A query, read.
#[derive(Debug)]
pub(super) struct Query<'a> {
    pub(super) id: [u8; 2],
    pub(super) opcode: u8,
    pub(super) recursion_desired: bool,
    /// What it asks; `None` when that is not one question.
    pub(super) question: Option<Question<'a>>,
    pub(super) edns: Option<Edns>,
    /// More than one OPT record, or one that is not the root's.
    pub(super) is_edns_wrong: bool,
}

/// The one question.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) name: Name,
    pub(super) kind: u16,
    pub(super) class: u16,
    /// As it stands in the query, to be repeated as it is.
    pub(super) bytes: &'a [u8],
}

/// EDNS of the query (RFC 6891).
#[derive(Clone, Copy, Debug)]
pub(super) struct Edns {
    /// Bytes of the largest response that the asker takes.
    pub(super) response_bytes: u16,
    pub(super) version: u8,
    /// The DO bit, to be repeated (RFC 3225).
    pub(super) dnssec_ok: bool,
}

impl<'a> Query<'a> {
    pub(super) fn read(message: &'a [u8]) -> Result<Self, Ignored> {
        let header = message.first_chunk::<HEADER_BYTES>().ok_or(Ignored::Short)?;
        let &[i0, i1, flags, _, q0, q1, a0, a1, n0, n1, r0, r1] = header;
        if flags & 0x80 != 0 {
            return Err(Ignored::Response);
        }
        let questions = u16::from_be_bytes([q0, q1]);
        let mut query = Self {
            id: [i0, i1],
            opcode: flags >> 3 & 0xf,
            recursion_desired: flags & 1 != 0,
            question: None,
            edns: None,
            is_edns_wrong: false,
        };
        // Another operation has another form, and more questions than one have no meaning.
        if query.opcode != 0 || questions != 1 {
            return Ok(query);
        }
        let (question, mut at) = Question::read(message).ok_or(Ignored::Malformed)?;
        query.question = Some(question);
        let records =
            [[a0, a1], [n0, n1], [r0, r1]].map(|count| u32::from(u16::from_be_bytes(count)));
        for _ in 0..records.iter().sum::<u32>() {
            at = query.record(message, at).ok_or(Ignored::Malformed)?;
        }
        Ok(query)
    }

    /// Reads the record at `at`; where it ends.
    fn record(&mut self, message: &[u8], at: usize) -> Option<usize> {
        let fixed = Name::skip(message, at)?;
        let &[k0, k1, c0, c1, _, version, f0, _, l0, l1] =
            message.get(fixed..)?.first_chunk::<10>()?;
        let end = fixed + 10 + usize::from(u16::from_be_bytes([l0, l1]));
        message.get(..end)?;
        if u16::from_be_bytes([k0, k1]) == OPT {
            self.is_edns_wrong |= self.edns.is_some() || message.get(at) != Some(&0);
            self.edns = Some(Edns {
                response_bytes: u16::from_be_bytes([c0, c1]),
                version,
                dnssec_ok: f0 & 0x80 != 0,
            });
        }
        Some(end)
    }
}

impl<'a> Question<'a> {
    fn read(message: &'a [u8]) -> Option<(Self, usize)> {
        let (name, fixed) = Name::read(message, HEADER_BYTES)?;
        let &[k0, k1, c0, c1] = message.get(fixed..)?.first_chunk::<4>()?;
        let question = Self {
            name,
            kind: u16::from_be_bytes([k0, k1]),
            class: u16::from_be_bytes([c0, c1]),
            bytes: message.get(HEADER_BYTES..fixed + 4)?,
        };
        Some((question, fixed + 4))
    }
}
