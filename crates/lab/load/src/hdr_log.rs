//! Latencies in the log format of HdrHistogram, which its viewers plot: two tagged histograms.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::{Error, Report};

/// The log keeps nanoseconds; its column of maxima is in microseconds.
const NANOS_PER_MICRO: f64 = 1e3;

/// A histogram log that is open and still empty: whether it can be written is known before the run.
#[derive(Debug)]
pub(crate) struct HdrLog {
    path: PathBuf,
    file: File,
}

impl HdrLog {
    /// Opens it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|error| failed(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes all latencies: tag `intended` from the intended time, `sent` from sending.
    ///
    /// # Errors
    /// The file cannot be written any more.
    pub(crate) fn write(self, report: &Report) -> Result<(), Error> {
        let Self { path, file } = self;
        let mut file = BufWriter::new(file);
        report
            .write_log(&mut file)
            .and_then(|()| file.flush())
            .map_err(|error| failed(&path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::io(format!("write the histogram log {}", path.display()), error)
}

impl Report {
    fn write_log(&self, output: &mut impl Write) -> io::Result<()> {
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        let start = UNIX_EPOCH + Duration::from_secs(self.run.start);
        let mut log = builder
            .add_comment(&self.run.generator)
            .with_start_time(start)
            .with_max_value_divisor(NANOS_PER_MICRO)
            .begin_log_with(output, &mut serializer)?;
        let length = Duration::from_secs_f64(self.rates.seconds);
        for (tag, latencies) in
            [("intended", &self.times.latencies), ("sent", &self.times.latencies_from_send)]
        {
            log.write_histogram(latencies.histogram(), Duration::ZERO, length, Tag::new(tag))
                .map_err(|error| io::Error::other(format!("{error:?}")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use crate::report;

    #[test]
    fn the_log_holds_both_histograms_under_their_tags() {
        let mut bytes = Vec::new();
        report::sample().write_log(&mut bytes).expect("memory takes it");
        let tags: Vec<_> = IntervalLogIterator::new(&bytes)
            .filter_map(|entry| match entry.expect("it was written by the same library") {
                LogEntry::Interval(interval) => {
                    Some((interval.tag()?.as_str().to_owned(), interval.max()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(tags.len(), 2);
        assert_eq!((tags[0].0.as_str(), tags[1].0.as_str()), ("intended", "sent"));
        assert!((tags[0].1 - 100.0).abs() < 0.5 && (tags[1].1 - 50.0).abs() < 0.5, "{tags:?}");
    }
}
