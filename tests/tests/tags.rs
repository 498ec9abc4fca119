//! Frames that are not as they mostly are, and are the link's own to a chain as they are to Linux:
//! with a tag of a VLAN that has no number, or sent to many.

use std::net::UdpSocket;

use sys::interface;
use whole::{Frames, Host, Line, NfRun, wait_for};
use wire::checksum;

const TEXT: &str = "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"acl\"\n\
    default = \"permit\"\nhost = \"judge\"\n[[function.rules]]\naction = \"deny\"\n\
    protocol = \"udp\"\ndestination_port = 9\n[[function]]\nkind = \"router\"\n";

const DENIED: u16 = 9;
const PERMITTED: u16 = 9000;

/// Tags by the name that their packets carry.
const TAGS: [(&str, &[u8]); 6] = [
    ("none", &[]),
    ("customer", &[0x81, 0, 0xe0, 0]),
    ("service", &[0x88, 0xa8, 0, 0]),
    ("two", &[0x81, 0, 0, 0, 0x88, 0xa8, 0, 0]),
    ("vlan", &[0x81, 0, 0, 5]),
    ("vlan behind", &[0x81, 0, 0, 0, 0x81, 0, 0, 5]),
];

/// A datagram that says `name`, from the west host.
fn datagram(to: [u8; 4], port: u16, name: &str) -> Vec<u8> {
    let bytes = (8 + name.len()) as u16;
    let [t0, t1] = (20 + bytes).to_be_bytes();
    let mut packet = vec![0x45, 0, t0, t1, 0, 0, 0, 0, 64, 17, 0, 0, 10, 90, 0, 1];
    packet.extend(to);
    let sum = checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    // The sum of the datagram may be left out.
    for word in [4000, port, bytes, 0] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend(name.as_bytes());
    packet
}

/// Sockets of a host that listen on both ports.
struct Listeners([UdpSocket; 2]);

impl Listeners {
    fn of(host: &Host) -> Self {
        Self([DENIED, PERMITTED].map(|port| {
            let socket = host.enter(|| UdpSocket::bind(("0.0.0.0", port))).expect("it is free");
            socket.set_nonblocking(true).expect("a socket can");
            socket
        }))
    }

    /// What has come, by port, until "end" comes.
    fn hear(&self) -> [Vec<String>; 2] {
        let mut all = [Vec::new(), Vec::new()];
        wait_for("the last datagram", || {
            let mut bytes = [0; 64];
            for (socket, heard) in self.0.iter().zip(&mut all) {
                while let Ok(len) = socket.recv(&mut bytes) {
                    heard.push(String::from_utf8_lossy(&bytes[..len]).into_owned());
                }
            }
            match all[1].pop_if(|last| last == "end") {
                Some(_) => Ok(()),
                None => Err(format!("{all:?}")),
            }
        });
        all
    }
}

#[test]
fn rules_are_not_got_round_by_tags_without_a_vlan_which_the_kernel_takes_off() {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    middle.sysctl("ipv4/ip_forward", "1");
    let (onward, host) = ([10, 90, 1, 2], [10, 90, 0, 2]);
    let listeners = [(onward, Listeners::of(east)), (host, Listeners::of(middle))];
    let mac =
        |of: &Host, name: &str| of.enter(|| interface::by_name(name)).expect("it is there").mac;
    let link = [mac(middle, "west"), mac(west, "east")].concat();
    let mut frames = Frames::new(west, "east");
    let mut send_all = || {
        for (to, _) in &listeners {
            let frame = |tag: &[u8], port, name: &str| {
                [&link[..], tag, &[8, 0], &datagram(*to, port, name)].concat()
            };
            let mut all: Vec<Vec<u8>> = TAGS
                .iter()
                .flat_map(|(name, tag)| [DENIED, PERMITTED].map(|port| frame(tag, port, name)))
                .collect();
            all.push(frame(&[], PERMITTED, "end"));
            frames.send(all.iter());
        }
    };
    // What Linux does, so that it is known whenever that is another thing.
    send_all();
    for (to, listeners) in &listeners {
        let whole = ["none", "customer", "service", "two"].map(str::to_owned).to_vec();
        assert_eq!(listeners.hear(), [whole.clone(), whole], "to {to:?} by the kernel");
    }
    let chain = NfRun::start(middle, TEXT, &[]);
    send_all();
    for (to, listeners) in &listeners {
        let permitted = ["none", "customer", "service"].map(str::to_owned).to_vec();
        assert_eq!(listeners.hear(), [Vec::new(), permitted], "to {to:?} by the chain");
    }
    let figures = || format!("{:?}", chain.figures());
    chain.wait_for_count("acl", "rule_1", |count| count == 8);
    chain.wait_for_count("router", "tagged", |count| count == 2);
    assert_eq!(chain.count("router", "forwarded"), 4, "{}", figures());
}

#[test]
fn rules_that_guard_the_host_are_not_got_round_by_frames_to_many() {
    let line = Line::new(3, 1500);
    let [west, middle] = [0, 1].map(|number| line.host(number));
    let host = [10, 90, 0, 2];
    let listeners = Listeners::of(middle);
    let mac =
        |of: &Host, name: &str| of.enter(|| interface::by_name(name)).expect("it is there").mac;
    let groups = [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]];
    let frame = |to: [u8; 6], port, name: &str| {
        [&to[..], &mac(west, "east"), &[8, 0], &datagram(host, port, name)].concat()
    };
    let mut all: Vec<Vec<u8>> = groups
        .iter()
        .flat_map(|to| [DENIED, PERMITTED].map(|port| frame(*to, port, "to many")))
        .collect();
    all.push(frame(mac(middle, "west"), PERMITTED, "end"));
    let mut frames = Frames::new(west, "east");
    // What Linux does, so that it is known whenever that is another thing.
    frames.send(all.iter());
    let whole = vec!["to many".to_owned(); 3];
    assert_eq!(listeners.hear(), [whole.clone(), whole.clone()], "by the kernel");
    let chain = NfRun::start(middle, TEXT, &[]);
    frames.send(all.iter());
    assert_eq!(listeners.hear(), [Vec::new(), whole], "by the chain");
    chain.wait_for_count("acl", "rule_1", |count| count == 3);
}
