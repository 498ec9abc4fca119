//! What each group has sent lately: two numbers a group, written once per packet.

use base::{FlowGroup, Nanos};
use policy::sample::GROUPS_PER_STEP;
use policy::{GroupLoad, LoadSample};

/// Bits by which a time is shortened to 16: a unit is 16.8 ms, and the count wraps after 18
/// minutes, far more than the quarter of a second that a pass over the largest table takes.
const TIME_SHIFT: u32 = 24;

/// By group: packets since the last look, and when the last one came.
#[derive(Debug)]
pub(crate) struct GroupLoads {
    groups: Vec<Seen>,
    /// The next group to look at.
    cursor: usize,
    /// Packets since the last look.
    noted: u32,
}

/// Four bytes, so that sixteen groups share a cache line: of all that a packet touches in the
/// dispatcher, this is what misses most.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    packets: u16,
    /// Shortened time of the last packet; zero: there never was one.
    last: u16,
}

impl GroupLoads {
    pub(crate) fn new(groups: usize) -> Self {
        Self { groups: vec![Seen::default(); groups], cursor: 0, noted: 0 }
    }

    /// A packet of `group` has come.
    #[inline]
    pub(crate) fn note(&mut self, group: FlowGroup, now: Nanos) {
        self.noted = self.noted.saturating_add(1);
        if let Some(seen) = self.groups.get_mut(group.index()) {
            seen.packets = seen.packets.saturating_add(1);
            seen.last = shorten(now);
        }
    }

    /// Packets since the last look.
    pub(crate) fn noted(&self) -> u32 {
        self.noted
    }

    /// The next slice of the table; its packet counts start over.
    pub(crate) fn sample(&mut self, now: Nanos, sample: &mut LoadSample) {
        let end = (self.cursor + GROUPS_PER_STEP).min(self.groups.len());
        self.noted = 0;
        sample.now = now;
        sample.first = FlowGroup(self.cursor as u32);
        sample.groups.clear();
        for seen in &mut self.groups[self.cursor..end] {
            let units = shorten(now).wrapping_sub(seen.last);
            let idle = Nanos(u64::from(units) << TIME_SHIFT);
            let idle = if seen.last == 0 { Nanos::FAR_FUTURE } else { idle };
            sample.groups.push(GroupLoad { packets: u32::from(seen.packets), idle });
            seen.packets = 0;
        }
        self.cursor = if end == self.groups.len() { 0 } else { end };
    }
}

#[inline]
fn shorten(time: Nanos) -> u16 {
    // One unit late once in 18 minutes is the price of a zero that means "never".
    ((time.0 >> TIME_SHIFT) as u16).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_looked_at_once_in_a_pass_and_counted_from_zero_after_it() {
        let mut loads = GroupLoads::new(GROUPS_PER_STEP + 10);
        let mut sample = LoadSample::default();
        let last = FlowGroup(GROUPS_PER_STEP as u32 + 9);
        loads.note(last, Nanos::from_secs(1));
        loads.note(last, Nanos::from_secs(2));
        loads.sample(Nanos::from_secs(3), &mut sample);
        assert_eq!((sample.first.0, sample.groups.len()), (0, GROUPS_PER_STEP));
        assert!(sample.groups.iter().all(|group| group.idle == Nanos::FAR_FUTURE));
        loads.sample(Nanos::from_secs(3), &mut sample);
        assert_eq!((sample.first.0 as usize, sample.groups.len()), (GROUPS_PER_STEP, 10));
        assert_eq!(sample.groups[9].packets, 2);
        let idle_ms = sample.groups[9].idle.0 / 1_000_000;
        assert!((980..=1020).contains(&idle_ms), "{idle_ms}");
        loads.sample(Nanos::from_secs(3), &mut sample);
        assert_eq!(sample.first.0, 0, "the pass starts over");
        loads.sample(Nanos::from_secs(3), &mut sample);
        assert_eq!(sample.groups[9].packets, 0);
    }
}
