//! Translated filters against the interpreter and against the kernel's own filters; needs root.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::Filter;
use crate::af_packet;
use crate::filter::{Instruction as Classic, Judge};
use crate::xdp::bpf::{self, MAP_TYPE_XSKMAP, Map};

/// What an XDP program answers for a packet that is wanted, and for another.
const REDIRECT: u32 = 4;
const PASS: u32 = 2;

/// A queue that a wanted packet can be redirected to.
struct Queue {
    sockets: Map,
    _socket: OwnedFd,
}

impl Queue {
    fn new() -> Self {
        let sockets =
            Map::create(MAP_TYPE_XSKMAP, "test", 4, 4, 4, 0).expect("the tests of XDP run as root");
        let family = rustix::net::AddressFamily::from_raw(libc::AF_XDP as u16);
        let socket = rustix::net::socket(family, rustix::net::SocketType::RAW, None)
            .expect("root may open AF_XDP sockets");
        let fd = socket.as_fd().as_raw_fd().to_ne_bytes();
        sockets.update(&0u32.to_ne_bytes(), &fd).expect("queue 0 is in the map");
        Self { sockets, _socket: socket }
    }

    fn load(&self, filter: &Filter) -> OwnedFd {
        let code = super::assemble(filter.program(), None, self.sockets.as_fd().as_raw_fd())
            .unwrap_or_else(|why| panic!("{}: {why}", filter.expression()));
        bpf::load("test", &code, false)
            .unwrap_or_else(|refused| panic!("{}: {}", filter.expression(), refused.log))
    }
}

/// The kernel's classic filter, on a socket whose packets are what is sent to it.
struct KernelFilter {
    from: UnixDatagram,
    to: UnixDatagram,
}

impl KernelFilter {
    /// `None`: the kernel does not take it; it refuses to read scratch memory that was not written.
    fn new(filter: &Filter) -> Option<Self> {
        let (from, to) = UnixDatagram::pair().expect("descriptors are left");
        to.set_nonblocking(true).expect("a socket can be non-blocking");
        let judge =
            af_packet::filter::set(to.as_fd(), Some(filter)).expect("a socket takes filters");
        (judge == Judge::Kernel).then_some(Self { from, to })
    }

    fn matches(&self, packet: &[u8]) -> bool {
        self.from.send(packet).expect("the queue is empty");
        self.to.recv(&mut [0; 4096]).is_ok()
    }
}

/// All three say the same of `packet`.
fn agree(program: &OwnedFd, kernel: &KernelFilter, filter: &Filter, packet: &[u8]) -> bool {
    let translated = bpf::test_run(program, packet).expect("the kernel runs it");
    assert!([REDIRECT, PASS].contains(&translated), "it answered {translated}");
    let here = filter.matches(packet);
    let name = filter.expression();
    assert_eq!(translated == REDIRECT, here, "{name}: translated and interpreted, {packet:02x?}");
    assert_eq!(kernel.matches(packet), here, "{name}: the kernel and interpreted, {packet:02x?}");
    here
}

/// What people write, and what makes libpcap use every kind of instruction.
const EXPRESSIONS: [&str; 38] = [
    "",
    "ip",
    "ip6",
    "arp",
    "not arp",
    "ip or ip6",
    "tcp",
    "udp port 53",
    "tcp dst port 80 or tcp dst port 443",
    "tcp portrange 1000-2000",
    "udp src portrange 1-100",
    "host 10.0.0.1",
    "src host 10.0.0.1 and dst host 10.0.0.2",
    "net 10.0.0.0/8",
    "dst net 192.168.0.0/16 and not src net 10.0.0.0/8",
    "ip6 host 2001:db8::1",
    "ip6 net 2001:db8::/32",
    "ether host 02:00:00:00:00:01",
    "ether dst 02:00:00:00:00:01",
    "ether multicast",
    "not ether multicast and not ether broadcast",
    "ether proto 0x88cc",
    "vlan",
    "vlan 7 and tcp",
    "vlan and vlan and udp",
    "mpls",
    "icmp[icmptype] == icmp-echo",
    "icmp6",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "tcp[((tcp[12] & 0xf0) >> 2)] == 0x47",
    "ip[0] & 0xf != 5",
    "ip[6:2] & 0x1fff != 0",
    "len > 100",
    "greater 64 and less 128",
    "ip[2:2] * 3 - 7 > 200 and ip[8] % 3 == 1",
    "ether[6:4] / 7 = 4793490 or ether[0] ^ 3 = 1 or ether[0] << ether[1] = 8",
    "ether[20:4] >> (ether[1] & 7) | 1 = 5 or -ether[3] = 0xfffffffe",
    "(ip and ip[8] <= 1) or (ip6 and ip6[7] <= 1) or (esp and dst host 10.0.0.2)",
];

/// Packets in which each of the expressions finds something to look at.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let address = prop_oneof![
        Just([10, 0, 0, 1]),
        Just([10, 0, 0, 2]),
        Just([192, 168, 3, 4]),
        any::<[u8; 4]>()
    ];
    let kind = prop_oneof![
        4 => Just(0x0800u16), 3 => Just(0x86dd), 1 => Just(0x0806), 1 => Just(0x8847), 1 => Just(0x88cc), 1 => any::<u16>()
    ];
    let protocol = prop_oneof![Just(6u8), Just(17), Just(1), Just(58), Just(50), any::<u8>()];
    let port = prop_oneof![Just(53u16), 1..100u16, 1000..2000u16, any::<u16>()];
    let tags = proptest::collection::vec(prop_oneof![Just(7u16), any::<u16>()], 0..3);
    let rest = proptest::collection::vec(any::<u8>(), 0..120);
    let header = (any::<[u8; 2]>(), kind, tags, 0..16u8, protocol);
    (header, [address.clone(), address], [port.clone(), port], rest, any::<bool>(), 0..160usize)
        .prop_map(
            |((ether, kind, tags, words, protocol), addresses, ports, rest, fragment, cut)| {
                let mut bytes = vec![ether[0] & 7, ether[1] & 3, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
                for tag in tags {
                    bytes.extend_from_slice(&[0x81, 0]);
                    bytes.extend_from_slice(&tag.to_be_bytes());
                }
                bytes.extend_from_slice(&kind.to_be_bytes());
                let l3 = bytes.len();
                if kind == 0x86dd {
                    bytes.extend_from_slice(&[0x60, 0, 0, 0, 0, 20, protocol, words]);
                    for address in addresses {
                        bytes.extend_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
                        bytes.extend_from_slice(&[0, 0, 0, address[3] & 3]);
                    }
                } else {
                    let words = if words < 8 { 5 } else { words };
                    bytes.extend_from_slice(&[0x40 | words, 0, 0, rest.len() as u8, 0, 0]);
                    bytes.extend_from_slice(&[0, u8::from(fragment), 64, protocol, 0, 0]);
                    addresses.iter().for_each(|address| bytes.extend_from_slice(address));
                    bytes.resize(l3 + usize::from(words) * 4, 1);
                }
                ports.iter().for_each(|port| bytes.extend_from_slice(&port.to_be_bytes()));
                bytes.extend_from_slice(&rest);
                // The kernel runs no shorter ones.
                bytes.truncate(cut.max(14));
                bytes.resize(bytes.len().max(14), 0);
                bytes
            },
        )
}

#[test]
fn a_translated_expression_takes_what_the_kernels_own_filter_takes() {
    let queue = Queue::new();
    let taken = Cell::new(0);
    for expression in EXPRESSIONS {
        let filter = Filter::compile(expression).unwrap_or_else(|error| panic!("{error}"));
        let program = queue.load(&filter);
        let kernel = KernelFilter::new(&filter).expect("the kernel takes what libpcap makes");
        let mut runner =
            TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(400) });
        runner
            .run(&packet(), |packet| {
                taken.set(taken.get() + u32::from(agree(&program, &kernel, &filter, &packet)));
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{expression:?}: {error}"));
    }
    assert!(taken.get() > 500, "the packets are too dull: {taken:?} were taken");
}

/// Opcodes of loads, stores, moves and the negation.
const MOVES: [u16; 18] = [
    0x00, 0x01, 0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x60, 0x61, 0x80, 0x81, 0xb1, 0x02, 0x03, 0x07,
    0x87, 0x84,
];
/// Opcodes of arithmetic and of jumps, with a constant; with the index register they are 8 more.
const OTHERS: [u16; 14] =
    [0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x94, 0xa4, 0x15, 0x25, 0x35, 0x45];

/// Programs that libpcap would not make.
fn classic() -> impl Strategy<Value = Vec<Classic>> {
    use proptest::sample::select;
    let others =
        (select(&OTHERS[..]), prop_oneof![Just(0), Just(8)]).prop_map(|(op, with)| op | with);
    let code = prop_oneof![9 => select(&MOVES[..]), 9 => others, 1 => Just(0x16)];
    let value =
        prop_oneof![4 => 0..16u32, 2 => 0..80u32, 1 => any::<u32>(), 1 => Just(0x8000_0000u32)];
    let instruction = (code, 0..3u8, 0..3u8, value).prop_map(|(code, if_true, if_false, value)| {
        // What no filter may do is tested elsewhere.
        let value = match code {
            0x60 | 0x61 | 0x02 | 0x03 => value % 16,
            0x64 | 0x74 => value % 32,
            0x34 | 0x94 => value | 1,
            _ => value,
        };
        Classic { code, if_true, if_false, value }
    });
    proptest::collection::vec(instruction, 1..40).prop_map(|middle| {
        let line = |code, if_false, value| Classic { code, if_true: 0, if_false, value };
        // The kernel wants scratch memory to be written before it is read.
        let mut program: Vec<Classic> = (0..16).map(|word| line(0x02, 0, word)).collect();
        program.extend(middle);
        // A way to either end, whatever stands before.
        program.extend([line(0x15, 1, 7), line(0x06, 0, 1), line(0x06, 0, 0)]);
        program
    })
}

#[test]
fn random_programs_answer_the_same_translated_interpreted_and_in_the_kernel() {
    let queue = Queue::new();
    let config = Config {
        failure_persistence: None,
        max_global_rejects: 1 << 20,
        ..Config::with_cases(1200)
    };
    let ran = Cell::new(0);
    let case = (classic(), proptest::collection::vec(packet(), 8));
    TestRunner::new(config)
        .run(&case, |(program, packets)| {
            let Ok(filter) = Filter::from_program("random", &program) else { return Ok(()) };
            let code = super::assemble(&program, None, queue.sockets.as_fd().as_raw_fd());
            let code = code.expect("it is short and has no loops");
            // Code that nothing leads to is refused by the verifier: that is then judged by the
            // reader.
            let Ok(translated) = bpf::load("test", &code, false) else { return Ok(()) };
            let Some(kernel) = KernelFilter::new(&filter) else { return Ok(()) };
            for packet in packets {
                agree(&translated, &kernel, &filter, &packet);
            }
            ran.set(ran.get() + 1);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(ran.get() > 60, "only {ran:?} programs were run");
}

#[test]
fn a_program_with_a_loop_is_not_translated_and_says_so() {
    let filter = Filter::compile("ip6 protochain 6").expect("libpcap is installed");
    assert_eq!(super::assemble(filter.program(), None, 0), Err("it has a loop".to_owned()));
    let (_from, to) = UnixDatagram::pair().expect("descriptors are left");
    let judge = af_packet::filter::set(to.as_fd(), Some(&filter));
    assert!(matches!(judge, Ok(Judge::Reader { .. })), "{judge:?}");
}
