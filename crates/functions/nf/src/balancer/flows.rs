//! Which server each flow goes to, for as long as it lasts.
//!
//! Whatever comes costs as much: a flow has eight places, by its hash, and takes one that has run
//! out, or one of a flow that has shown nothing but its first packet. One that was seen to go both
//! ways never gives way to a first packet; where answers do not come by here, sources may be forged
//! for as long as one likes, and whoever has been quiet for longest gives way.

use base::Nanos;

use crate::track::hash_of;

const WAYS: usize = 8;

/// Client and service of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) client: (u32, u16),
    pub(super) service: (u32, u16),
    pub(super) protocol: u8,
}

/// How far a flow is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It has begun, and nobody knows whether its source is forged.
    #[default]
    Begun,
    /// The server has answered.
    Answered,
    /// Answers do not come by here, and the client has gone on.
    OneWay,
    /// The server has answered, and the client has gone on after that.
    Lasting,
    /// One end is done.
    Ending,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    flow: Flow,
    /// Address and port of its server.
    pub(super) server: (u32, u16),
    pub(super) stage: Stage,
    /// Seconds, from 1: zero is an empty place.
    deadline: u32,
}

#[derive(Debug)]
pub(super) struct Flows {
    buckets: Box<[[Entry; WAYS]]>,
    seed: u64,
}

/// Seconds that a flow is kept which says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) begun: u32,
    pub(super) lasting: u32,
}

const TCP: Kept = Kept { begun: 60, lasting: 7440 };
const UDP: Kept = Kept { begun: 30, lasting: 300 };
const ENDING: u32 = 120;

impl Flows {
    /// Room for about `flows` flows.
    pub(super) fn new(flows: usize, seed: u64) -> Self {
        let buckets = flows.div_ceil(WAYS).next_power_of_two();
        Self { buckets: vec![[Entry::default(); WAYS]; buckets].into(), seed }
    }

    /// How many there is room for.
    pub(super) const fn room(&self) -> usize {
        self.buckets.len() * WAYS
    }

    pub(super) fn find(&mut self, flow: &Flow, now: Nanos) -> Option<&mut Entry> {
        let now = seconds(now);
        let bucket = self.bucket(flow);
        self.buckets[bucket].iter_mut().find(|entry| entry.deadline > now && entry.flow == *flow)
    }

    /// The server of a flow, and how far it is.
    pub(super) fn peek(&self, flow: &Flow, now: Nanos) -> Option<((u32, u16), Stage)> {
        let now = seconds(now);
        let mut places = self.buckets[self.bucket(flow)].iter();
        let found = places.find(|entry| entry.deadline > now && entry.flow == *flow)?;
        Some((found.server, found.stage))
    }

    /// Keeps a flow that is not there; false when all its places are of flows in use.
    pub(super) fn insert(&mut self, flow: Flow, server: (u32, u16), now: Nanos) -> bool {
        let bucket = self.bucket(&flow);
        let now_seconds = seconds(now);
        let value = |entry: &Entry| match entry.stage {
            _ if entry.deadline <= now_seconds => 0,
            // What ends has little to lose: the ring names the same server most of the time.
            Stage::Begun | Stage::Ending => 1,
            // An open port answers whoever lies about his address.
            Stage::Answered | Stage::OneWay => 2,
            Stage::Lasting => 3,
        };
        let places = &mut self.buckets[bucket];
        // Of those worth as much the one that has been quiet for longest.
        let least = places.iter_mut().min_by_key(|entry| (value(entry), entry.deadline));
        let Some(place) = least.filter(|entry| value(entry) < 3) else { return false };
        *place = Entry { flow, server, stage: Stage::Begun, deadline: 0 };
        place.keep(now);
        true
    }

    /// A number of the flow's own, which everybody with the same key has.
    pub(super) fn hash(flow: &Flow) -> u64 {
        hash_of(0x7269_6e67, &flow.words())
    }

    fn bucket(&self, flow: &Flow) -> usize {
        hash_of(self.seed, &flow.words()) as usize & (self.buckets.len() - 1)
    }

    /// Flows that are kept now; looks at all of them.
    #[cfg(test)]
    pub(super) fn len(&self, now: Nanos) -> usize {
        self.buckets.iter().flatten().filter(|entry| entry.deadline > seconds(now)).count()
    }
}

impl Flow {
    fn words(&self) -> [u64; 2] {
        let word = |(address, port): (u32, u16)| u64::from(address) << 16 | u64::from(port);
        [word(self.client) | u64::from(self.protocol) << 48, word(self.service)]
    }
}

impl Entry {
    /// It is another flow of the same ends.
    pub(super) fn begin(&mut self, server: (u32, u16), now: Nanos) {
        (self.server, self.stage) = (server, Stage::Begun);
        self.keep(now);
    }

    /// A packet has come, from the client or from the server. Where answers do not come by here,
    /// `is_one_way`, the client's going on is all that shows.
    pub(super) fn advance(&mut self, flags: Option<u8>, from_client: bool, is_one_way: bool) {
        const SYN: u8 = wire::tcp::SYN;
        let flags = flags.unwrap_or(0);
        if flags & (wire::tcp::FIN | wire::tcp::RST) != 0 {
            self.stage = Stage::Ending;
            return;
        }
        self.stage = match (self.stage, from_client) {
            (Stage::Begun | Stage::Ending, true) if is_one_way && flags & SYN == 0 => Stage::OneWay,
            // One that goes on after an end was not at its end: anybody may forge one.
            (Stage::Begun | Stage::Ending, false) => Stage::Answered,
            (Stage::Answered, true) if flags & SYN == 0 => Stage::Lasting,
            (stage, _) => stage,
        };
    }

    /// Keeps it from now on as long as a flow of its kind.
    pub(super) fn keep(&mut self, now: Nanos) {
        let kept = if self.flow.protocol == wire::ipv4::TCP { TCP } else { UDP };
        let most = match self.stage {
            Stage::Begun | Stage::Answered => kept.begun,
            Stage::OneWay | Stage::Lasting => kept.lasting,
            Stage::Ending => ENDING,
        };
        self.deadline = seconds(now).saturating_add(most);
    }
}

fn seconds(now: Nanos) -> u32 {
    (now.0 / 1_000_000_000) as u32 + 1
}
