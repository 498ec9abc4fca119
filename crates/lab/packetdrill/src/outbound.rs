//! Packets of the engine against what the script expects.

use std::fmt::Write;

use base::Nanos;
use tcp::Seq;
use wire::tcp::{self as header, Header};

use crate::inbound::{content, flags_text};
use crate::script::{Ecn, Packet, TcpOption};
use crate::testbed::{Frame, Numbers};

/// The frame as the script would write it.
pub(crate) fn read(frame: &Frame, numbers: &Numbers) -> Option<Packet> {
    let header = Header::parse(&frame.bytes).ok()?;
    let bytes = frame.bytes.len() - usize::from(header.header_bytes);
    let has_ack = header.flags & header::ACK != 0;
    let raw = frame.bytes.get(20..usize::from(header.header_bytes))?;
    let ecn = match frame.ecn {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    };
    Some(Packet {
        ecn: Some(ecn),
        flags: header.flags,
        start: numbers.of_ours(Seq(header.sequence)),
        bytes: u32::try_from(bytes).ok()?,
        ack: has_ack.then(|| numbers.of_theirs(Seq(header.acknowledgement))),
        window: Some(header.window),
        urgent: if header.flags & header::URG != 0 { header.urgent } else { 0 },
        options: Some(options(raw, numbers)),
    })
}

fn options(mut raw: &[u8], numbers: &Numbers) -> Vec<TcpOption> {
    let mut options = Vec::new();
    while let Some(kind) = raw.first() {
        if *kind < 2 {
            options.push(if *kind == 1 { TcpOption::Nop } else { TcpOption::End });
            raw = &raw[1..];
            continue;
        }
        let bytes = raw.get(1).map_or(0, |bytes| usize::from(*bytes)).max(2).min(raw.len());
        let (option, rest) = raw.split_at(bytes);
        raw = rest;
        let word = |at: usize| {
            let bytes = option.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_be_bytes)
        };
        options.push(match option {
            [2, 4, high, low] => TcpOption::Mss(u16::from_be_bytes([*high, *low])),
            [3, 3, shift] => TcpOption::WindowScale(*shift),
            [4, 2] => TcpOption::SackPermitted,
            [5, _, blocks @ ..] => {
                let edge = |at: usize| numbers.of_theirs(Seq(word(at)));
                let count = blocks.len() / 8;
                TcpOption::Sack((0..count).map(|at| (edge(2 + 8 * at), edge(6 + 8 * at))).collect())
            }
            [8, 10, ..] => TcpOption::Timestamps(word(2), word(6)),
            other => TcpOption::Other(other.to_vec()),
        });
    }
    options
}

/// Whether the payload's bytes are those that belong to their numbers.
pub(crate) fn is_genuine(frame: &Frame, packet: &Packet) -> bool {
    let at = frame.bytes.len() - packet.bytes as usize;
    let payload = frame.bytes.get(at..).unwrap_or_default();
    let mut numbered = payload.iter().enumerate();
    numbered.all(|(offset, byte)| *byte == content(packet.start.wrapping_add(offset as u32)))
}

/// What differs between two packets; nothing: they are the same as far as the script says. A packet
/// that stands for several frames is not asked for PSH: Linux sets it on every frame that its NIC
/// is to cut, and there are none here. Nor is a full segment: there Linux sets it by how its
/// buffers happen to be cut. `slack` is how far timestamps may be off; none: as far as they like.
pub(crate) fn difference(
    expected: &Packet,
    actual: &Packet,
    frames: usize,
    is_full: bool,
    numbers: &mut Numbers,
    slack: Option<Nanos>,
) -> Option<String> {
    let ignored = if frames > 1 || is_full { header::PSH } else { 0 };
    if (expected.flags ^ actual.flags) & !ignored != 0 {
        return Some("flags".into());
    }
    let is_mark_right = match expected.ecn {
        None => true,
        Some(Ecn::EitherEct) => matches!(actual.ecn, Some(Ecn::Ect0 | Ecn::Ect1)),
        Some(_) => expected.ecn == actual.ecn,
    };
    if !is_mark_right {
        return Some("the mark of the IP header".into());
    }
    if (expected.start, expected.bytes) != (actual.start, actual.bytes) {
        return Some("numbers".into());
    }
    if expected.ack.is_some() && expected.ack != actual.ack {
        return Some("the acknowledgement".into());
    }
    if expected.window.is_some() && expected.window != actual.window {
        return Some("the window".into());
    }
    if expected.urgent != actual.urgent {
        return Some("the urgent pointer".into());
    }
    let (Some(expected), Some(actual)) = (&expected.options, &actual.options) else { return None };
    if expected.len() != actual.len() {
        return Some("the options".into());
    }
    for pair in expected.iter().zip(actual) {
        let is_same = match pair {
            (TcpOption::Timestamps(value, echo), TcpOption::Timestamps(live, live_echo)) => {
                let value_in_script = numbers.stamp_in_script(*value, *live);
                let off_ms = value_in_script.wrapping_sub(*value).cast_signed().unsigned_abs();
                let is_near =
                    slack.is_none_or(|slack| u64::from(off_ms) <= slack.0 / 1_000_000 + 1);
                echo == live_echo && is_near
            }
            (expected, actual) => expected == actual,
        };
        if !is_same {
            return Some("the options".into());
        }
    }
    None
}

/// A packet as scripts write it.
pub(crate) fn print(packet: &Packet) -> String {
    let Packet { flags, start, bytes, ack, window, options, ecn, urgent } = packet;
    let end = start.wrapping_add(*bytes);
    let mut text = format!("{} {start}:{end}({bytes})", flags_text(*flags));
    // Writing to a string cannot fail.
    if let Some(ack) = ack {
        let _ = write!(text, " ack {ack}");
    }
    if let Some(window) = window {
        let _ = write!(text, " win {window}");
    }
    if *urgent != 0 {
        let _ = write!(text, " urg {urgent}");
    }
    match options {
        None => text.push_str(" <...>"),
        Some(options) if options.is_empty() => {}
        Some(options) => {
            let _ = write!(text, " {options:?}");
        }
    }
    if let Some(mark) = ecn.filter(|mark| *mark != Ecn::NotEct) {
        let _ = write!(text, " [{mark:?}]");
    }
    text
}
