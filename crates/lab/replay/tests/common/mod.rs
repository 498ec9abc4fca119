//! Captures for the tests of this crate: every kind of file, every kind of packet, made by hand.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::net::SocketAddr;

use replay::{Options, Report, play};
use wire::build::{TcpSegment, UdpPacket};

pub(crate) const US: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(crate) const THEM: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const ETHERNET: u16 = 1;

/// A kind of capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Classic { big_endian: bool, nanos: bool },
    Ng { big_endian: bool },
}

pub(crate) const FORMATS: [Format; 6] = [
    Format::Classic { big_endian: false, nanos: false },
    Format::Classic { big_endian: false, nanos: true },
    Format::Classic { big_endian: true, nanos: false },
    Format::Classic { big_endian: true, nanos: true },
    Format::Ng { big_endian: false },
    Format::Ng { big_endian: true },
];

/// One record of a capture.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) nanos: u64,
    pub(crate) bytes: Vec<u8>,
    /// What it had on the wire.
    pub(crate) wire: u32,
}

impl Record {
    /// A whole packet.
    pub(crate) fn whole(nanos: u64, bytes: Vec<u8>) -> Self {
        Self { nanos, wire: bytes.len() as u32, bytes }
    }

    /// What `tcpdump -s` leaves of it.
    pub(crate) fn cut(mut self, snaplen: usize) -> Self {
        self.bytes.truncate(snaplen);
        self
    }
}

/// Numbers in one byte order.
pub(crate) struct Writer {
    pub(crate) big_endian: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(big_endian: bool) -> Self {
        Self { big_endian, bytes: Vec::new() }
    }

    pub(crate) fn word(mut self, value: u32) -> Self {
        self.bytes.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    pub(crate) fn half(mut self, value: u16) -> Self {
        self.bytes.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A pcapng block.
    pub(crate) fn block(self, kind: u32, body: Self) -> Self {
        let mut body = body.bytes;
        body.resize(body.len().next_multiple_of(4), 0);
        let length = body.len() as u32 + 12;
        self.word(kind).word(length).raw(&body).word(length)
    }
}

pub(crate) fn classic_header(big_endian: bool, nanos: bool, link: u16) -> Writer {
    let magic = if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let file = Writer::new(big_endian).word(magic).half(2).half(4).word(0).word(0);
    file.word(262_144).word(link.into())
}

pub(crate) fn ng_section(big_endian: bool) -> Writer {
    let body = Writer::new(big_endian).word(0x1a2b_3c4d).half(1).half(0).raw(&[0xff; 8]);
    Writer::new(big_endian).block(0x0a0d_0d0a, body)
}

/// An interface with nanoseconds.
pub(crate) fn ng_interface(big_endian: bool, link: u16) -> Writer {
    let body = Writer::new(big_endian).half(link).half(0).word(0);
    body.half(9).half(1).raw(&[9, 0, 0, 0]).word(0)
}

pub(crate) fn ng_packet(big_endian: bool, interface: u32, record: &Record) -> Writer {
    let Record { nanos, bytes, wire } = record;
    let body = Writer::new(big_endian).word(interface).word((nanos >> 32) as u32);
    body.word(*nanos as u32).word(bytes.len() as u32).word(*wire).raw(bytes)
}

/// A whole file, and where its header and each of its records end.
pub(crate) fn file_with_ends(
    format: Format,
    link: u16,
    records: &[Record],
) -> (Vec<u8>, Vec<usize>) {
    let mut ends = Vec::new();
    let mut file = match format {
        Format::Classic { big_endian, nanos } => classic_header(big_endian, nanos, link),
        Format::Ng { big_endian } => {
            ng_section(big_endian).block(1, ng_interface(big_endian, link))
        }
    };
    ends.push(file.bytes.len());
    for record in records {
        file = match format {
            Format::Classic { nanos, .. } => {
                let fraction = record.nanos % 1_000_000_000;
                let fraction = if nanos { fraction } else { fraction / 1000 };
                file.word((record.nanos / 1_000_000_000) as u32)
                    .word(fraction as u32)
                    .word(record.bytes.len() as u32)
                    .word(record.wire)
                    .raw(&record.bytes)
            }
            Format::Ng { big_endian } => file.block(6, ng_packet(big_endian, 0, record)),
        };
        ends.push(file.bytes.len());
    }
    (file.bytes, ends)
}

pub(crate) fn file(format: Format, link: u16, records: &[Record]) -> Vec<u8> {
    file_with_ends(format, link, records).0
}

/// The least surprising kind of file.
pub(crate) fn plain(records: &[Record]) -> Vec<u8> {
    file(Format::Classic { big_endian: false, nanos: true }, ETHERNET, records)
}

/// A replay that is expected to work.
pub(crate) fn replayed(file: &[u8], options: &Options) -> Report {
    play(file, Some(file.len() as u64), options, |_| true).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().expect("the test writes an address")
}

pub(crate) fn udp(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    udp_to(address(source), address(destination), payload, None)
}

pub(crate) fn udp_to(
    source: SocketAddr,
    destination: SocketAddr,
    payload: &[u8],
    vlan: Option<u16>,
) -> Vec<u8> {
    let packet =
        UdpPacket { source_mac: THEM, destination_mac: US, source, destination, payload, vlan };
    let mut bytes = vec![0; packet.len()];
    assert_eq!(packet.write(&mut bytes), Some(bytes.len()), "the payload fits IP");
    bytes
}

pub(crate) fn tcp(
    source: &str,
    destination: &str,
    (sequence, acknowledgement): (u32, u32),
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    tcp_to(address(source), address(destination), (sequence, acknowledgement), flags, payload)
}

pub(crate) fn tcp_to(
    source: SocketAddr,
    destination: SocketAddr,
    (sequence, acknowledgement): (u32, u32),
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    let segment = TcpSegment {
        source_mac: THEM,
        destination_mac: US,
        source,
        destination,
        sequence,
        acknowledgement,
        flags,
        window: 64_000,
        payload,
        vlan: None,
    };
    let mut bytes = vec![0; segment.len()];
    assert_eq!(segment.write(&mut bytes), Some(bytes.len()), "the payload fits IP");
    bytes
}

/// A whole TCP session: handshake, `exchanges` requests with answers, end.
pub(crate) fn session(client: &str, server: &str, exchanges: u32) -> Vec<Vec<u8>> {
    use wire::tcp::{ACK, FIN, PSH, SYN};
    let (mut c, mut s) = (1000_u32, 7000_u32);
    let to_server = |c, s, flags, payload: &[u8]| tcp(client, server, (c, s), flags, payload);
    let to_client = |s, c, flags, payload: &[u8]| tcp(server, client, (s, c), flags, payload);
    let mut packets = vec![to_server(c, 0, SYN, &[]), to_client(s, c + 1, SYN | ACK, &[])];
    (c, s) = (c + 1, s + 1);
    packets.push(to_server(c, s, ACK, &[]));
    for number in 0..exchanges {
        let request = vec![b'q'; 10 + number as usize];
        packets.push(to_server(c, s, PSH | ACK, &request));
        c += request.len() as u32;
        let answer = vec![b'a'; 100 + number as usize];
        packets.push(to_client(s, c, PSH | ACK, &answer));
        s += answer.len() as u32;
    }
    packets.push(to_server(c, s, FIN | ACK, &[]));
    packets.push(to_client(s, c + 1, FIN | ACK, &[]));
    packets.push(to_server(c + 1, s + 1, ACK, &[]));
    packets
}

/// An IP packet with its Ethernet header.
pub(crate) fn ethernet(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    [&US[..], &THEM, &ether_type.to_be_bytes(), packet].concat()
}

/// An IPv4 packet from 10.0.0.1 to 10.0.0.2; `fragment` is the word of flags and offset.
pub(crate) fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut header = vec![0x45, 0];
    header.extend(total.to_be_bytes());
    header.extend([0x12, 0x34]);
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = wire::checksum::of(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    ethernet(0x0800, &[&header[..], payload].concat())
}

/// An IPv6 packet from fd00::1 to fd00::2.
pub(crate) fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next_header, 64]);
    for last in [1, 2] {
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    ethernet(0x86dd, &[&packet[..], payload].concat())
}

pub(crate) fn icmp_echo() -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3, 4];
    let sum = wire::checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4(1, 0, &message)
}

/// "Port unreachable", with the packet that it is about.
pub(crate) fn icmp_error(about: &[u8]) -> Vec<u8> {
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend(&about[14..]);
    let sum = wire::checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4(1, 0, &message)
}

pub(crate) fn arp() -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1];
    packet.extend(THEM);
    packet.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    let mut frame = ethernet(0x0806, &packet);
    frame[..6].fill(0xff);
    frame
}

/// The same packet on another kind of link.
pub(crate) fn on_link(link: u16, frame: &[u8]) -> Vec<u8> {
    let (ether_type, packet) = (&frame[12..14], &frame[14..]);
    let is_ipv6 = ether_type == [0x86, 0xdd];
    match link {
        1 => frame.to_vec(),
        101 | 12 | 228 | 229 => packet.to_vec(),
        0 => [&[if is_ipv6 { 30 } else { 2 }, 0, 0, 0], packet].concat(),
        108 => [&[0, 0, 0, if is_ipv6 { 30 } else { 2 }], packet].concat(),
        113 => {
            let cooked = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
            [&cooked[..], ether_type, packet].concat()
        }
        276 => {
            let cooked = [0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
            [ether_type, &cooked[..], packet].concat()
        }
        other => panic!("no test of link type {other}"),
    }
}

/// Packets one after the other, so far apart.
pub(crate) fn spaced(packets: impl IntoIterator<Item = Vec<u8>>, gap_nanos: u64) -> Vec<Record> {
    let start = 1_700_000_000_000_000_000;
    let times = (0..).map(|number| start + number * gap_nanos);
    times.zip(packets).map(|(nanos, bytes)| Record::whole(nanos, bytes)).collect()
}

/// `packets` UDP packets of `flows` flows in turn.
pub(crate) fn many(flows: u32, packets: u32, gap_nanos: u64) -> Vec<Record> {
    let packet = |number: u32| {
        let flow = number % flows;
        let source =
            format!("10.1.{}.{}:{}", flow >> 8 & 255, (flow & 127) + 1, 1024 + flow % 60_000);
        udp(&source, "10.0.0.2:7", &number.to_be_bytes())
    };
    spaced((0..packets).map(packet), gap_nanos)
}

/// What holds for every report of a replay that came to the end of its file.
pub(crate) fn adds_up(report: &Report) {
    let records = &report.records;
    let without_packet = records.empty + records.headerless + records.other_link;
    assert_eq!(report.played.packets + without_packet, records.total);
    let by_link: u64 = records.other_links.iter().map(|other| other.records).sum();
    assert_eq!(by_link, records.other_link);
    let worked: u64 = report.by_worker.iter().map(|row| row.packets).sum();
    let by_protocol: u64 = report.protocols.iter().map(|row| row.packets).sum();
    assert_eq!(by_protocol, worked);
    let dropped = report.counters.iter().filter(|counter| {
        let kinds = ["drop_", "not_ours_", "malformed_", "arp_answered"];
        kinds.iter().any(|kind| counter.name.starts_with(kind))
    });
    let dropped: u64 = dropped.map(|counter| counter.value).sum();
    assert_eq!(worked + dropped, report.played.packets, "{}", report.table());
    assert_eq!((report.faults.lost, report.faults.duplicated), (0, 0), "{}", report.table());
    let flows: u64 = report.by_worker.iter().map(|row| row.flows).sum();
    assert_eq!(flows, report.flows.tracked);
    let sums = &report.checksums;
    assert!(sums.right + sums.unfinished + sums.wrong + sums.unknown >= worked);
}
