//! Runs a loop again from its recording and compares every answer.

use std::io::{BufRead, Read};

use serde::de::DeserializeOwned;

use super::LINE_BYTES_MAX;
use super::recorded::{Recorded, Step};
use super::report::{Difference, Ending, ReplayError, ReplayReport};

/// Characters of a sentence about a line, at most.
const SENTENCE_CHARS_MAX: usize = 300;

/// Runs the recording of these lines again, which begins with an `S`. It stops at the first answer
/// that differs, which is a report and no error, and where the recording ends.
///
/// # Errors
/// The first line that is not of a recording or says what is not possible, and why.
pub(crate) fn replay<S: Recorded>(
    lines: impl BufRead,
) -> Result<ReplayReport<S::Counts>, ReplayError> {
    let mut lines = Lines { from: lines, line: Vec::new(), number: 0 };
    if !lines.next()? {
        return Err(lines.damaged("the snapshot that a recording begins with is missing"));
    }
    let snapshot: S = lines.parse()?;
    let mut again = snapshot.restore().map_err(|what| lines.damaged(&what))?;
    let (difference, ending) = run_on::<S>(&mut again, &mut lines)?;
    Ok(ReplayReport { counts: S::counts(again), difference, ending })
}

/// All lines behind the snapshot.
fn run_on<S: Recorded>(
    again: &mut S::Again,
    lines: &mut Lines<impl BufRead>,
) -> Result<(Option<Difference>, Ending), ReplayError> {
    while lines.next()? {
        let call = lines.parse()?;
        match S::run(again, call).map_err(|what| lines.damaged(&what))? {
            Step::Same => {}
            Step::Other(expected, got) => {
                let difference = Difference { line: lines.number, expected, got };
                return Ok((Some(difference), Ending::NotReached));
            }
            Step::End(lost) => {
                if lines.next()? {
                    return Err(lines.damaged("something follows the last line"));
                }
                return Ok((None, if lost == 0 { Ending::Complete } else { Ending::Lost(lost) }));
            }
        }
    }
    Ok((None, Ending::CutOff))
}

/// The lines of a recording, which anybody may have written.
struct Lines<R> {
    from: R,
    line: Vec<u8>,
    /// Of the line, from 1.
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// False at the end, and at a last line without an end of its own: it was cut off.
    fn next(&mut self) -> Result<bool, ReplayError> {
        let Self { from, line, number } = self;
        line.clear();
        *number += 1;
        let read = from.take(LINE_BYTES_MAX as u64).read_until(b'\n', line);
        if let Err(error) = read {
            return Err(self.damaged(&format!("it cannot be read: {error}")));
        }
        let is_ended = line.last() == Some(&b'\n');
        if line.len() == LINE_BYTES_MAX && !is_ended {
            return Err(self.damaged(&format!("it has more than {LINE_BYTES_MAX} bytes")));
        }
        Ok(is_ended)
    }

    fn parse<T: DeserializeOwned>(&self) -> Result<T, ReplayError> {
        serde_json::from_slice(&self.line).map_err(|error| self.damaged(&error.to_string()))
    }

    /// What is wrong with the line. It may quote it, which is a stranger's.
    fn damaged(&self, what: &str) -> ReplayError {
        ReplayError { line: self.number, what: base::printable(what, SENTENCE_CHARS_MAX) }
    }
}
