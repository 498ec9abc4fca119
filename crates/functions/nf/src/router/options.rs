//! Whether the options of an IPv4 header make sense, and which byte does not (RFC 791 section 3.1,
//! RFC 1812 section 5.2.4). They are looked at, not carried out.

use super::stop::Stop;

/// Where options begin.
const FIRST: usize = 20;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;
const ROUTER_ALERT: u8 = 148;

/// Options that a header has once (RFC 791 section 3.1): a bit for each that was seen.
#[derive(Default)]
struct Seen {
    route: bool,
    timestamp: bool,
    source_route: bool,
}

/// Judges the options of `header`, which is whole and of at most 60 bytes. What the kernel refuses
/// is refused, by the same byte of the header; a source route, if all options make sense.
#[cold]
pub(super) fn judge(header: &[u8]) -> Result<(), Stop> {
    let mut at = FIRST;
    let mut seen = Seen::default();
    while let Some(&[kind, ref rest @ ..]) = header.get(at..) {
        match kind {
            END => break,
            NO_OPERATION => {
                at += 1;
                continue;
            }
            _ => {}
        }
        // The length counts kind and length: with less than two the walk would stand still.
        let bytes = rest.first().map_or(0, |bytes| usize::from(*bytes));
        let option = header.get(at..at + bytes).filter(|_| bytes >= 2);
        let option = option.ok_or(Stop::MalformedOption { at: at as u8 })?;
        if let Some(fault) = fault(option, &mut seen) {
            return Err(Stop::BadOption { at: (at + fault) as u8 });
        }
        at += bytes;
    }
    // RFC 7126 sections 4.3 and 4.4: not followed unless somebody asked for it.
    if seen.source_route { Err(Stop::SourceRoute) } else { Ok(()) }
}

/// Which byte of an option makes no sense.
fn fault(option: &[u8], seen: &mut Seen) -> Option<usize> {
    let bytes = option.len();
    // Counted from one: where the next entry is to be written.
    let pointer = option.get(2).map_or(0, |pointer| usize::from(*pointer));
    match option[0] {
        LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => match () {
            () if bytes < 3 => Some(1),
            () if pointer < 4 => Some(2),
            () if std::mem::replace(&mut seen.source_route, true) => Some(0),
            () => None,
        },
        RECORD_ROUTE => match () {
            () if std::mem::replace(&mut seen.route, true) => Some(0),
            () if bytes < 3 => Some(1),
            () if pointer < 4 => Some(2),
            () if pointer <= bytes && pointer + 3 > bytes => Some(2),
            () => None,
        },
        TIMESTAMP => match () {
            () if std::mem::replace(&mut seen.timestamp, true) => Some(0),
            () if bytes < 4 => Some(1),
            () if pointer < 5 => Some(2),
            () => timestamp_fault(option[3], pointer, bytes),
        },
        ROUTER_ALERT if bytes < 4 => Some(1),
        _ => None,
    }
}

/// Of a time-stamp option with these flags, behind whose header is room from `pointer` on.
fn timestamp_fault(flags: u8, pointer: usize, bytes: usize) -> Option<usize> {
    const ADDRESSES: u8 = 1;
    const CHOSEN: u8 = 3;
    let (overflow, kind) = (flags >> 4, flags & 0x0f);
    if pointer > bytes {
        // It is full, and one more host cannot be counted either.
        return (overflow == 15 && kind != CHOSEN).then_some(3);
    }
    let entry = if matches!(kind, ADDRESSES | CHOSEN) { 8 } else { 4 };
    (pointer - 1 + entry > bytes).then_some(2)
}
