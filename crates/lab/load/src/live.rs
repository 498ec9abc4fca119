//! Progress of a run, once a second on standard error.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Nanos;
use sys::clock::now;

use crate::run::Progress;

const INTERVAL: Nanos = Nanos::from_secs(1);
/// How often it is asked whether the run is over.
const LOOK: Nanos = Nanos::from_millis(50);

/// Who watches a run.
pub(crate) struct Live<'a> {
    pub(crate) start: Nanos,
    pub(crate) json: bool,
    pub(crate) progress: &'a [Arc<Progress>],
}

impl Live<'_> {
    /// Prints until `done`.
    pub(crate) fn watch(&self, done: impl Fn() -> bool) {
        let mut before = (0, 0);
        let mut next = self.start + INTERVAL;
        while !done() {
            std::thread::sleep(LOOK.into());
            let time = now();
            if time < next {
                continue;
            }
            next += INTERVAL;
            let sum = self.progress.iter().fold((0, 0), |(sent, received), shard| {
                let sent = sent + shard.sent.load(Ordering::Relaxed);
                (sent, received + shard.received.load(Ordering::Relaxed))
            });
            eprintln!("{}", self.line(time.since(self.start), before, sum));
            before = sum;
        }
    }

    fn line(&self, elapsed: Nanos, before: (u64, u64), after: (u64, u64)) -> String {
        let seconds = elapsed.as_secs_f64().round();
        let (sent, received) = (after.0 - before.0, after.1.saturating_sub(before.1));
        let open = after.0.saturating_sub(after.1);
        if self.json {
            format!(
                "{{\"second\":{seconds},\"sent\":{sent},\"received\":{received},\
                 \"unanswered\":{open}}}"
            )
        } else {
            format!("{seconds:>5} s  sent {sent:>9}  received {received:>9}  unanswered {open:>7}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_says_what_happened_since_the_last_one() {
        let live = |json| Live { start: Nanos::ZERO, json, progress: &[] };
        let line = |json| live(json).line(Nanos::from_secs(2), (10, 9), (30, 25));
        assert_eq!(line(true), r#"{"second":2,"sent":20,"received":16,"unanswered":5}"#);
        assert!(line(false).contains("received        16"), "{}", line(false));
    }
}
