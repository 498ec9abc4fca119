//! Requests out of what `calisto record` has written: how many packets each group of flows had from
//! one look to the next.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Read};

use base::Nanos;
use load::{Distribution, Random};
use policy::record::LINE_BYTES_MAX;
use policy::sample::LoadSample;
use serde::Deserialize;
use sim::model::{Trace, Traced};

use super::REQUESTS_MAX;

/// Why a recording says nothing of a load.
#[derive(Debug)]
pub enum RecordError {
    /// The file.
    Read(io::Error),
    /// A line, from 1, and what is wrong with it.
    Line(usize, String),
    /// There is nothing in it that could be simulated: why, and what to do.
    Nothing(String),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot be read: {error}"),
            Self::Line(line, wrong) => write!(f, "line {line}: {wrong}"),
            Self::Nothing(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RecordError {}

/// What is looked at of a line; a recording has many others.
#[derive(Deserialize)]
struct Seen {
    calisto_recording: Option<u32>,
    tick: Option<Tick>,
}

#[derive(Deserialize)]
struct Tick {
    load: Option<LoadSample>,
}

/// The packets that a recording has counted. Between two looks at a group they are spread by lot,
/// as independent requests would be; each group counts as one flow, and each packet takes
/// `service`, which a recording does not know.
///
/// # Errors
/// It is no recording, or nothing was counted in it.
pub fn from_record(
    mut input: impl BufRead,
    service: Nanos,
    distribution: Distribution,
    seed: u64,
) -> Result<Trace, RecordError> {
    let mut random = Random::new(seed);
    let mut looked: BTreeMap<u32, Nanos> = BTreeMap::new();
    let mut packets: Vec<Traced> = Vec::new();
    let mut flows: BTreeMap<u32, u32> = BTreeMap::new();
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        let read = input.by_ref().take(most).read_until(b'\n', &mut bytes);
        if read.map_err(RecordError::Read)? == 0 {
            break;
        }
        if bytes.len() > LINE_BYTES_MAX {
            return Err(RecordError::Line(number, format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        // A line that is only a word says nothing of the load.
        if number > 1 && !bytes.starts_with(b"{") {
            continue;
        }
        let seen: Seen = serde_json::from_slice(&bytes)
            .map_err(|error| RecordError::Line(number, error.to_string()))?;
        if number == 1 && seen.calisto_recording.is_none() {
            let wrong = "this is no recording of `calisto record`".to_owned();
            return Err(RecordError::Line(1, wrong));
        }
        let Some(load) = seen.tick.and_then(|tick| tick.load) else { continue };
        let before = looked.insert(load.first.0, load.now);
        // What the first look has counted came before the recording.
        let Some(before) = before else { continue };
        let span = load.now.since(before).0;
        for (group, of) in (load.first.0..).zip(&load.groups) {
            if packets.len() + of.packets as usize > REQUESTS_MAX {
                return Err(RecordError::Nothing(format!(
                    "it has more than {REQUESTS_MAX} packets: record a shorter time"
                )));
            }
            if of.packets == 0 {
                continue;
            }
            let next = flows.len() as u32;
            let flow = *flows.entry(group).or_insert(next);
            packets.extend((0..of.packets).map(|_| Traced {
                at: before + Nanos((random.unit() * span as f64) as u64),
                flow,
                work: Nanos(distribution.sample(service.0, &mut random)),
            }));
        }
    }
    let Some(first) = packets.iter().map(|packet| packet.at).min() else {
        return Err(RecordError::Nothing(
            "it has counted no packets between two looks at the load: record for longer, with \
             traffic"
                .to_owned(),
        ));
    };
    packets.iter_mut().for_each(|packet| packet.at = packet.at.since(first));
    Ok(Trace::new(packets))
}
