//! Rate-limits attach and detach log lines, and counts the suppressed ones.

use std::collections::BTreeMap;

use base::Nanos;
use datapath::RateLimit;

/// Lines about one user's programs in a second, and at once.
const LINES_PER_S: u32 = 5;
const LINES_AT_ONCE: u32 = 50;

/// Users whose lines are counted apart, at most; others have none before one of these is quiet.
const USERS_MAX: usize = 1024;

/// Lines by user.
pub(super) struct Chatter {
    of_users: BTreeMap<u32, Lines>,
    say: fn(String),
}

struct Lines {
    limit: RateLimit,
    left_out: u64,
}

impl Chatter {
    pub(super) fn new(say: fn(String)) -> Self {
        Self { of_users: BTreeMap::new(), say }
    }

    /// Says something about a program of user `uid`, or counts it.
    pub(super) fn say(&mut self, uid: u32, text: impl FnOnce() -> String, now: Nanos) {
        if self.of_users.len() >= USERS_MAX && !self.of_users.contains_key(&uid) {
            return;
        }
        let limit = RateLimit::new(LINES_PER_S, LINES_AT_ONCE);
        let lines = self.of_users.entry(uid).or_insert(Lines { limit, left_out: 0 });
        // What was left out is said first.
        if lines.left_out == 0 && lines.limit.take(now) {
            (self.say)(text());
        } else {
            lines.left_out += 1;
        }
    }

    /// Says what was left out, of whom that has been quiet enough meanwhile.
    pub(super) fn tend(&mut self, now: Nanos) {
        let say = self.say;
        let rested = Nanos::from_secs(u64::from(LINES_AT_ONCE / LINES_PER_S));
        self.of_users.retain(|uid, lines| {
            if lines.left_out > 0 && lines.limit.take(now) {
                let count = std::mem::take(&mut lines.left_out);
                say(format!("user {uid}: {count} more of its programs came, went or were refused"));
            }
            lines.left_out > 0 || lines.limit.next() + rested > now
        });
    }

    /// Whether there is something to be said later.
    pub(super) fn is_owing(&self) -> bool {
        self.of_users.values().any(|lines| lines.left_out > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn said() -> Vec<String> {
        std::mem::take(&mut SAID.lock().expect("nobody panicked"))
    }

    #[test]
    fn a_flood_is_some_lines_and_a_number_and_others_are_heard() {
        let mut chatter = Chatter::new(|text| SAID.lock().expect("nobody panicked").push(text));
        let at = Nanos::from_secs(100);
        (0..1000).for_each(|line| chatter.say(7, || format!("line {line}"), at));
        chatter.say(8, || "another".to_owned(), at);
        let lines = said();
        assert_eq!(lines.len(), LINES_AT_ONCE as usize + 1);
        assert_eq!(lines.last().map(String::as_str), Some("another"));
        chatter.tend(at);
        assert!(chatter.is_owing() && said().is_empty(), "not yet");
        chatter.tend(at + Nanos::from_secs(1));
        let told = "user 7: 950 more of its programs came, went or were refused";
        assert_eq!(said(), [told]);
        assert!(!chatter.is_owing());
        chatter.tend(at + Nanos::from_secs(60));
        assert!(chatter.of_users.is_empty(), "forgotten");
    }
}
