//! Passes a capture on as it comes, block by block, so that what is written is always whole.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgParseError, PcapNgParser};

/// Time between two looks whether somebody has pressed Ctrl-C, and between two signs of progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the daemon may take to end a capture.
const ENDING_MAX: Duration = Duration::from_secs(3);
/// Bytes taken from the connection at once.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of a block, at most: the longest packet with its options has far less.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// What has come so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) packets: u64,
    /// Of the file.
    pub(super) bytes: u64,
    /// Packets that the daemon had no room for.
    pub(super) missing: u64,
}

/// Why a capture has not ended as it should.
#[derive(Debug)]
pub(super) enum End {
    /// It cannot be written.
    Output(io::Error),
    /// The daemon has sent something else, or has gone; a clause.
    Daemon(String),
}

/// A capture on a connection.
pub(super) struct Relay {
    input: BufReader<UnixStream>,
    parser: Option<PcapNgParser>,
    /// What has come and was not passed on: the beginning of a block.
    pending: Vec<u8>,
    stats: Stats,
    /// Until when the daemon may go on after it was told to end.
    ending: Option<Instant>,
}

impl Relay {
    /// Of what follows the answer that was read from `input`.
    pub(super) fn new(input: BufReader<UnixStream>) -> io::Result<Self> {
        input.get_ref().set_read_timeout(Some(LOOK_EVERY))?;
        Ok(Self { input, parser: None, pending: Vec::new(), stats: Stats::default(), ending: None })
    }

    /// Passes everything on to `output`, until the daemon ends the capture or somebody presses
    /// Ctrl-C; says now and then how far it has come.
    pub(super) fn run(
        self,
        output: &mut impl Write,
        progress: impl FnMut(&Stats),
    ) -> Result<Stats, End> {
        self.run_until(output, progress, sys::signal::stop_requested)
    }

    fn run_until(
        mut self,
        output: &mut impl Write,
        mut progress: impl FnMut(&Stats),
        stop: impl Fn() -> bool,
    ) -> Result<Stats, End> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut told = Instant::now();
        loop {
            if stop() && self.ending.is_none() {
                self.ending = Some(Instant::now() + ENDING_MAX);
                // If it is gone, reading says so.
                let _ = self.input.get_ref().write_all(b"\n");
            }
            let has_come = match self.input.read(&mut piece) {
                Ok(0) => return self.ended(),
                Ok(bytes) => bytes,
                Err(error) if is_pause(&error) => 0,
                Err(error) => return Err(End::Daemon(error.to_string())),
            };
            if has_come > 0 {
                self.pending.extend_from_slice(&piece[..has_come]);
                self.pass_on(output)?;
            }
            // Also while packets keep coming: the daemon may not have heard us.
            if self.ending.is_some_and(|end| Instant::now() > end) {
                return self.ended();
            }
            if told.elapsed() >= LOOK_EVERY {
                told = Instant::now();
                progress(&self.stats);
            }
        }
    }

    /// The end of the connection, which is the end of the file unless a block is cut.
    fn ended(self) -> Result<Stats, End> {
        if self.pending.is_empty() && self.parser.is_some() || self.ending.is_some() {
            Ok(self.stats)
        } else {
            Err(End::Daemon("the daemon closed the connection in the middle".to_owned()))
        }
    }

    /// Writes all whole blocks that are there.
    fn pass_on(&mut self, output: &mut impl Write) -> Result<(), End> {
        let Self { parser, pending, stats, .. } = self;
        let mut whole = 0;
        loop {
            let rest = &pending[whole..];
            let parsed = match parser {
                None => PcapNgParser::new(rest).map(|(left, first)| {
                    *parser = Some(first);
                    left.len()
                }),
                Some(parser) => parser.next_block(rest).map(|(left, block)| {
                    stats.count(&block);
                    left.len()
                }),
            };
            match parsed {
                Ok(left) => whole = pending.len() - left,
                Err(PcapNgParseError::IncompleteBuffer(..)) if rest.len() < BLOCK_BYTES_MAX => {
                    break;
                }
                Err(error) => {
                    return Err(End::Daemon(format!("what it sent is no capture ({error})")));
                }
            }
        }
        output.write_all(&pending[..whole]).and_then(|()| output.flush()).map_err(End::Output)?;
        stats.bytes += whole as u64;
        pending.drain(..whole);
        Ok(())
    }
}

impl Stats {
    fn count(&mut self, block: &Block<'_>) {
        match block {
            Block::EnhancedPacket(_) => self.packets += 1,
            Block::InterfaceStatistics(statistics) => {
                for option in &statistics.options {
                    if let InterfaceStatisticsOption::IsbOsDrop(missing) = option {
                        self.missing = self.missing.saturating_add(*missing);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Nothing has come for a while, or a signal has.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::thread;

    use admin::{CaptureWriter, Captured, Direction};
    use base::Nanos;

    use super::*;

    fn capture(packets: usize) -> CaptureWriter<Vec<u8>> {
        let ports = ["xdp:eth1".to_owned()];
        let mut writer = CaptureWriter::new(Vec::new(), &ports, 96, Nanos(1)).expect("memory");
        for _ in 0..packets {
            let (time, direction, bytes) = (Nanos(2), Direction::In, &[1; 61][..]);
            let packet = Captured { port: 0, time, direction, len: 90, bytes };
            writer.packet(&packet).expect("memory");
        }
        writer
    }

    fn relay() -> (Relay, UnixStream) {
        let (ours, daemons) = UnixStream::pair().expect("descriptors are left");
        (Relay::new(BufReader::new(ours)).expect("it is a socket"), daemons)
    }

    #[test]
    fn a_capture_is_passed_on_byte_for_byte_and_counted() {
        let file = capture(3).end(Nanos(3), &[10], &[7]).expect("memory");
        let (relay, mut daemon) = relay();
        let sent = file.clone();
        let sender = thread::spawn(move || {
            // Cut where it hurts.
            for piece in sent.chunks(13) {
                daemon.write_all(piece).expect("the relay reads");
            }
        });
        let mut output = Vec::new();
        let stats = relay.run_until(&mut output, |_| {}, || false).expect("it was whole");
        sender.join().expect("it does not panic");
        assert_eq!(stats, Stats { packets: 3, bytes: file.len() as u64, missing: 7 });
        assert_eq!(output, file);
    }

    #[test]
    fn whoever_stops_it_still_gets_what_was_missing() {
        let (relay, mut daemon) = relay();
        let answers = thread::spawn(move || {
            let mut byte = [0];
            daemon.read_exact(&mut byte).expect("it is told to end");
            let file = capture(1).end(Nanos(3), &[2], &[1]).expect("memory");
            daemon.write_all(&file).expect("the relay reads");
            byte
        });
        let stats = relay.run_until(&mut Vec::new(), |_| {}, || true).expect("it was whole");
        assert_eq!((stats.packets, stats.missing), (1, 1));
        assert_eq!(answers.join().expect("it does not panic"), *b"\n");
    }

    #[test]
    fn a_block_that_is_cut_is_not_written() {
        let file = capture(2).end(Nanos(3), &[2], &[0]).expect("memory");
        let whole = {
            let mut one = capture(1);
            one.flush().expect("memory");
            one.end(Nanos(3), &[], &[]).expect("memory")
        };
        let (relay, mut daemon) = relay();
        daemon.write_all(&file[..whole.len() + 50]).expect("there is room");
        daemon.shutdown(Shutdown::Both).expect("it is open");
        let mut output = Vec::new();
        let end = relay.run_until(&mut output, |_| {}, || false).expect_err("it was cut");
        assert!(matches!(&end, End::Daemon(why) if why.contains("in the middle")), "{end:?}");
        assert_eq!(output, whole);
    }

    #[test]
    fn what_is_no_capture_is_not_passed_on() {
        for noise in [vec![b'x'; 2 << 20], b"\n\r\r\n\xff\xff\xff\x7f".repeat(200_000)] {
            let (relay, mut daemon) = relay();
            let sender = thread::spawn(move || {
                // The relay may hang up before all is said.
                let _ = daemon.write_all(&noise);
            });
            let mut output = Vec::new();
            let end = relay.run_until(&mut output, |_| {}, || false).expect_err("it is noise");
            assert!(matches!(&end, End::Daemon(why) if why.contains("no capture")), "{end:?}");
            assert!(output.is_empty());
            sender.join().expect("it does not panic");
        }
    }

    #[test]
    fn an_output_that_is_closed_ends_it() {
        let (relay, mut daemon) = relay();
        let file = capture(1).end(Nanos(3), &[1], &[0]).expect("memory");
        daemon.write_all(&file).expect("there is room");
        drop(daemon);
        let end = relay.run_until(&mut &mut [0; 8][..], |_| {}, || false).expect_err("no room");
        assert!(matches!(end, End::Output(_)), "{end:?}");
    }
}
