//! Any bytes as a recording of the control loop, and a valid recording with changes in its lines.
#![no_main]

use std::sync::LazyLock;

use fuzz::is_one_sentence;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use policy::record::replay;
use policy::steer;

/// What becomes of a valid recording.
#[derive(Arbitrary, Debug)]
enum Change {
    /// A byte of a line is another one.
    Byte { line: u8, at: u16, to: u8 },
    /// A number, wherever the line has its `which`-th one, is another one.
    Number { line: u8, which: u8, to: u64 },
    /// A line is missing.
    Gone { line: u8 },
    /// A line comes once more, somewhere else.
    Again { line: u8, at: u8 },
    /// A line of its own.
    Line { at: u8, text: String },
    /// It ends here, in the middle of a line.
    Cut { line: u8, at: u16 },
}

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Bytes(&'a [u8]),
    Changed { policy: u8, changes: Vec<Change> },
}

static VALID: LazyLock<Vec<Vec<Vec<u8>>>> =
    LazyLock::new(|| steer::NAMES.iter().map(|(name, _)| fuzz::recording::lines(name)).collect());

fuzz_target!(|input: Input<'_>| {
    let (bytes, is_whole) = match &input {
        Input::Bytes(bytes) => (bytes.to_vec(), false),
        Input::Changed { policy, changes } => {
            let mut lines = VALID[usize::from(*policy) % VALID.len()].clone();
            changes.iter().take(8).for_each(|change| carry_out(change, &mut lines));
            (lines.concat(), changes.is_empty())
        }
    };
    match replay(&bytes[..]) {
        Ok(report) => {
            assert!(!is_whole || report.is_same(), "{report}");
            assert!(!report.table().is_empty());
            if let Some(difference) = &report.difference {
                assert_ne!(difference.expected, difference.got);
            }
        }
        Err(error) => {
            assert!(!is_whole, "{error}");
            is_one_sentence(&error.to_string());
        }
    }
});

fn carry_out(change: &Change, lines: &mut Vec<Vec<u8>>) {
    if lines.is_empty() {
        return;
    }
    let count = lines.len();
    let index = |line: &u8| usize::from(*line) % count;
    match change {
        Change::Byte { line, at, to } => {
            let line = &mut lines[index(line)];
            let at = usize::from(*at) % line.len();
            line[at] = *to;
        }
        Change::Number { line, which, to } => {
            let line = &mut lines[index(line)];
            let starts = (0..line.len()).filter(|&at| {
                line[at].is_ascii_digit() && !line[..at].last().is_some_and(u8::is_ascii_digit)
            });
            let starts: Vec<usize> = starts.collect();
            if starts.is_empty() {
                return;
            }
            let start = starts[usize::from(*which) % starts.len()];
            let digits = line[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            line.splice(start..start + digits, to.to_string().into_bytes());
        }
        Change::Gone { line } => {
            lines.remove(index(line));
        }
        Change::Again { line, at } => {
            let again = lines[index(line)].clone();
            lines.insert(index(at), again);
        }
        Change::Line { at, text } => lines.insert(index(at), format!("{text}\n").into_bytes()),
        Change::Cut { line, at } => {
            lines.truncate(index(line) + 1);
            let last = lines.last_mut().expect("one is left");
            last.truncate((usize::from(*at) % last.len()).max(1));
        }
    }
}
