//! Packets as somebody has seen them: when each came, of which flow, and what it took.

use base::Nanos;

/// A packet that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// When it came, since the trace began.
    pub at: Nanos,
    /// Of which flow, from 0.
    pub flow: u32,
    /// What the application does for it.
    pub work: Nanos,
}

/// Packets in the order of their coming, instead of those that chance would make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    packets: Vec<Traced>,
}

impl Trace {
    /// Of these packets, in whatever order they are.
    pub fn new(mut packets: Vec<Traced>) -> Self {
        packets.sort_by_key(|packet| packet.at);
        Self { packets }
    }

    /// The packets, the first one first.
    pub fn packets(&self) -> &[Traced] {
        &self.packets
    }

    /// One more than the greatest number of a flow.
    pub fn flows(&self) -> u32 {
        self.packets.iter().map(|packet| packet.flow.saturating_add(1)).max().unwrap_or(0)
    }

    /// When the last packet came.
    pub fn length(&self) -> Nanos {
        self.packets.last().map_or(Nanos::ZERO, |packet| packet.at)
    }

    /// All that is done for its packets.
    pub fn work(&self) -> Nanos {
        Nanos(self.packets.iter().map(|packet| packet.work.0).sum())
    }

    /// The time from packet `number`, or from the begin, to the one that follows.
    #[inline]
    pub(super) fn gap(&self, number: Option<usize>) -> Option<Nanos> {
        let next = self.packets.get(number.map_or(0, |number| number + 1))?;
        let before = number.and_then(|number| self.packets.get(number));
        Some(next.at.since(before.map_or(Nanos::ZERO, |packet| packet.at)))
    }
}
