//! The packets that are traced: digits of a command line, or a capture.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use base::Nanos;
use port::pcap::PcapReader;

use crate::failure::Failure;

/// A packet from its Ethernet header on.
pub(super) type Packet = std::sync::Arc<[u8]>;

/// Bytes of a packet that are read; more does not fit into any frame.
const PACKET_BYTES_MAX: usize = 64 << 10;

/// `LINKTYPE_ETHERNET`, `LINKTYPE_RAW`, `LINKTYPE_IPV4` and `LINKTYPE_IPV6`.
const ETHERNET: u16 = 1;
const RAW: [u16; 3] = [101, 228, 229];

/// Between two packets whose times nobody knows.
const STEP: Nanos = Nanos::from_millis(1);

/// What is traced.
pub(super) enum Input {
    Given { packets: Vec<Packet>, next: usize },
    Capture { reader: Box<PcapReader<BufReader<File>>>, path: String, clock: Clock },
}

/// The time of a chain, which never goes back, by that of a capture, which may.
#[derive(Debug)]
pub(super) struct Clock {
    first: Option<Nanos>,
    now: Nanos,
}

impl Clock {
    /// Functions take zero for long ago.
    const START: Nanos = Nanos::from_secs(1);

    const fn new() -> Self {
        Self { first: None, now: Self::START }
    }

    fn at(&mut self, time: Nanos) -> Nanos {
        let first = *self.first.get_or_insert(time);
        self.now = self.now.max(Self::START + time.since(first));
        self.now
    }
}

impl Input {
    pub(super) fn given(packets: Vec<Packet>) -> Self {
        Self::Given { packets, next: 0 }
    }

    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let failed = |why: String| Failure::new(format!("cannot read {shown}: {why}"));
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        let reader = PcapReader::of_any_link(BufReader::new(file));
        let reader = Box::new(reader.map_err(|damage| failed(damage.to_string()))?);
        Ok(Self::Capture { reader, path: shown, clock: Clock::new() })
    }

    /// Puts the next packet into `packet`; when it came, or nothing when there is none.
    pub(super) fn next(&mut self, packet: &mut Vec<u8>) -> Result<Option<Nanos>, Failure> {
        packet.clear();
        match self {
            Self::Given { packets, next } => {
                let Some(given) = packets.get(*next) else { return Ok(None) };
                packet.extend_from_slice(given);
                *next += 1;
                Ok(Some(Clock::START + Nanos(STEP.0 * *next as u64)))
            }
            Self::Capture { reader, path, clock } => {
                let failed = |why: String| Failure::new(format!("cannot read {path}: {why}"));
                packet.resize(PACKET_BYTES_MAX, 0);
                let read =
                    reader.next_linked(packet).map_err(|damage| failed(damage.to_string()))?;
                let Some(read) = read else { return Ok(None) };
                let Some(len) = read.record.len else {
                    return Err(failed(format!("a packet has {} bytes", read.record.wire_bytes)));
                };
                packet.truncate(len);
                match read.link_type {
                    Some(ETHERNET) => {}
                    Some(kind) if RAW.contains(&kind) => put_link_header(packet),
                    Some(kind) => {
                        return Err(failed(format!(
                            "its packets are of link type {kind}: Ethernet (1) and IP (101) are read"
                        )));
                    }
                    None => return Err(failed("a packet is of no interface".to_owned())),
                }
                Ok(Some(clock.at(read.record.time)))
            }
        }
    }
}

/// Puts an Ethernet header in front of an IP packet, for whichever port it comes by.
fn put_link_header(packet: &mut Vec<u8>) {
    let ether_type = match packet.first().map(|first| first >> 4) {
        Some(6) => [0x86, 0xdd],
        _ => [0x08, 0x00],
    };
    let link = [&[0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2][..], &ether_type].concat();
    packet.splice(..0, link);
}

/// A packet of digits, with spaces and colons among them. What begins with an IP header, by its
/// version and its length, gets an Ethernet header.
pub(super) fn digits(text: &str) -> Result<Packet, String> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|letter| !letter.is_whitespace() && *letter != ':')
        .map(|letter| letter.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()
        .ok_or("a packet is written in hexadecimal digits, with spaces or colons among them")?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() || pairs.is_empty() {
        return Err("a packet has two digits for each byte, and at least one byte".to_owned());
    }
    let mut packet: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if packet.len() > PACKET_BYTES_MAX {
        return Err(format!("a packet has at most {PACKET_BYTES_MAX} bytes"));
    }
    let is_ip = wire::ipv4::Header::parse(&packet)
        .is_ok_and(|ip| usize::from(ip.total_bytes) == packet.len())
        || wire::ipv6::Header::parse(&packet).is_ok_and(|ip| ip.total_bytes() == packet.len());
    if is_ip {
        put_link_header(&mut packet);
    }
    Ok(packet.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_with_spaces_and_colons_and_ip_gets_a_link_header() {
        assert_eq!(digits("02:00 ff\n0a").as_deref(), Ok(&[2, 0, 255, 10][..]));
        for wrong in ["", "0", "02:0g", "0x02", "123"] {
            assert!(digits(wrong).is_err(), "{wrong}");
        }
        let four = "4500001500000000401100000a0000010a00010200";
        let packet = digits(four).expect("digits");
        assert_eq!((packet.len(), &packet[12..16]), (14 + 21, &[0x08, 0, 0x45, 0][..]));
        assert_eq!(
            digits(&four[..40]).map(|packet| packet.len()),
            Ok(20),
            "not as long as it says"
        );
        let six = format!("6000000000083b40{}{}", "fd".repeat(32), "00".repeat(8));
        assert_eq!(digits(&six).map(|packet| packet[12]), Ok(0x86));
    }

    #[test]
    fn the_time_of_a_capture_never_goes_back() {
        let mut clock = Clock::new();
        let times = [50, 51, 40, 53].map(|second| clock.at(Nanos::from_secs(second)));
        assert_eq!(times, [1, 2, 2, 4].map(Nanos::from_secs));
    }
}
