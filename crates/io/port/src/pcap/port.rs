//! Capture files as a port. For tools and tests: reading a file may block, so no live data path
//! runs over it.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::os::fd::BorrowedFd;
use std::path::Path;

use base::{FrameMeta, Nanos, PortId};
use shm::{Batch, Frame, FramePool};

use super::{PcapReader, PcapWriter};
use crate::finish::finish;
use crate::{Capabilities, Fault, LinkChecksums, OpenError, Port, PortCounters, Queues};

/// How fast a file is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it is received.
    #[default]
    Fast,
    /// With the distances that the packets had when they were captured.
    Recorded,
}

/// Files and settings of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcapOptions {
    /// The file to play; `None`: nothing is received.
    pub input: Option<String>,
    /// The file to write; `None`: what is transmitted is counted and gone.
    pub output: Option<String>,
    /// How fast to play.
    pub pace: Pace,
    /// What to add to `now` for the time since 1970.
    pub epoch: Nanos,
}

/// Bytes of the longest frame: the classic jumbo frame with two tags.
const FRAME_BYTES_MAX: u32 = 9022;

/// Two capture files.
pub struct PcapPort {
    reader: Option<PcapReader<BufReader<File>>>,
    writer: Option<PcapWriter<BufWriter<File>>>,
    pace: Pace,
    epoch: Nanos,
    /// When the first packet was played, and its time in the file.
    started: Option<(Nanos, Nanos)>,
    /// The next packet, read before its time.
    waiting: Option<(Nanos, Frame)>,
    id: PortId,
    fault: Option<Fault>,
    counters: PortCounters,
    capabilities: Capabilities,
}

impl PcapPort {
    /// Opens the files.
    ///
    /// # Errors
    /// A file cannot be opened, or is no capture of Ethernet.
    pub fn open(id: PortId, pool: &FramePool, options: &PcapOptions) -> Result<Self, OpenError> {
        let wrong = |path: &String, reason: String| OpenError::File { path: path.clone(), reason };
        let reader = match &options.input {
            None => None,
            Some(path) => {
                let file = sys::regular_file::open(Path::new(path))
                    .map_err(|error| wrong(path, format!("cannot open it: {error}")))?;
                let reader = PcapReader::new(BufReader::with_capacity(1 << 16, file));
                Some(reader.map_err(|damage| wrong(path, damage.to_string()))?)
            }
        };
        let writer = match &options.output {
            None => None,
            Some(path) if options.input.as_ref() == Some(path) => {
                let reason = "it cannot be played and written at once: name another";
                return Err(wrong(path, reason.to_owned()));
            }
            Some(path) => {
                let write = |error| wrong(path, format!("cannot write it: {error}"));
                let file = File::create(path).map_err(write)?;
                let output = BufWriter::with_capacity(1 << 16, file);
                Some(PcapWriter::new(output).map_err(write)?)
            }
        };
        let or_dash = |path: &Option<String>| path.clone().unwrap_or_else(|| "-".to_owned());
        let room = pool.config().chunk_bytes - shm::pool::HEADROOM_BYTES;
        let frame_bytes_max = FRAME_BYTES_MAX.min(room);
        let capabilities = Capabilities {
            kind: "pcap",
            name: format!("{},{}", or_dash(&options.input), or_dash(&options.output)),
            mode: match options.pace {
                Pace::Fast => "as fast as possible",
                Pace::Recorded => "at the recorded pace",
            }
            .to_owned(),
            frame_bytes_max,
            mtu: frame_bytes_max - 22,
            cuts_segments: false,
            zero_copy: false,
            queues: Queues::All(1),
            needs_wakeup: false,
            kernel_answers_arp: false,
            checksums: LinkChecksums::Complete,
            mac: None,
            hears_others: false,
        };
        Ok(Self {
            reader,
            writer,
            pace: options.pace,
            epoch: options.epoch,
            started: None,
            waiting: None,
            id,
            fault: None,
            counters: PortCounters::default(),
            capabilities,
        })
    }

    /// The next packet and when it is due.
    fn read(&mut self, pool: &mut FramePool, now: Nanos) -> Option<(Nanos, Frame)> {
        let reader = self.reader.as_mut()?;
        let Some(mut frame) = pool.take() else {
            self.counters.rx_no_frame += 1;
            return None;
        };
        loop {
            let room = frame.room();
            let fits = frame.set_len(room);
            debug_assert!(fits, "the room is what fits");
            match reader.next(frame.bytes_mut()) {
                Ok(Some(record)) => {
                    let Some(len) = record.len.filter(|&len| len > 0) else {
                        self.counters.rx_oversize += 1;
                        continue;
                    };
                    let fits = frame.set_len(len);
                    debug_assert!(fits, "less than the room fits");
                    let due = match self.pace {
                        Pace::Fast => now,
                        Pace::Recorded => {
                            let (start, first) = *self.started.get_or_insert((now, record.time));
                            start + record.time.since(first)
                        }
                    };
                    return Some((due, frame));
                }
                Ok(None) => self.fault = Some(Fault::EndOfFile),
                Err(_) => {
                    self.counters.rx_invalid += 1;
                    self.fault = Some(Fault::DamagedFile);
                }
            }
            pool.give(frame);
            self.reader = None;
            return None;
        }
    }
}

impl Port for PcapPort {
    fn rx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        let before = batch.len();
        while !batch.is_full() {
            let Some((due, mut frame)) = self.waiting.take().or_else(|| self.read(pool, now))
            else {
                break;
            };
            if due > now {
                self.waiting = Some((due, frame));
                break;
            }
            *frame.meta_mut() = FrameMeta { received_at: now, port: self.id, ..FrameMeta::UNKNOWN };
            self.counters.rx_bytes += frame.len() as u64;
            batch.push(frame);
        }
        let received = batch.len() - before;
        self.counters.rx_packets += received as u64;
        received
    }

    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        let count = batch.len();
        for mut frame in batch.drain(..) {
            if finish(&mut frame, self.capabilities.frame_bytes_max, &mut self.counters) {
                let written = match &mut self.writer {
                    Some(writer) => writer.write(self.epoch + now, frame.bytes()),
                    None => Ok(()),
                };
                if written.is_ok() && self.fault != Some(Fault::CannotWrite) {
                    self.counters.tx_packets += 1;
                    self.counters.tx_bytes += frame.len() as u64;
                } else {
                    self.counters.tx_errors += 1;
                    self.fault = Some(Fault::CannotWrite);
                    self.writer = None;
                }
            }
            pool.give(frame);
        }
        count
    }

    fn flush(&mut self, _pool: &mut FramePool, _now: Nanos) {
        if let Some(writer) = &mut self.writer
            && writer.flush().is_err()
        {
            self.fault = Some(Fault::CannotWrite);
            self.writer = None;
        }
    }

    fn prepare_wait(&mut self, pool: &mut FramePool) {
        self.flush(pool, Nanos::ZERO);
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn next_deadline(&self) -> Nanos {
        match (&self.waiting, &self.reader) {
            (Some((due, _)), _) => *due,
            (None, Some(_)) => Nanos::ZERO,
            (None, None) => Nanos::FAR_FUTURE,
        }
    }

    fn fault(&self) -> Option<Fault> {
        // Packets that were read before the end are still to be played.
        self.fault.filter(|_| self.waiting.is_none())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    fn close(&mut self, pool: &mut FramePool) {
        self.flush(pool, Nanos::ZERO);
        self.reader = None;
        self.writer = None;
        if let Some((_, frame)) = self.waiting.take() {
            pool.give(frame);
        }
    }
}

#[cfg(test)]
mod tests;
