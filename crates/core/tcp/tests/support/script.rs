//! A script: what the peer sends, what the engine must answer, and when, in virtual time.
//!
//! Numbers are relative to both first numbers, as in packetdrill: the first byte after a SYN is 1.
//! The host under test is 192.168.0.1, its peer 192.0.2.1.

use std::fmt::Write;
use std::net::SocketAddr;

use base::Nanos;
use tcp::{Config, Event, FlowId, FlowOptions, ListenerId, State};
use wire::tcp::{ACK, CWR, ECE, FIN, Header, PSH, RST, SYN, TcpOption, URG};
use wire::{FlowKey, Protocol};

use super::{Host, Packet};

/// Where the peer's numbers begin: close to the end of the circle, so that every script wraps.
pub(crate) const PEER_START: u32 = 0xffff_ff00;
const LOCAL_PORT: u16 = 8080;
const PEER_PORT: u16 = 34567;

/// A host under test and its scripted peer.
pub(crate) struct Script {
    pub(crate) host: Host,
    pub(crate) now: Nanos,
    pub(crate) flow: Option<FlowId>,
    pub(crate) listener: Option<ListenerId>,
    /// Our first number, once we have sent a SYN.
    our_start: u32,
    pub(crate) key: FlowKey,
    /// By which the peer's segments come.
    pub(crate) route: u32,
    options: FlowOptions,
    /// Timestamps are printed and given relative to this.
    stamp_start: Option<u32>,
}

impl Script {
    pub(crate) fn new(config: Config, options: FlowOptions) -> Self {
        let now = Nanos::from_secs(1000);
        let local: SocketAddr = ([192, 168, 0, 1], LOCAL_PORT).into();
        let peer: SocketAddr = ([192, 0, 2, 1], PEER_PORT).into();
        Self {
            host: Host::new(config, &options, 7, now),
            now,
            flow: None,
            listener: None,
            our_start: 0,
            key: FlowKey::new(Protocol::Tcp, peer, local).expect("both are IPv4"),
            route: 0,
            options,
            stamp_start: None,
        }
    }

    /// A listener that has accepted the peer: no timestamps, SACK, no scaling, MSS 1000.
    pub(crate) fn accepted(config: Config, options: FlowOptions) -> Self {
        let mut script = Self::new(config, options);
        script.listen(8);
        script.inject("S 0:0 win 65535 <mss 1000,sackOK>");
        script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460,sackOK>"]);
        script.wait_ms(10);
        script.inject(". 1:1 ack 1 win 65535");
        script.expect(&[]);
        script.expect_state(State::Established);
        script
    }

    pub(crate) fn listen(&mut self, backlog: u32) {
        let local = self.key.destination();
        let listener = self.host.engine.listen(local, backlog, self.options);
        self.listener = Some(listener.expect("nobody else listens"));
    }

    pub(crate) fn connect(&mut self) {
        let (peer, local) = (self.key.source(), self.key.destination());
        let flow = self.host.engine.connect(self.now, local, peer, self.options, 0);
        self.flow = Some(flow.expect("the name is free"));
    }

    pub(crate) fn wait_ms(&mut self, millis: u64) {
        self.wait(Nanos::from_millis(millis));
    }

    /// Lets time pass, from one deadline to the next, as a real loop would.
    pub(crate) fn wait(&mut self, length: Nanos) {
        let end = self.now + length;
        for _ in 0..10_000 {
            self.host.turn(self.now);
            match self.host.engine.next_deadline() {
                Some(deadline) if deadline <= end => self.now = self.now.max(deadline),
                _ => break,
            }
        }
        self.now = end;
        self.host.turn(self.now);
    }

    /// What the peer sends: flags, numbers, `ack`, `win`, options, as in `PA. 1:1001 ack 1 win 100
    /// <nop,sack 5:6>`.
    pub(crate) fn inject(&mut self, text: &str) {
        self.inject_changed(text, |byte| byte);
    }

    /// The same with other bytes as payload.
    pub(crate) fn inject_changed(&mut self, text: &str, change: impl Fn(u8) -> u8) {
        let packet = self.parse(text, change);
        self.host.receive(self.now, &packet);
        self.take_events();
    }

    pub(crate) fn parse(&mut self, text: &str, change: impl Fn(u8) -> u8) -> Packet {
        let (plain, options) = text.split_once('<').map_or((text, ""), |(plain, rest)| {
            (plain, rest.strip_suffix('>').expect("options end with >"))
        });
        let mut words = plain.split_whitespace();
        let letters = words.next().expect("flags come first");
        let flags = letters.chars().map(flag).fold(0, |all, flag| all | flag);
        let (start, end) = words.next().and_then(|word| word.split_once(':')).expect("numbers");
        let (start, end): (u32, u32) = (number(start), number(end));
        let (mut ack, mut window, mut ecn) = (0, 65535, 0);
        while let Some(word) = words.next() {
            match word {
                "ack" => ack = self.our_start.wrapping_add(number(words.next().expect("a number"))),
                "win" => window = number(words.next().expect("a number")) as u16,
                "ce" => ecn = tcp::CE,
                other => panic!("unknown word {other}"),
            }
        }
        let mut option_bytes = Vec::new();
        for option in options.split(',').filter(|option| !option.is_empty()) {
            self.write_option(option, &mut option_bytes);
        }
        while option_bytes.len() % 4 != 0 {
            option_bytes.push(0);
        }
        let count = end.wrapping_sub(start);
        // A byte of payload tells its own number.
        let payload = (0..count).map(|at| change(content(start.wrapping_add(at))));
        let mut bytes = Vec::from([0; 20]);
        bytes[0..2].copy_from_slice(&PEER_PORT.to_be_bytes());
        bytes[2..4].copy_from_slice(&LOCAL_PORT.to_be_bytes());
        bytes[4..8].copy_from_slice(&PEER_START.wrapping_add(start).to_be_bytes());
        bytes[8..12].copy_from_slice(&ack.to_be_bytes());
        bytes[12] = (((20 + option_bytes.len()) / 4) << 4) as u8;
        bytes[13] = flags;
        bytes[14..16].copy_from_slice(&window.to_be_bytes());
        bytes.extend(option_bytes);
        bytes.extend(payload);
        let sum = wire::checksum::Sum::ZERO
            .pseudo_ipv4([192, 0, 2, 1], [192, 168, 0, 1], 6, bytes.len() as u16)
            .bytes(&bytes);
        bytes[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
        Packet { key: self.key, bytes, ecn, route: self.route }
    }

    fn write_option(&self, option: &str, out: &mut Vec<u8>) {
        let words: Vec<&str> = option.split_whitespace().collect();
        match words[..] {
            ["nop"] => out.push(1),
            ["mss", mss] => out.extend([[2, 4], (number(mss) as u16).to_be_bytes()].concat()),
            ["wscale", shift] => out.extend([3, 3, number(shift) as u8]),
            ["sackOK"] => out.extend([4, 2]),
            ["sack", ref blocks @ ..] => {
                out.extend([5, 2 + 8 * blocks.len() as u8]);
                for block in blocks {
                    let (start, end) = block.split_once(':').expect("a range");
                    for edge in [start, end] {
                        out.extend(self.our_start.wrapping_add(number(edge)).to_be_bytes());
                    }
                }
            }
            ["TS", value, echo] => {
                let echo = number(echo);
                let start = self.stamp_start.unwrap_or(0);
                let echo = if echo == 0 { 0 } else { start.wrapping_add(echo) };
                out.extend([1, 1, 8, 10]);
                out.extend(number(value).to_be_bytes());
                out.extend(echo.to_be_bytes());
            }
            ["bytes", ref bytes @ ..] => out.extend(bytes.iter().map(|byte| number(byte) as u8)),
            _ => panic!("unknown option {option}"),
        }
    }

    /// What the engine sends now: exactly these segments.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &[&str]) {
        self.host.turn(self.now);
        self.take_events();
        let sent: Vec<String> =
            self.take_packets().iter().map(|packet| self.print(packet)).collect();
        assert_eq!(sent, expected, "at {}", self.now);
    }

    /// What the engine has sent, unread.
    pub(crate) fn take_packets(&mut self) -> Vec<Packet> {
        self.host.turn(self.now);
        self.host.sink.packets.drain(..).collect()
    }

    pub(crate) fn print(&mut self, packet: &Packet) -> String {
        let header = Header::parse(&packet.bytes).expect("we send headers");
        if header.flags & SYN != 0 {
            self.our_start = header.sequence;
        }
        let letters: String =
            [(SYN, 'S'), (FIN, 'F'), (RST, 'R'), (PSH, 'P'), (ACK, '.'), (ECE, 'E'), (CWR, 'W')]
                .iter()
                .filter(|(flag, _)| header.flags & flag != 0)
                .map(|(_, letter)| letter)
                .collect();
        let payload = &packet.bytes[usize::from(header.header_bytes)..];
        // A reset for nobody bears the peer's own number, which need not be near ours.
        let start = header.sequence.wrapping_sub(self.our_start);
        let end = start.wrapping_add(payload.len() as u32);
        for (at, byte) in payload.iter().enumerate() {
            let number = start.wrapping_add(at as u32);
            assert_eq!(*byte, content(number), "byte {number} of ours is as it was written");
        }
        let mut text = format!("{letters} {start}:{end}");
        if header.flags & ACK != 0 {
            write!(text, " ack {}", header.acknowledgement.wrapping_sub(PEER_START)).unwrap();
        }
        if header.flags & RST == 0 {
            write!(text, " win {}", header.window).unwrap();
        }
        let options: Vec<String> = header
            .options(&packet.bytes)
            .map(|option| match option {
                TcpOption::MaximumSegment(mss) => format!("mss {mss}"),
                TcpOption::WindowScale(shift) => format!("wscale {shift}"),
                TcpOption::SackPermitted => "sackOK".to_string(),
                TcpOption::Timestamps { value, echo } => {
                    let start = *self.stamp_start.get_or_insert(value.wrapping_sub(100));
                    format!("TS {} {echo}", value.wrapping_sub(start))
                }
                TcpOption::Sack(ranges) => {
                    let ranges: Vec<String> = ranges
                        .chunks(8)
                        .map(|range| {
                            let edge = |at: usize| {
                                let bytes = range[at..at + 4].try_into().unwrap();
                                u32::from_be_bytes(bytes).wrapping_sub(PEER_START)
                            };
                            format!("{}:{}", edge(0), edge(4))
                        })
                        .collect();
                    format!("sack {}", ranges.join(" "))
                }
                TcpOption::Other { .. } | TcpOption::Broken => format!("{option:?}"),
            })
            .collect();
        if !options.is_empty() {
            write!(text, " <{}>", options.join(",")).unwrap();
        }
        if packet.ecn != 0 {
            text.push_str(" ect");
        }
        text
    }

    fn take_events(&mut self) {
        for event in &self.host.sink.events {
            if let Event::Connected { flow, .. } = event {
                self.flow = Some(*flow);
            }
        }
    }

    pub(crate) fn flow(&self) -> FlowId {
        self.flow.expect("the connection stands")
    }

    /// The application writes that many bytes; each tells its own number.
    pub(crate) fn write(&mut self, count: u32) {
        let flow = self.flow();
        let span = self.host.engine.room(flow);
        assert!(span.bytes >= count, "the ring has room for {} only", span.bytes);
        let bytes = self.host.rings.send_bytes;
        let start = self.our_start;
        let ring = self.host.rings.send.entry(flow).or_insert_with(|| vec![0; bytes]);
        for offset in 0..count {
            // The place of a byte is its number modulo the ring's length.
            let place = (span.at + offset as usize) % bytes;
            let number = (place as u32).wrapping_sub(start) % bytes as u32;
            ring[place] = content(number);
        }
        self.host.engine.send(flow, count).expect("there is room");
    }

    /// The application reads: that many bytes, as the peer has written them from `number` on.
    #[track_caller]
    pub(crate) fn read(&mut self, number: u32, count: u32) {
        let data = self.host.read(self.flow(), count as usize);
        let expected: Vec<u8> = (number..number + count).map(content).collect();
        assert_eq!(data, expected);
    }

    #[track_caller]
    pub(crate) fn expect_state(&self, state: State) {
        assert_eq!(self.host.engine.state(self.flow()), Some(state));
    }

    /// The events since the last call.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        self.take_events();
        self.host.sink.events.drain(..).collect()
    }
}

fn flag(letter: char) -> u8 {
    match letter {
        'S' => SYN,
        'F' => FIN,
        'R' => RST,
        'P' => PSH,
        '.' => ACK,
        'U' => URG,
        'E' => ECE,
        'W' => CWR,
        // No flag at all.
        '-' => 0,
        other => panic!("unknown flag {other}"),
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

/// The byte that has a number. Rings are at least 256 bytes long, so it survives the modulo.
pub(crate) fn content(number: u32) -> u8 {
    number as u8
}
