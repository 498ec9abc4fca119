//! The first functions of a chain in the XDP hook: packet for packet what the slice does.

mod packets;

use chain::Event;
use sys::ethtool::{self, Offload};
use whole::{Frames, Host, Line, NfRun, Random, Transfer, four, six, wait_for};

use packets::packets;

const PORTS: &str = "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n";
const ROUTER: &str =
    "[[function]]\nkind = \"router\"\nicmp_per_second = 1000000\nicmp_burst = 1000000\n";
const HOOK: &str = "hook = \"auto\"\n";

/// West host, router, east host. The kernel in the middle forwards, so that it tells its routes,
/// and both ends put segments together, so that their veths take redirected packets.
fn line() -> Line {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    set_forwarding(line.host(1), "1");
    for (host, interface) in [(0, "east"), (2, "west")] {
        let join = || ethtool::set(interface, Offload::Gro, true);
        line.host(host).enter(join).expect("a veth can put segments together");
    }
    line
}

fn set_forwarding(middle: &Host, on: &str) {
    middle.sysctl("ipv4/ip_forward", on);
    middle.sysctl("ipv6/conf/all/forwarding", on);
}

fn mac(host: &Host, interface: &str) -> [u8; 6] {
    host.enter(|| sys::interface::by_name(interface)).expect("it is there").mac
}

/// Packets with the host that they came to.
type Heard = Vec<(usize, Vec<u8>)>;

/// Function, counter, value.
type Counted = Vec<(String, String, u64)>;

/// What comes back to both ends for the same packets, in some order, and what the functions have
/// counted but for what only hooks count.
fn play(line: &Line, text: &str) -> (Heard, Counted) {
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let macs = [mac(middle, "west"), mac(middle, "east")];
    let router = NfRun::start(middle, text, &[]);
    let mut ends = [Frames::new(west, "east"), Frames::new(east, "west")];
    let mut all = Vec::new();
    let mut random = Random::new(7);
    for round in 0..40 {
        let (sent, mark) = packets(&mut random, macs[0], mac(west, "east"), round);
        ends[0].send(sent.iter().chain([&mark]));
        // It has options, so that only the slice judges it, behind all that came before.
        wait_for("the last packet of a round", || {
            for (end, frames) in ends.iter_mut().enumerate() {
                let ours =
                    |frame: &Vec<u8>| frame[6..12] == macs[end] && packets::is_of_test(frame);
                all.extend(frames.come().into_iter().filter(ours).map(|frame| (end, frame)));
            }
            let is_mark = |(_, frame): &(usize, Vec<u8>)| frame.ends_with(&mark[52..]);
            all.iter().any(is_mark).then_some(()).ok_or_else(|| format!("{} came", all.len()))
        });
    }
    all.sort();
    let mut counts = Vec::new();
    for group in router.figures().slices.iter().flat_map(|slice| &slice.groups) {
        for counter in group.counters.iter().filter(|_| group.of == "function") {
            counts.push((group.name.clone(), counter.name.clone(), counter.value));
        }
    }
    (all, counts)
}

fn compare(text: &str) {
    let line = line();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let (to_west, to_east) = (mac(west, "east"), mac(east, "west"));
    let link = |[a, b, c, d, e, f]: [u8; 6]| format!("{a:x}:{b:x}:{c:x}:{d:x}:{e:x}:{f:x}");
    for words in [
        "route add 10.98.0.0/16 via 10.90.0.1",
        "route add 10.99.0.0/16 via 10.90.1.2",
        "route add blackhole 10.99.1.0/24",
        "route add unreachable 10.99.2.0/24",
        "route add prohibit 10.99.3.0/24",
        "-6 route add fd98::/16 via fd90:0::1",
        "-6 route add fd99::/16 via fd90:1::2",
        "-6 route add blackhole fd99:1::/32",
        "-6 route add unreachable fd99:2::/32",
        "-6 route add prohibit fd99:3::/32",
    ] {
        middle.ip(words);
    }
    for (address, of, interface) in [
        ("10.90.0.1", to_west, "west"),
        ("fd90:0::1", to_west, "west"),
        ("10.90.1.2", to_east, "east"),
        ("fd90:1::2", to_east, "east"),
    ] {
        middle.ip(&format!(
            "neigh replace {address} lladdr {} dev {interface} nud permanent",
            link(of)
        ));
    }
    let (by_slice, counted) = play(&line, text);
    let (by_hook, counted_with_hook) = play(&line, &format!("{HOOK}{text}"));
    let count = |counts: &[(String, String, u64)], wanted: &str| -> u64 {
        let of_name = counts.iter().filter(|(_, name, _)| name == wanted);
        of_name.map(|(_, _, value)| value).sum()
    };
    let finished = count(&counted_with_hook, "hook_forwarded");
    assert!(finished > 50, "{counted_with_hook:?}");
    assert!(count(&counted_with_hook, "forwarded") > finished + 40, "{counted_with_hook:?}");
    assert!(count(&counted_with_hook, "icmp_sent") > 40, "{counted_with_hook:?}");
    for (slice, hook) in by_slice.iter().zip(&by_hook) {
        assert_eq!(slice, hook, "by the slice first");
    }
    assert_eq!(by_slice.len(), by_hook.len());
    let without_hook = |counts: Vec<(String, String, u64)>| -> Vec<_> {
        counts.into_iter().filter(|(_, name, _)| !name.starts_with("hook_")).collect()
    };
    assert_eq!(without_hook(counted_with_hook), counted, "with the hook first");
}

#[test]
fn the_hook_routes_packet_for_packet_as_the_slice_does() {
    compare(&format!("{PORTS}{ROUTER}"));
}

#[test]
fn rules_in_the_hook_decide_and_count_packet_for_packet_as_in_the_slice() {
    let rules = "[[function]]\nkind = \"acl\"\ndefault = \"permit\"\n\
         [[function.rules]]\naction = \"deny\"\nprotocol = \"udp\"\ndestination_port = \"0-9000\"\n\
         [[function.rules]]\naction = \"permit\"\nprotocol = \"tcp\"\nsource_port = \"0-30000\"\n\
         [[function.rules]]\naction = \"deny\"\nsource = \"fd98:0:0:1::/64\"\n\
         [[function]]\nkind = \"acl\"\ndefault = \"deny\"\n\
         [[function.rules]]\naction = \"permit\"\nsource = \"10.98.0.0/17\"\n\
         [[function.rules]]\naction = \"permit\"\nsource = \"fd98::/16\"\n\
         [[function.rules]]\naction = \"permit\"\nprotocol = 253\n";
    compare(&format!("{PORTS}{rules}{ROUTER}"));
}

#[test]
fn tcp_goes_through_the_hook_and_where_each_function_runs_is_said() {
    let line = line();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let router = NfRun::start(middle, &format!("{HOOK}{PORTS}{ROUTER}"), &[]);
    for (from, to, address) in [
        (west, east, four(1, 2)),
        (east, west, four(0, 1)),
        (west, east, six(1, 2)),
        (east, west, six(0, 1)),
    ] {
        Transfer::start(from, to, address, 2 << 20).finish();
    }
    let forwarded = router.count("router", "hook_forwarded");
    assert!(forwarded > 4 * 1500, "{:?}", router.figures());
    assert!(router.count("router", "forwarded") >= forwarded, "they are of all forwarded");
    let hook = router.figures().hook;
    let places = hook.functions.iter().chain(&hook.entries).chain(&hook.exits);
    let names: Vec<_> = places.clone().map(|place| place.name.as_str()).collect();
    assert_eq!(names, ["router", "west", "east", "west", "east"]);
    assert!(places.clone().all(|place| place.hook && place.why.is_none()), "{hook:?}");
}

#[test]
fn checksums_that_senders_leave_open_are_completed_by_the_slice_behind_the_hook() {
    let line = line();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    for (host, interface) in [(west, "east"), (east, "west")] {
        let open = || ethtool::set(interface, Offload::TxChecksum, true);
        host.enter(open).expect("a veth leaves checksums open");
    }
    let router = NfRun::start(middle, &format!("{HOOK}{PORTS}{ROUTER}"), &[]);
    for address in [four(1, 2), six(1, 2)] {
        Transfer::start(west, east, address, 1 << 20).finish();
    }
    assert!(router.count("router", "hook_open_checksum") > 1000, "{:?}", router.figures());
}

#[test]
fn without_a_forwarding_kernel_or_a_veth_that_takes_redirects_the_slice_does_all_and_says_why() {
    let line = line();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let join = |on: bool| ethtool::set("west", Offload::Gro, on);
    east.enter(|| join(false)).expect("a veth can do without");
    set_forwarding(middle, "0");
    let router = NfRun::start(middle, &format!("{HOOK}{PORTS}{ROUTER}"), &[]);
    let why = |place: &chain::figures::PlaceFigures| place.why.clone().unwrap_or_default();
    let functions = router.figures().hook.functions;
    assert!(!functions[0].hook && why(&functions[0]).contains("forwards nothing"));
    let notes = router.said();
    let is_said =
        |event: &Event| matches!(event, Event::Note(note) if note.contains("in the hook"));
    assert!(notes.iter().any(is_said), "{notes:?}");
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();

    set_forwarding(middle, "1");
    let exit = |number: usize| router.figures().hook.exits.get(number).cloned();
    wait_for("the hook", || exit(1).map(|_| ()).ok_or_else(|| "not yet".to_owned()));
    let east_exit = exit(1).expect("it has come");
    assert!(!east_exit.hook && why(&east_exit).contains("gro on"), "{east_exit:?}");
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();
    assert!(router.count("router", "hook_no_exit") > 300, "{:?}", router.figures());

    east.enter(|| join(true)).expect("a veth can put segments together");
    wait_for("the exit", || {
        exit(1).filter(|exit| exit.hook).map(|_| ()).ok_or_else(|| "not yet".to_owned())
    });
    wait_for("packets that leave from the hook", || {
        let before = router.count("router", "hook_forwarded");
        Transfer::start(west, east, four(1, 2), 1 << 20).finish();
        let more = router.count("router", "hook_forwarded") - before;
        if more > 700 { Ok(()) } else { Err(format!("{more}")) }
    });
}

#[test]
fn rules_that_a_reload_brings_are_in_the_hook_and_counters_go_on() {
    let line = line();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let text = |rules: &str| {
        format!("{HOOK}{PORTS}[[function]]\nkind = \"acl\"\ndefault = \"permit\"\n{rules}{ROUTER}")
    };
    let router = NfRun::start(middle, &text(""), &[]);
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();
    let before = [router.count("acl", "permitted"), router.count("router", "forwarded")];
    assert!(before[0] > 700, "{:?}", router.figures());
    let deny = "[[function.rules]]\naction = \"deny\"\nprotocol = \"udp\"\ndestination_port = 9\n";
    router.reload(&text(deny), &[]).expect("nothing is wrong with it");
    let after = [router.count("acl", "permitted"), router.count("router", "forwarded")];
    assert!(after[0] >= before[0] && after[1] >= before[1], "{before:?} {after:?}");
    let socket = west.enter(|| std::net::UdpSocket::bind("0.0.0.0:0").expect("a port is free"));
    for _ in 0..20 {
        socket.send_to(b"denied", (four(1, 2), 9)).expect("there is a route");
    }
    router.wait_for_count("acl", "rule_1", |hits| hits >= 20);
    router.reload(&text(""), &[]).expect("nothing is wrong with it");
    router.wait_for_count("acl", "denied", |denied| denied == 20);
}

/// A packet from the west host to the east one, to that station of the west link.
fn send_to(frames: &mut Frames, west: &Host, to: [u8; 6]) {
    let mut packet = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253, 0, 0, 10, 90, 0, 1, 10, 90, 1, 2];
    let sum = wire::checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0; 26]);
    let frame = [&to[..], &mac(west, "east"), &[8, 0], &packet].concat();
    frames.send([frame].iter());
}

#[test]
fn a_port_that_gets_another_link_address_forwards_in_the_hook_what_is_for_that_one_alone() {
    let line = line();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let router = NfRun::start(middle, &format!("{HOOK}{PORTS}{ROUTER}"), &[]);
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();
    let (old, new) = (mac(middle, "west"), [2, 0, 0, 0, 0x77, 1]);
    let mut frames = Frames::new(west, "east");
    let mut send = |to: [u8; 6]| send_to(&mut frames, west, to);
    let hooked = || router.count("router", "hook_forwarded");
    let before = hooked();
    send(old);
    router.wait_for_count("router", "hook_forwarded", |count| count > before);
    middle.ip("link set west address 02:00:00:00:77:01");
    wait_for("the hook to forget the old address", || {
        send(old);
        match router.count("router", "not_to_us") {
            0 => Err(format!("{:?}", router.figures())),
            _ => Ok(()),
        }
    });
    let before = hooked();
    send(new);
    router.wait_for_count("router", "hook_forwarded", |count| count > before);
    let refused = router.count("router", "not_to_us");
    let before = hooked();
    send(old);
    router.wait_for_count("router", "not_to_us", |count| count > refused);
    assert_eq!(hooked(), before, "{:?}", router.figures());
}

#[test]
fn two_ports_that_change_names_keep_their_link_addresses_in_the_hook() {
    let line = line();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let router = NfRun::start(middle, &format!("{HOOK}{PORTS}{ROUTER}"), &[]);
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();
    let [old, others] = ["west", "east"].map(|name| mac(middle, name));
    let mut frames = Frames::new(west, "east");
    for (from, to) in [("west", "aside"), ("east", "west"), ("aside", "east")] {
        middle.ip(&format!("link set {from} name {to}"));
    }
    // The one that was called west, which gets other programs by that.
    middle.ip("link set east address 02:00:00:00:77:01");
    wait_for("the hook to forget the old address", || {
        send_to(&mut frames, west, old);
        match router.count("router", "not_to_us") {
            0 => Err(format!("{:?}", router.figures())),
            _ => Ok(()),
        }
    });
    let hooked = || router.count("router", "hook_forwarded");
    let (before, refused) = (hooked(), router.count("router", "not_to_us"));
    send_to(&mut frames, west, others);
    router.wait_for_count("router", "not_to_us", |count| count > refused);
    assert_eq!(hooked(), before, "{:?}", router.figures());
    send_to(&mut frames, west, [2, 0, 0, 0, 0x77, 1]);
    router.wait_for_count("router", "hook_forwarded", |count| count > before);
}
