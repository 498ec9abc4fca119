//! Tunnels of IPIP and GRE between two routers of ours, with a kernel that forwards in between,
//! over a link that is shorter than all others: real TCP through them, and what tshark reads of it.

use std::process::Command;

use whole::{Frames, Host, Line, NfRun, Transfer, run, write_capture};

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
