//! A message that comes again and again: some lines of it, and of the rest how many there were.
//!
//! What others do makes some lines: a program that is refused, a descriptor that is not to be had.
//! None of that may fill a disk or crowd out other messages. The same message is what the same
//! place in the code says, whatever names are in it: the places are few, and no one else can add
//! any.

use std::collections::BTreeMap;

use base::Nanos;
use datapath::RateLimit;

use super::event::{Event, Place};

/// Lines of one message in a second, and at once.
const LINES_PER_S: u32 = 5;
const LINES_AT_ONCE: u32 = 50;

/// Messages that have been said, each for good: there are as many as places that say something.
pub(super) struct Repeats {
    of_places: BTreeMap<(&'static str, u32), Message>,
}

struct Message {
    place: Place,
    limit: RateLimit,
    left_out: u64,
    /// The last that was left out.
    last: String,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Said,
    /// Counted, and the first since what was left out was told.
    FirstLeftOut,
    LeftOut,
}

impl Repeats {
    pub(super) const fn new() -> Self {
        Self { of_places: BTreeMap::new() }
    }

    /// `place` wants to say `text`.
    pub(super) fn hear(&mut self, place: Place, text: &str, now: Nanos) -> Fate {
        let limit = RateLimit::new(LINES_PER_S, LINES_AT_ONCE);
        let message = self.of_places.entry((place.file, place.line)).or_insert_with(|| Message {
            place,
            limit,
            left_out: 0,
            last: String::new(),
        });
        // What was left out is told first.
        if message.left_out == 0 && message.limit.take(now) {
            return Fate::Said;
        }
        message.left_out += 1;
        text.clone_into(&mut message.last);
        if message.left_out == 1 { Fate::FirstLeftOut } else { Fate::LeftOut }
    }

    /// Lines about what was left out, of messages that may be said again.
    pub(super) fn owed(&mut self, now: Nanos) -> Vec<Event> {
        let due = self.of_places.values_mut().filter(|message| message.left_out > 0);
        let due = due.filter_map(|message| {
            message.limit.take(now).then(|| {
                let (count, last) = (std::mem::take(&mut message.left_out), &message.last);
                let told = format!("{count} more like this were left out: {last}");
                Event::of(message.place, told).with("left_out", count)
            })
        });
        due.collect()
    }

    /// Whether something is to be told later.
    pub(super) fn is_owing(&self) -> bool {
        self.of_places.values().any(|message| message.left_out > 0)
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn place(line: u32) -> Place {
        Place { file: "x.rs", line, level: Level::WARN, target: "apps" }
    }

    /// Always of the same place.
    fn flood(repeats: &mut Repeats, text: &str, now: Nanos) -> Fate {
        repeats.hear(place(1), text, now)
    }

    #[test]
    fn a_flood_of_a_message_is_some_lines_and_a_number_and_others_are_heard() {
        let mut repeats = Repeats::new();
        let at = Nanos::from_secs(100);
        let fates: Vec<_> =
            (0..1000).map(|line| flood(&mut repeats, &format!("refused: {line}"), at)).collect();
        let said = fates.iter().filter(|fate| **fate == Fate::Said).count();
        assert_eq!(said, LINES_AT_ONCE as usize);
        assert_eq!(fates.iter().filter(|fate| **fate == Fate::FirstLeftOut).count(), 1);
        assert_eq!(repeats.hear(place(2), "another", at), Fate::Said);
        assert!(repeats.is_owing() && repeats.owed(at).is_empty(), "not yet");
        let told = repeats.owed(at + Nanos::from_secs(1));
        let told: Vec<_> = told.iter().map(Event::sentence).collect();
        assert_eq!(told, ["950 more like this were left out: refused: 999 left_out=950"]);
        assert!(!repeats.is_owing());
    }

    #[test]
    fn a_flood_without_an_end_is_a_few_lines_a_second_and_each_is_counted() {
        let mut repeats = Repeats::new();
        let (mut said, mut told) = (0, Vec::new());
        for millisecond in 0..60_000 {
            let now = Nanos::from_secs(100) + Nanos::from_millis(millisecond);
            said += u32::from(flood(&mut repeats, "refused", now) == Fate::Said);
            if millisecond % 1000 == 999 {
                told.extend(repeats.owed(now).iter().map(Event::sentence));
            }
        }
        let lines = said + told.len() as u32;
        assert!(lines <= LINES_AT_ONCE + 60 * LINES_PER_S, "{lines}");
        let counts = told.iter().map(|line| line.split(' ').next().unwrap_or_default());
        let counted: u32 = counts.map(|count| count.parse::<u32>().expect("a number")).sum();
        assert_eq!(said + counted, 60_000);
    }
}
