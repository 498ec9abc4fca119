//! The requests of a capture: when each came, of which flow, and how long its reply took.

use std::collections::HashMap;
use std::io::Read;

use base::Nanos;
use port::pcap::{LinkedRecord, PcapReader};
use wire::{FlowKey, Outcome};

use crate::Error;
use crate::feeder::RECORD_BYTES_MAX;
use crate::fit::{complete, shorten};
use crate::link::{FRONT_BYTES, Link, PLAYABLE};

/// Requests of a capture, at most.
const REQUESTS_MAX: usize = 5_000_000;
/// Flows of a capture, at most.
const FLOWS_MAX: usize = 1 << 22;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it came, since the first one.
    pub at: Nanos,
    /// Of which flow, from 0.
    pub flow: u32,
    /// How long the first packet with data the other way took; nothing where there was none, or
    /// where another request of the flow came before it.
    pub reply_after: Option<Nanos>,
}

/// What is known of a flow.
struct Known {
    number: u32,
    /// The one that sent its first packet, the client.
    client: FlowKey,
    /// The only request that has no reply yet.
    open: Option<usize>,
    /// Requests without a reply.
    unanswered: u32,
}

/// Reads the requests of a capture: packets with data from whoever sent a flow's first packet.
///
/// # Errors
/// It is no capture, it is damaged, or it has no request or too many.
pub fn requests(input: impl Read) -> Result<Vec<Request>, Error> {
    let failed = |what: String| Error::Failed(what);
    let mut reader = PcapReader::of_any_link(input).map_err(|damage| failed(damage.to_string()))?;
    let mut scratch = vec![0; FRONT_BYTES + RECORD_BYTES_MAX];
    let mut known: HashMap<FlowKey, Known> = HashMap::new();
    let mut all: Vec<Request> = Vec::new();
    let (mut first, mut other_link) = (None, 0_u64);
    while let Some(LinkedRecord { record, link_type }) = reader
        .next_linked(&mut scratch[FRONT_BYTES..])
        .map_err(|damage| failed(damage.to_string()))?
    {
        let Some(len) = record.len.filter(|len| *len > 0) else { continue };
        let Some(link) = link_type.and_then(Link::from_number) else {
            other_link += 1;
            continue;
        };
        let Some(range) = link.to_ethernet(&mut scratch, len) else { continue };
        let is_cut = len < record.wire_bytes as usize;
        let frame = &mut scratch[range];
        let frame_bytes = frame.len() + (record.wire_bytes as usize).saturating_sub(len);
        complete(frame, frame_bytes);
        if is_cut {
            shorten(frame, frame_bytes);
        }
        let Outcome::Flow(flow) = wire::classify(frame) else { continue };
        // Of what was cut off nobody knows what it was: most of all, data.
        note(&mut known, flow.key)?;
        if flow.payload_len == 0 && !is_cut {
            continue;
        }
        let reverse = flow.key.reversed();
        let key = if known.contains_key(&flow.key) { flow.key } else { reverse };
        let Some(of) = known.get_mut(&key) else { continue };
        if flow.key != of.client {
            of.unanswered = of.unanswered.saturating_sub(1);
            if let Some(open) = of.open.take() {
                let came = all[open].at + first.unwrap_or(record.time);
                all[open].reply_after = Some(record.time.since(came));
            }
            continue;
        }
        if all.len() == REQUESTS_MAX {
            return Err(failed(format!(
                "it has more than {REQUESTS_MAX} requests: take a part of it, such as with \
                 `editcap -c {REQUESTS_MAX}`"
            )));
        }
        let at = record.time.since(*first.get_or_insert(record.time));
        // Two at a time: nobody knows which of them a reply is to.
        of.unanswered += 1;
        of.open = (of.unanswered == 1).then_some(all.len());
        all.push(Request { at, flow: of.number, reply_after: None });
    }
    if all.is_empty() {
        return Err(failed(format!(
            "there is no TCP or UDP packet with data from a client in it ({other_link} packets were \
             of a link that cannot be read; {PLAYABLE} can)"
        )));
    }
    Ok(all)
}

/// A flow's first packet says who its client is.
fn note(known: &mut HashMap<FlowKey, Known>, key: FlowKey) -> Result<(), Error> {
    if known.contains_key(&key) || known.contains_key(&key.reversed()) {
        return Ok(());
    }
    if known.len() == FLOWS_MAX {
        return Err(Error::Failed(format!(
            "it has more than {FLOWS_MAX} flows: take a part of it"
        )));
    }
    known.insert(key, Known { number: known.len() as u32, client: key, open: None, unanswered: 0 });
    Ok(())
}
