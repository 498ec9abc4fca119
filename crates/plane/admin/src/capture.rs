//! A capture on the wire: what is asked for, and the file that follows the answer.
//!
//! The file is one section of pcapng, so that whoever reads the connection needs no other program
//! of ours. Every packet is whole when it is there: a file cut between two blocks is a file.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::IpAddr;
use std::time::Duration;

use base::Nanos;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriteError, PcapNgWriter};
use serde::{Deserialize, Serialize};

/// Bytes kept of each packet, at most, and if the client does not say: longer than any packet.
pub const CAPTURE_SNAPLEN: u32 = 65_535;

/// Which packets. All conditions that are there must be met; the application is named in
/// [`crate::Request::app`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureRequest {
    /// One of its two addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<IpAddr>,
    /// One of its two ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Bytes kept of each, at most; absent: [`CAPTURE_SNAPLEN`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snaplen: Option<u32>,
    /// This many packets, then it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// It ends before the file is longer than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It was received.
    In,
    /// It was sent.
    Out,
}

impl Direction {
    /// Bits 0 and 1 of a packet's flags in pcapng.
    fn flags(self) -> u32 {
        match self {
            Self::In => 1,
            Self::Out => 2,
        }
    }
}

/// A packet that was captured.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Index of its port in what [`CaptureWriter::new`] was told.
    pub port: u32,
    /// When, since 1970.
    pub time: Nanos,
    /// Which way it went.
    pub direction: Direction,
    /// Bytes that it had; at least as many as `bytes`.
    pub len: u32,
    /// Its first bytes, from the Ethernet header on.
    pub bytes: &'a [u8],
}

/// Writes the file that follows a `capturing` answer.
pub struct CaptureWriter<W: Write> {
    file: PcapNgWriter<W>,
    begun: Duration,
    ports: u32,
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the head: a section, and one interface for each port. `output` should be buffered.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(output: W, ports: &[String], snaplen: u32, now: Nanos) -> io::Result<Self> {
        let mut file = PcapNgWriter::new(output).map_err(failed)?;
        for port in ports {
            let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, snaplen);
            interface.options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(port)),
                InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
            ];
            file.write_block(&interface.into_block()).map_err(failed)?;
        }
        let ports = u32::try_from(ports.len()).unwrap_or(u32::MAX);
        Ok(Self { file, begun: Duration::from_nanos(now.0), ports })
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// It cannot be written, or names a port that there is not.
    pub fn packet(&mut self, packet: &Captured<'_>) -> io::Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: packet.port,
            timestamp: Duration::from_nanos(packet.time.0),
            original_len: packet.len,
            data: Cow::Borrowed(packet.bytes),
            options: vec![EnhancedPacketOption::Flags(packet.direction.flags())],
        };
        self.file.write_block(&block.into_block()).map(drop).map_err(failed)
    }

    /// Ends the file: of each port, how many packets met the conditions, and how many of these
    /// found no room and are missing. Brings everything to `output`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self, now: Nanos, accepted: &[u64], dropped: &[u64]) -> io::Result<W> {
        let now = Duration::from_nanos(now.0);
        let counts = accepted.iter().zip(dropped);
        for (port, (&accepted, &dropped)) in (0..self.ports).zip(counts) {
            let statistics = InterfaceStatisticsBlock {
                interface_id: port,
                timestamp: now,
                options: vec![
                    InterfaceStatisticsOption::IsbStartTime(self.begun),
                    InterfaceStatisticsOption::IsbEndTime(now),
                    InterfaceStatisticsOption::IsbFilterAccept(accepted),
                    InterfaceStatisticsOption::IsbOsDrop(dropped),
                ],
            };
            self.file.write_block(&statistics.into_block()).map_err(failed)?;
        }
        self.flush()?;
        Ok(self.file.into_inner())
    }

    /// Brings everything so far to `output`, and `output`'s to where it goes.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.get_mut().flush()
    }
}

fn failed(error: PcapNgWriteError) -> io::Error {
    match error {
        PcapNgWriteError::Io(error) => error,
        wrong => io::Error::new(io::ErrorKind::InvalidInput, wrong),
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::PcapNgReader;
    use pcap_file::pcapng::blocks::block_common::Block;

    use super::*;

    const BEGUN: Nanos = Nanos(1_700_000_000_000_000_123);

    fn ports() -> Vec<String> {
        vec!["xdp:eth1".to_owned(), "xdp:eth2".to_owned()]
    }

    fn packet(bytes: &[u8]) -> Captured<'_> {
        Captured { port: 1, time: BEGUN, direction: Direction::Out, len: 1514, bytes }
    }

    #[test]
    fn a_capture_is_read_back_with_time_length_direction_and_what_is_missing() {
        let mut writer = CaptureWriter::new(Vec::new(), &ports(), 64, BEGUN).expect("memory");
        writer.packet(&packet(&[7; 61])).expect("memory");
        let later = Nanos(BEGUN.0 + 5);
        let file = writer.end(later, &[3, 10], &[0, 9]).expect("memory");
        let mut reader = PcapNgReader::with_capacity(&file[..], 4096).expect("a section");
        let mut seen = Vec::new();
        while let Some(block) = reader.next_block() {
            match block.expect("it was written whole").0 {
                Block::InterfaceDescription(interface) => {
                    seen.push(format!("{:?} {}", interface.options[0], interface.snaplen));
                }
                Block::EnhancedPacket(packet) => {
                    assert_eq!(packet.timestamp.as_nanos(), u128::from(BEGUN.0));
                    assert_eq!((packet.interface_id, packet.original_len), (1, 1514));
                    assert_eq!(packet.data[..], [7; 61]);
                    assert_eq!(packet.options, [EnhancedPacketOption::Flags(2)]);
                    seen.push("packet".to_owned());
                }
                Block::InterfaceStatistics(statistics) => {
                    assert_eq!(statistics.timestamp.as_nanos(), u128::from(later.0));
                    seen.push(format!("{:?}", statistics.options[3]));
                }
                other => panic!("{other:?}"),
            }
        }
        let expected = [
            "IfName(\"xdp:eth1\") 64",
            "IfName(\"xdp:eth2\") 64",
            "packet",
            "IsbOsDrop(0)",
            "IsbOsDrop(9)",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_packet_that_cannot_be_is_refused_and_leaves_the_file_whole() {
        let mut writer = CaptureWriter::new(Vec::new(), &ports(), 64, BEGUN).expect("memory");
        for wrong in [Captured { port: 2, ..packet(&[0]) }, Captured { len: 1, ..packet(&[0; 2]) }]
        {
            let error = writer.packet(&wrong).expect_err("no such packet");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        let file = writer.end(BEGUN, &[0, 0], &[0, 0]).expect("memory");
        let mut reader = PcapNgReader::with_capacity(&file[..], 4096).expect("a section");
        let mut blocks = 0;
        while let Some(block) = reader.next_block() {
            assert!(!matches!(block.expect("whole").0, Block::EnhancedPacket(_)));
            blocks += 1;
        }
        assert_eq!(blocks, 4);
    }

    #[test]
    fn an_output_that_is_full_says_so_as_itself() {
        let mut room = [0; 40];
        let error = CaptureWriter::new(&mut room[..], &ports(), 64, BEGUN).err();
        assert_eq!(error.expect("two interfaces are longer").kind(), io::ErrorKind::WriteZero);
    }
}
