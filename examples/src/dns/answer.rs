//! The response to a query.

use super::query::{Edns, HEADER_BYTES, OPT, Query, Question};
use super::zone::{Record, Zone};

/// Bytes of a response, at most: what fits into a packet everywhere.
pub const RESPONSE_BYTES_MAX: usize = 1232;

/// Bytes of a response without EDNS, at most (RFC 1035 section 4.2.1).
const PLAIN_BYTES_MAX: u16 = 512;

/// Bytes of an OPT record without options.
const OPT_BYTES: usize = 11;

const CLASS_IN: u16 = 1;
/// As a class or as a type.
const ANY: u16 = 255;
/// Types that ask for whole zones, and such: 251 to 254.
const META_TYPES: std::ops::Range<u16> = 251..255;

/// A pointer to the question's name, which is behind the header in every response.
const QUESTION_NAME: [u8; 2] = [0xc0, HEADER_BYTES as u8];

const NO_ERROR: u16 = 0;
const FORMAT_ERROR: u16 = 1;
const NO_SUCH_NAME: u16 = 3;
const NOT_IMPLEMENTED: u16 = 4;
const REFUSED: u16 = 5;
const BAD_VERSION: u16 = 16;

/// What is not answered at all, because the answer would be read by nobody, or by an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Shorter than a header.
    Short,
    /// A response: answering those makes loops.
    Response,
    /// A name or a record that ends beyond the message, or points where it must not.
    Malformed,
}

/// Writes the response to `query` into `out` and says how long it is: at most
/// [`RESPONSE_BYTES_MAX`], what the asker takes, and what fits. `ttl_seconds` is how long others
/// may keep what it says.
///
/// # Errors
/// There is nothing to answer.
pub fn answer(
    query: &[u8],
    zone: &Zone,
    ttl_seconds: u32,
    out: &mut [u8],
) -> Result<usize, Ignored> {
    let query = Query::read(query)?;
    let (code, records) = decide(&query, zone);
    let limit = query.edns.map_or(PLAIN_BYTES_MAX, |edns| edns.response_bytes.max(PLAIN_BYTES_MAX));
    let limit = usize::from(limit).min(RESPONSE_BYTES_MAX).min(out.len());
    let mut response = Response { out: &mut out[..limit], len: 0 };
    // A buffer without room for so much is too small to answer anything.
    response.begin(&query, code).ok_or(Ignored::Malformed)?;
    let edns_bytes = if query.edns.is_some() { OPT_BYTES } else { 0 };
    response.answers(records, query.question.as_ref(), ttl_seconds, edns_bytes);
    if let Some(edns) = query.edns {
        response.opt(edns, code).ok_or(Ignored::Malformed)?;
    }
    Ok(response.len)
}

/// The code of the response, and the records from which its answers are chosen.
fn decide<'z>(query: &Query<'_>, zone: &'z Zone) -> (u16, &'z [Record]) {
    if query.opcode != 0 {
        return (NOT_IMPLEMENTED, &[]);
    }
    let Some(question) = query.question.as_ref().filter(|_| !query.is_edns_wrong) else {
        return (FORMAT_ERROR, &[]);
    };
    if query.edns.is_some_and(|edns| edns.version != 0) {
        return (BAD_VERSION, &[]);
    }
    if !matches!(question.class, CLASS_IN | ANY) || META_TYPES.contains(&question.kind) {
        return (REFUSED, &[]);
    }
    match zone.find(&question.name) {
        Some(records) => (NO_ERROR, records),
        None => (NO_SUCH_NAME, &[]),
    }
}

/// A response that is being written.
struct Response<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Response<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.out.get_mut(self.len..self.len + bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }

    /// Header and question.
    fn begin(&mut self, query: &Query<'_>, code: u16) -> Option<()> {
        let is_authoritative = matches!(code, NO_ERROR | NO_SUCH_NAME);
        let flags = 0x80
            | query.opcode << 3
            | u8::from(is_authoritative) << 2
            | u8::from(query.recursion_desired);
        let (questions, records) =
            (u8::from(query.question.is_some()), u8::from(query.edns.is_some()));
        self.put(&query.id)?;
        self.put(&[flags, (code & 0xf) as u8, 0, questions, 0, 0, 0, 0, 0, records])?;
        self.put(query.question.as_ref().map_or(&[], |question| question.bytes))
    }

    /// The records that were asked for; none of them, and the mark of a cut response, when they do
    /// not all fit before `reserve_bytes` more.
    fn answers(
        &mut self,
        records: &[Record],
        question: Option<&Question<'_>>,
        ttl_seconds: u32,
        reserve_bytes: usize,
    ) {
        let Some(question) = question else { return };
        // Who asks for anything gets something (RFC 8482 section 4.1).
        let kind = match (question.kind, records.first()) {
            (ANY, Some(record)) => record.kind(),
            (kind, _) => kind,
        };
        let begin = self.len;
        let mut count = 0_u16;
        for record in records.iter().filter(|record| record.kind() == kind) {
            let written = self.record(record, ttl_seconds);
            if written.is_none() || self.len + reserve_bytes > self.out.len() {
                self.len = begin;
                count = 0;
                // TC, in the header that is there.
                self.out[2] |= 2;
                break;
            }
            count += 1;
        }
        self.out[6..8].copy_from_slice(&count.to_be_bytes());
    }

    fn record(&mut self, record: &Record, ttl_seconds: u32) -> Option<()> {
        let data_bytes = u16::try_from(record.data().len()).ok()?;
        self.put(&QUESTION_NAME)?;
        self.put(&record.kind().to_be_bytes())?;
        self.put(&CLASS_IN.to_be_bytes())?;
        self.put(&ttl_seconds.to_be_bytes())?;
        self.put(&data_bytes.to_be_bytes())?;
        self.put(record.data())
    }

    /// EDNS: what we take, and the upper bits of the code.
    fn opt(&mut self, edns: Edns, code: u16) -> Option<()> {
        let [t0, t1] = OPT.to_be_bytes();
        let [s0, s1] = (RESPONSE_BYTES_MAX as u16).to_be_bytes();
        let dnssec_ok = u8::from(edns.dnssec_ok) << 7;
        self.put(&[0, t0, t1, s0, s1, (code >> 4) as u8, 0, dnssec_ok, 0, 0, 0])
    }
}
