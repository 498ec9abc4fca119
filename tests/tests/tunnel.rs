//! Tunnels of IPIP and GRE between two routers of ours, with a kernel that forwards in between,
//! over a link that is shorter than all others: real TCP through them, and what tshark reads of it.

use std::process::Command;

use whole::{Frames, Host, Line, NfRun, Transfer, run, wait_for, write_capture};

/// West host, gateway, the kernel's router, gateway, east host. The link behind the middle takes
/// 1,320 bytes, of IPv4 alone: little more than IPv6 needs inside.
fn line() -> Line {
    let line = Line::new(5, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(1).default_route(1, 2, "east");
    line.host(3).default_route(2, 1, "west");
    line.host(4).default_route(3, 1, "west");
    line.host(2).sysctl("ipv4/ip_forward", "1");
    line.host(2).ip("link set east mtu 1320");
    line.host(3).ip("link set west mtu 1320");
    line
}

fn gateway(host: &Host, ends: [&str; 2], networks: &str, settings: &str) -> NfRun {
    let [local, remote] = ends;
    let text = format!(
        "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n\
         [[function]]\nkind = \"tunnel\"\n[[function.tunnels]]\nlocal = \"{local}\"\n\
         remote = \"{remote}\"\nnetworks = [{networks}]\n{settings}\n\
         [[function]]\nkind = \"router\"\n"
    );
    NfRun::start(host, &text, &[])
}

fn carries(settings: &str) -> Vec<Vec<u8>> {
    let line = line();
    let own = |text: &str| format!("{settings}\naddress = [{text}]");
    let west = gateway(
        line.host(1),
        ["10.90.1.1", "10.90.2.2"],
        "\"10.90.3.0/24\", \"fd90:3::/64\"",
        &own("\"10.90.0.2\", \"fd90:0::2\""),
    );
    let east = gateway(
        line.host(3),
        ["10.90.2.2", "10.90.1.1"],
        "\"10.90.0.0/24\", \"fd90:0::/64\"",
        // It knows its own link, and the other does not.
        &format!("{}\nmtu = 1320", own("\"10.90.3.1\", \"fd90:3::1\"")),
    );
    let mut seen = Frames::new(line.host(2), "west");
    let mut frames = Vec::new();
    for (from, to, address) in
        [(0, 4, "10.90.3.2"), (4, 0, "10.90.0.1"), (0, 4, "fd90:3::2"), (4, 0, "fd90:0::1")]
    {
        let address = address.parse().expect("an address");
        Transfer::start(line.host(from), line.host(to), address, 1 << 20).finish();
        frames.extend(seen.come());
    }
    for gateway in [&west, &east] {
        assert!(gateway.count("tunnel", "wrapped") > 1000, "{:?}", gateway.figures());
        assert!(gateway.count("tunnel", "unwrapped") > 1000, "{:?}", gateway.figures());
        for counter in ["bad_header", "bad_payload", "unknown_peer", "foreign_source", "fragment"] {
            assert_eq!(gateway.count("tunnel", counter), 0, "{counter}: {:?}", gateway.figures());
        }
    }
    // The kernel in the middle has said how long its next link is, and the senders were told.
    assert!(west.count("tunnel", "path_mtu_learned") > 0, "{:?}", west.figures());
    assert!(west.count("tunnel", "answered") > 0, "{:?}", west.figures());
    frames
}

/// How many of the frames tshark finds to be as `filter` says, and none that it finds ill.
fn tshark(frames: &[Vec<u8>], name: &str, filter: &str) -> usize {
    let file = std::env::temp_dir().join(format!("calisto-{name}-{}.pcap", std::process::id()));
    write_capture(&file, frames);
    let count = |filter: &str| {
        let mut command = Command::new("tshark");
        command.args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
        command.args(["-T", "fields", "-e", "frame.number", "-Y", filter, "-r"]).arg(&file);
        let (status, out, said) = run(&mut command);
        assert!(status.success(), "{said}");
        out.lines().count()
    };
    let ill = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0";
    let (found, ill) = (count(filter), count(ill));
    let _ = std::fs::remove_file(&file);
    assert_eq!(ill, 0);
    found
}

#[test]
fn ipip_carries_both_versions_over_a_path_that_is_shorter_than_it_is_told() {
    let frames = carries("kind = \"ipip\"");
    let outer = "ip.dst == 10.90.2.2 && tcp && ip.flags.df == 1";
    assert!(tshark(&frames, "ipip", &format!("{outer} && ip.proto == 4")) > 500);
    assert!(tshark(&frames, "sixin", &format!("{outer} && ip.proto == 41 && ipv6")) > 500);
}

#[test]
fn gre_with_a_key_carries_both_versions_over_a_path_that_is_shorter_than_it_is_told() {
    let frames = carries("kind = \"gre\"\nkey = 77");
    let outer = "ip.dst == 10.90.2.2 && tcp && gre.key == 77";
    assert!(tshark(&frames, "gre", &format!("{outer} && gre.proto == 0x0800")) > 500);
    assert!(tshark(&frames, "sixgre", &format!("{outer} && gre.proto == 0x86dd")) > 500);
}

/// A packet without payload that says what it is, as a frame.
fn frame(link: [[u8; 6]; 2], [from, to]: [[u8; 4]; 2], ttl: u8, protocol: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 20, 0, 0, 0, 0, ttl, protocol, 0, 0];
    packet.extend([from, to].concat());
    let sum = wire::checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    [link.concat(), vec![0x08, 0x00], packet, vec![0; 26]].concat()
}

#[test]
fn nobody_outside_sends_in_the_name_of_a_tunnels_end_or_has_what_no_router_takes_carried() {
    const NOBODY: u8 = 253;
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let mac = |host: &Host, name: &str| {
        host.enter(|| sys::interface::by_name(name)).expect("it is there").mac
    };
    let ends = ["10.90.1.1", "10.90.1.2"];
    let chain = gateway(middle, ends, "\"10.99.0.0/16\"", "kind = \"gre\"");
    let mut wires = [Frames::new(east, "west"), Frames::new(west, "east")];
    let ours = [mac(middle, "east"), mac(middle, "west")];
    let stranger = [2, 0, 0, 0, 0, 0x99];
    let mut heard = [Vec::new(), Vec::new()];
    let mut send = |packets: &[Vec<u8>], wires: &mut [Frames; 2], wrapped: usize| {
        wires[1].send(packets.iter());
        wait_for("the packet in the tunnel", || {
            for ((heard, wire), from) in heard.iter_mut().zip(&mut *wires).zip(ours) {
                let is_theirs = |frame: &Vec<u8>| {
                    (frame[6..12] == from || frame[6..12] == stranger) && frame[12..14] == [8, 0]
                };
                heard.extend(wire.come().into_iter().filter(is_theirs));
            }
            (heard[0].len() >= wrapped).then_some(()).ok_or_else(|| format!("{heard:02x?}"))
        });
        (heard[0].len(), heard[1].len())
    };
    let link = [ours[1], mac(west, "east")];
    let (host, there) = ([10, 90, 0, 1], [10, 99, 0, 1]);
    let good = frame(link, [host, there], 64, NOBODY);
    // The first one waits until the other end's link address is known.
    assert_eq!(send(std::slice::from_ref(&good), &mut wires, 1), (1, 0));
    let (local, remote) = ([10, 90, 1, 1], [10, 90, 1, 2]);
    let packets = [
        frame(link, [local, remote], 64, 47),
        frame(link, [local, [10, 90, 1, 9]], 64, NOBODY),
        frame(link, [[10, 90, 0, 2], there], 64, NOBODY),
        frame(link, [[127, 0, 0, 1], there], 64, NOBODY),
        frame(link, [[224, 0, 0, 5], there], 64, NOBODY),
        frame([stranger, link[1]], [host, there], 1, NOBODY),
        good,
    ];
    assert_eq!(send(&packets, &mut wires, 2), (2, 0));
    for (of, counter, count) in [
        ("tunnel", "wrapped", 2),
        ("tunnel", "ttl_exceeded", 0),
        ("router", "own_source", 3),
        ("router", "ipv4_source", 2),
        ("router", "not_to_us", 1),
    ] {
        assert_eq!(chain.count(of, counter), count, "{counter}: {:?}", chain.figures());
    }
}
