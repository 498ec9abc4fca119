//! From the records of a capture to frames of the data path, and what the records were like.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;

use base::Nanos;
use port::pcap::{Damage, LinkedRecord, PcapReader, Record};
use shm::Frame;
use wire::Outcome;

use crate::checksum::{Verdict, judge};
use crate::clock::Clock;
use crate::fit::{complete, shorten};
use crate::input::Counted;
use crate::link::{FRONT_BYTES, Link};
use crate::packet_tracker::Played;
use crate::report::{Checksums, LinkRecords, Records};

/// The longest record that the reader gives: what tcpdump captures at most.
pub(crate) const RECORD_BYTES_MAX: usize = 256 << 10;
/// Records without a packet that are skipped before the loop gets another turn.
const SKIPS_MAX: usize = 1024;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A packet, due then.
    Due(Nanos),
    /// Only records without a packet so far: ask again.
    Skipping,
    /// The file has ended, or is damaged from here on.
    End,
}

/// The next packet, read before its time.
#[derive(Clone, Debug)]
struct Waiting {
    /// Where the Ethernet frame is in the scratch.
    range: Range<usize>,
    /// As the record says; what it had as an Ethernet frame.
    wire_bytes: u32,
    frame_bytes: usize,
    is_cut: bool,
    due: Nanos,
}

/// Reads a capture.
pub(crate) struct Feeder<R> {
    reader: PcapReader<Counted<R>>,
    scratch: Vec<u8>,
    waiting: Option<Waiting>,
    has_ended: bool,
    /// Packets that were put into frames.
    played: u64,
    first: Option<Nanos>,
    last_due: Nanos,
    pub(crate) damage: Option<Damage>,
    records: Records,
    pub(crate) checksums: Checksums,
    /// Earliest and latest time in the file.
    pub(crate) times: Option<(Nanos, Nanos)>,
    other_links: BTreeMap<Option<u16>, u64>,
}

impl<R: Read> Feeder<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// It is no capture file. A file of a link that cannot be played is none for us.
    pub(crate) fn new(input: R) -> Result<Self, Damage> {
        let reader = PcapReader::of_any_link(Counted::new(input))?;
        if let Some(number) = reader.link_type()
            && Link::from_number(number).is_none()
        {
            return Err(Damage::LinkType(number));
        }
        Ok(Self {
            reader,
            scratch: vec![0; FRONT_BYTES + RECORD_BYTES_MAX],
            waiting: None,
            has_ended: false,
            played: 0,
            first: None,
            last_due: Clock::due(Nanos::ZERO),
            damage: None,
            records: Records::default(),
            checksums: Checksums::default(),
            times: None,
            other_links: BTreeMap::new(),
        })
    }

    /// Bytes of the file up to the end of the packet that comes next.
    pub(crate) fn position(&self) -> u64 {
        self.reader.input().position()
    }

    /// Packets that were put into frames.
    pub(crate) fn played(&self) -> u64 {
        self.played
    }

    /// What the records were like so far.
    pub(crate) fn records(&self) -> Records {
        let links = self.other_links.iter();
        let other_links =
            links.map(|(&link_type, &records)| LinkRecords { link_type, records }).collect();
        Records { other_links, ..self.records.clone() }
    }

    /// What comes next; reads on if that is not known.
    pub(crate) fn next(&mut self) -> Next {
        for _ in 0..SKIPS_MAX {
            if let Some(waiting) = &self.waiting {
                return Next::Due(waiting.due);
            }
            if self.has_ended {
                return Next::End;
            }
            match self.reader.next_linked(&mut self.scratch[FRONT_BYTES..]) {
                Ok(Some(record)) => self.take(record),
                Ok(None) => self.has_ended = true,
                Err(damage) => {
                    self.has_ended = true;
                    self.damage = Some(damage);
                }
            }
        }
        self.waiting.as_ref().map_or(Next::Skipping, |waiting| Next::Due(waiting.due))
    }

    fn take(&mut self, LinkedRecord { record, link_type }: LinkedRecord) {
        let Record { time, len, wire_bytes } = record;
        // The scratch takes the longest record that the reader lets through.
        let len = len.unwrap_or(0);
        // No packet was shorter than what was captured of it.
        let wire_bytes = wire_bytes.max(u32::try_from(len).unwrap_or(u32::MAX));
        self.records.total += 1;
        self.records.bytes += u64::from(wire_bytes);
        self.records.captured_bytes += len as u64;
        // Zero is how the reader says that the file does not tell.
        if time > Nanos::ZERO {
            let (earliest, latest) = self.times.unwrap_or((time, time));
            self.times = Some((earliest.min(time), latest.max(time)));
            let since_first = time.since(*self.first.get_or_insert(time));
            self.last_due = self.last_due.max(Clock::due(since_first));
        }
        let is_cut = (len as u64) < u64::from(wire_bytes);
        self.records.cut += u64::from(is_cut);
        if len == 0 {
            self.records.empty += 1;
            return;
        }
        let Some(link) = link_type.and_then(Link::from_number) else {
            self.records.other_link += 1;
            *self.other_links.entry(link_type).or_default() += 1;
            return;
        };
        let Some(range) = link.to_ethernet(&mut self.scratch, len) else {
            self.records.headerless += 1;
            return;
        };
        let frame_bytes = (wire_bytes as usize + FRONT_BYTES).saturating_sub(link.header_bytes());
        complete(&mut self.scratch[range.clone()], frame_bytes);
        self.waiting = Some(Waiting { range, wire_bytes, frame_bytes, is_cut, due: self.last_due });
    }

    /// Puts the packet that comes next into `frame`; `None` when there is none.
    pub(crate) fn put_into(&mut self, frame: &mut Frame) -> Option<Played> {
        let Waiting { range, wire_bytes, frame_bytes, is_cut, due: _ } = self.waiting.take()?;
        let whole = &self.scratch[range];
        let room = frame.room();
        let is_too_long = whole.len() > room;
        let filled = frame.fill(&whole[..whole.len().min(room)]);
        debug_assert!(filled, "what is cut to the room fits");
        if is_cut || is_too_long {
            shorten(frame.bytes_mut(), frame_bytes);
        }
        self.records.too_long += u64::from(is_too_long);
        let number = self.played;
        self.played += 1;
        let Outcome::Flow(flow) = wire::classify(frame.bytes()) else {
            return Some(Played { number, wire_bytes, key: None });
        };
        let verdict = if is_cut {
            None
        } else if is_too_long {
            match wire::classify(whole) {
                Outcome::Flow(flow) => Some(judge(whole, &flow)),
                Outcome::NotOurs(_) | Outcome::Malformed(_) => None,
            }
        } else {
            Some(judge(frame.bytes(), &flow))
        };
        let Checksums { right, unfinished, wrong, unknown } = &mut self.checksums;
        *match verdict {
            Some(Verdict::Right) => right,
            Some(Verdict::Unfinished) => unfinished,
            Some(Verdict::Wrong) => wrong,
            None => unknown,
        } += 1;
        Some(Played { number, wire_bytes, key: Some(flow.key) })
    }
}
