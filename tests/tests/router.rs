//! A router between the kernels of three hosts: real TCP through it, and the answers that Linux
//! gives.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use chain::Event;
use whole::{Host, Line, NfRun, Transfer, four, run, six, wait_for};

const ROUTER: &str =
    "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"router\"\n";

/// West host, router, east host; both ends send by way of the middle.
fn line(mtu: u32) -> Line {
    let line = Line::new(3, mtu);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    line
}

/// Whether one echo comes back, asked for a few times.
fn ping(from: &Host, to: IpAddr) -> Result<(), String> {
    let mut command = from.command("python3");
    command.args(["-c", PING, &to.to_string()]);
    let (status, out, said) = run(&mut command);
    if status.success() { Ok(()) } else { Err(format!("{out}{said}")) }
}

/// An echo request and the wait for its reply, by Python's sockets: ping(8) is not everywhere.
const PING: &str = r"
import socket, struct, sys
to = sys.argv[1]
is6 = ':' in to
family = socket.AF_INET6 if is6 else socket.AF_INET
s = socket.socket(family, socket.SOCK_RAW, socket.getprotobyname('ipv6-icmp' if is6 else 'icmp'))
s.settimeout(0.3)
body = struct.pack('!BBHHH', 128 if is6 else 8, 0, 0, 7, 7) + b'calisto!'
if not is6:
    total = sum(struct.unpack('!%dH' % (len(body) // 2), body))
    total = (total & 0xffff) + (total >> 16)
    body = body[:2] + struct.pack('!H', ~total & 0xffff) + body[4:]
for _ in range(10):
    try:
        s.sendto(body, (to, 0))
        for _ in range(5):
            packet, _ = s.recvfrom(2048)
            at = 0 if is6 else (packet[0] & 15) * 4
            if packet[at] == (129 if is6 else 0) and packet[-8:] == b'calisto!':
                sys.exit(0)
    except OSError as error:
        print(error)
sys.exit('no echo')
";

#[test]
fn tcp_of_linux_goes_through_the_router_in_both_directions_over_both_versions() {
    let line = line(1500);
    let router = NfRun::start(line.host(1), ROUTER, &[]);
    let [west, east] = [line.host(0), line.host(2)];
    for (from, to, address) in [
        (west, east, four(1, 2)),
        (east, west, four(0, 1)),
        (west, east, six(1, 2)),
        (east, west, six(0, 1)),
    ] {
        Transfer::start(from, to, address, 4 << 20).finish();
    }
    let said = router.said();
    let warns = |event: &Event| matches!(event, Event::Note(note) if note.contains("tso off"));
    assert!(said.iter().any(warns), "of veths it says what breaks them: {said:?}");
    // Without its kernel's help, which does not forward.
    assert!(router.count("router", "forwarded") > 4 * 3000, "{:?}", router.figures());
    assert_eq!(router.count("slice", "undecided"), 0);
    router.end().expect("it was told to end");
}

#[test]
fn the_router_itself_is_reached_as_if_it_were_not_there_and_after_it_has_ended_too() {
    let line = line(1500);
    let own = [four(0, 2), four(1, 1), six(0, 2), six(1, 1)];
    let reached = || {
        for address in own {
            ping(line.host(0), address).unwrap_or_else(|said| panic!("{address}: {said}"));
        }
    };
    let router = NfRun::start(line.host(1), ROUTER, &[]);
    reached();
    Transfer::start(line.host(0), line.host(1), four(0, 2), 1 << 20).finish();
    router.end().expect("it was told to end");
    let links = line.host(1).ip("link show");
    assert!(!links.contains("xdp"), "a program is left on an interface: {links}");
    reached();
}

#[test]
fn an_address_that_the_host_gets_is_the_hosts_at_once() {
    let line = line(1500);
    let _router = NfRun::start(line.host(1), ROUTER, &[]);
    line.host(0).ip("route add 10.99.0.0/16 via 10.90.0.2");
    line.host(1).ip("addr add 10.99.0.1/32 dev lo");
    wait_for("an answer of the new address", || {
        ping(line.host(0), Ipv4Addr::new(10, 99, 0, 1).into())
    });
}

/// Errors of ICMP that come back to the west host for what it sends, as numbers and quoted bytes.
fn errors(west: &Host) -> String {
    let mut command = west.command("python3");
    let (status, out, said) = run(command.args(["-c", ERRORS]));
    assert!(status.success(), "{out}{said}");
    out
}

/// Sends packets that no router can forward, and prints which error comes for each: who sends it,
/// type, code, the word behind the checksum, and the packet that it quotes but for what routers
/// change or kernels draw.
const ERRORS: &str = r"
import socket, struct, select, time
SEND = [
    ('four ttl', '10.90.1.2', dict(ttl=1), 100),
    ('four no route', '203.0.113.9', dict(), 100),
    ('four unreachable', '10.91.0.9', dict(), 100),
    ('four prohibited', '10.92.0.9', dict(), 100),
    ('four blackhole', '10.93.0.9', dict(), 100),
    ('four too big', '10.94.0.9', dict(df=True), 1400),
    ('four no neighbour', '10.90.1.77', dict(), 100),
    ('six ttl', 'fd90:1::2', dict(ttl=1), 100),
    ('six no route', '2001:db8::9', dict(), 100),
    ('six unreachable', 'fd91::9', dict(), 100),
    ('six prohibited', 'fd92::9', dict(), 100),
    ('six blackhole', 'fd93::9', dict(), 100),
    ('six too big', 'fd94::9', dict(), 1400),
    ('six no neighbour', 'fd90:1::77', dict(), 100),
]
def listen(to):
    six = ':' in to
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_RAW, 58 if six else 1)
    return s
for name, to, how, size in SEND:
    six = ':' in to
    found = None
    for attempt in range(10):
        icmp = listen(to)
        u = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
        u.bind(('::' if six else '0.0.0.0', 40000))
        if 'ttl' in how:
            if six: u.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, how['ttl'])
            else: u.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, how['ttl'])
        # What path MTU discovery has learned is not to keep the next packet back.
        if six: u.setsockopt(socket.IPPROTO_IPV6, 23, 3)
        else: u.setsockopt(socket.IPPROTO_IP, 10, 3 if how.get('df') else 0)
        try:
            u.sendto(bytes(size), (to, 9))
        except OSError:
            pass
        end = time.time() + (0.4 if 'neighbour' not in name else 1.5)
        while time.time() < end and not found:
            if not select.select([icmp], [], [], end - time.time())[0]: break
            packet, who = icmp.recvfrom(4096)
            if not six: packet = packet[(packet[0] & 15) * 4:]
            kind, code = packet[0], packet[1]
            if (six and kind >= 128) or (not six and kind in (0, 8)): continue
            inner = packet[8:]
            if six:
                if inner[24:40] != socket.inet_pton(socket.AF_INET6, to): continue
                ports = inner[40:44]; told = inner[4:6]
            else:
                if inner[16:20] != socket.inet_aton(to): continue
                ports = inner[20:24]; told = inner[2:4]
            word = struct.unpack('!I', packet[4:8])[0]
            found = (who[0], kind, code, word, told.hex(), ports.hex(), len(inner))
        icmp.close(); u.close()
        if found or 'blackhole' in name and attempt >= 1: break
    print(name, found)
";

#[test]
fn errors_of_icmp_are_those_of_the_kernel_on_the_same_table() {
    let line = line(1500);
    let middle = line.host(1);
    for words in [
        "route add unreachable 10.91.0.0/16",
        "route add prohibit 10.92.0.0/16",
        "route add blackhole 10.93.0.0/16",
        "route add 10.94.0.0/16 via 10.90.2.2",
        "-6 route add unreachable fd91::/16",
        "-6 route add prohibit fd92::/16",
        "-6 route add blackhole fd93::/16",
        "-6 route add fd94::/16 via fd90:2::2",
    ] {
        // A third link, whose packets are shorter.
        if words.contains("94") && !middle.ip("link show").contains("short") {
            middle.ip("link add short mtu 1280 type veth peer name shorter mtu 1280");
            middle.ip("addr add 10.90.2.1/24 dev short");
            middle.ip("addr add fd90:2::1/64 dev short nodad");
            middle.ip("link set short up");
            middle.ip("link set shorter up");
        }
        middle.ip(words);
    }
    // Each error is to be sent; none is to be kept back because others were.
    middle.sysctl("ipv4/icmp_ratelimit", "0");
    middle.sysctl("ipv6/icmp/ratelimit", "0");
    let set_forwarding = |on: &str| {
        middle.sysctl("ipv4/ip_forward", on);
        middle.sysctl("ipv6/conf/all/forwarding", on);
    };
    set_forwarding("1");
    let of_kernel = errors(line.host(0));
    // In the hook, the kernel has to forward for its tables to be told.
    for (on, hook) in [("0", "off"), ("1", "auto")] {
        set_forwarding(on);
        let text = format!(
            "hook = \"{hook}\"\n[[slice]]\nports = [\"xdp:west\", \"xdp:east\", \"xdp:short\"]\n\
             [[function]]\nkind = \"router\"\n"
        );
        let router = NfRun::start(middle, &text, &[]);
        let ours = errors(line.host(0));
        assert_eq!(ours, of_kernel, "hook {hook}, ours first");
        assert!(router.count("router", "icmp_sent") >= 12, "{:?}", router.figures());
        assert_eq!(router.figures().hook.functions[0].hook, hook == "auto");
    }
}

/// Sends packets with options, and prints which error comes for each: type, code, which byte, and
/// how much is quoted.
const OPTIONS: &str = r"
import socket, struct, select, time
SEND = ['01010101', '00de0009', 'de040000', 'de000000', 'de010000', 'de090000', '010101de',
    '0707040000000000', '0707080102030400', '07020400', '0707030000000000', '0707060000000000',
    '0703040703040000', '4408050000000000', '4408090000000000', '4408050200000000', '44030500',
    '4408040000000000', '4408070000000000', '4408050100000000', '440809f000000000',
    '4404050044040500', '94040001', '94030000', '83020400', '8907030a00000900', '8303048303040000']
icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)
for number, options in enumerate(SEND):
    options = bytes.fromhex(options)
    header = struct.pack('!BBHHHBBH4s4s', 0x45 + len(options) // 4, 0, 0, 7, 0, 64, 17, 0,
        socket.inet_aton('10.90.0.1'), socket.inet_aton('10.90.1.2'))
    udp = struct.pack('!HHHH', 40000 + number, 9, 8, 0)
    found = None
    for attempt in range(4):
        raw.sendto(header + options + udp, ('10.90.1.2', 0))
        end = time.time() + 0.15
        while time.time() < end and not found:
            if not select.select([icmp], [], [], end - time.time())[0]: break
            packet, who = icmp.recvfrom(4096)
            packet = packet[(packet[0] & 15) * 4:]
            inner = packet[8:]
            at = (inner[0] & 15) * 4
            if who[0] == '10.90.0.2' and inner[at:at + 2] == udp[:2]:
                found = (packet[0], packet[1], packet[4:8].hex(), len(inner))
        if found: break
    print(options.hex(), found)
";

#[test]
fn options_that_make_no_sense_are_refused_by_the_byte_that_the_kernel_names() {
    let line = line(1500);
    let middle = line.host(1);
    middle.sysctl("ipv4/icmp_ratelimit", "0");
    middle.sysctl("ipv4/icmp_ratemask", "0");
    let play = || {
        let mut command = line.host(0).command("python3");
        let (status, out, said) = run(command.args(["-c", OPTIONS]));
        assert!(status.success(), "{out}{said}");
        out
    };
    middle.sysctl("ipv4/ip_forward", "1");
    let of_kernel = play();
    assert!(of_kernel.contains("(12, 0, '17000000', 32)"), "{of_kernel}");
    for (on, hook) in [("0", "off"), ("1", "auto")] {
        middle.sysctl("ipv4/ip_forward", on);
        let router = NfRun::start(middle, &format!("hook = \"{hook}\"\n{ROUTER}"), &[]);
        assert_eq!(play(), of_kernel, "hook {hook}, ours first");
        assert!(router.count("router", "bad_option") >= 12, "{:?}", router.figures());
    }
}

/// Sends datagrams that may be fragmented, and says what of them has come back.
const LONG: &str = r"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(0, 10, 0)
s.settimeout(0.5)
for size in (100, 572, 573, 580, 1000, 1472):
    data = bytes((n * 7 + size) & 255 for n in range(size))
    for attempt in range(20):
        try:
            s.sendto(data, (sys.argv[1], 7000))
            while True:
                back = s.recv(4096)
                if back == data: break
            break
        except OSError: pass
    else: sys.exit('%d bytes do not come back' % size)
";

#[test]
fn datagrams_longer_than_the_next_link_takes_arrive_whole_as_by_the_kernel() {
    let line = line(1500);
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    middle.ip("link set east mtu 600");
    east.ip("link set west mtu 600");
    let server = east.enter(|| UdpSocket::bind("0.0.0.0:7000").expect("it is free"));
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok((count, from)) = server.recv_from(&mut bytes) {
            let _ = server.send_to(&bytes[..count], from);
            if &bytes[..count] == b"end" {
                return;
            }
        }
    });
    let all_come_back = || {
        let mut command = west.command("python3");
        let (status, out, said) = run(command.args(["-c", LONG, "10.90.1.2"]));
        assert!(status.success(), "{out}{said}");
    };
    middle.sysctl("ipv4/ip_forward", "1");
    all_come_back();
    for (on, hook) in [("0", "off"), ("1", "auto")] {
        middle.sysctl("ipv4/ip_forward", on);
        let router = NfRun::start(middle, &format!("hook = \"{hook}\"\n{ROUTER}"), &[]);
        all_come_back();
        assert!(router.count("router", "fragmented") >= 4, "{:?}", router.figures());
        assert_eq!(router.count("router", "fragments_no_room"), 0);
        if hook == "auto" {
            assert!(router.count("router", "hook_too_long") >= 4, "{:?}", router.figures());
        }
    }
    let end = east.enter(|| UdpSocket::bind("0.0.0.0:0").expect("a port is free"));
    end.send_to(b"end", "10.90.1.2:7000").expect("it is its own address");
}

/// A UDP echo on `host` for as long as the socket lives.
fn echo(host: &Host, at: SocketAddr) -> UdpSocket {
    let socket = host.enter(|| UdpSocket::bind(at).expect("it is its address"));
    let echo = socket.try_clone().expect("a descriptor is left");
    echo.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket has one");
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((count, from)) = echo.recv_from(&mut bytes) {
            let _ = echo.send_to(&bytes[..count], from);
        }
    });
    socket
}

#[test]
fn a_route_that_changes_is_followed_while_other_traffic_runs() {
    let line = line(1500);
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    east.ip("addr add 10.99.0.1/32 dev lo");
    middle.ip("route add 10.99.0.0/16 via 10.90.1.2");
    let router = NfRun::start(middle, ROUTER, &[]);
    let at = SocketAddr::from(([10, 99, 0, 1], 7000));
    let _echo = echo(east, at);
    let asker = west.enter(|| UdpSocket::bind("0.0.0.0:0").expect("a port is free"));
    asker.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket has one");
    let is_answered = || {
        let mut bytes = [0; 8];
        asker.send_to(b"calisto", at).is_ok() && asker.recv(&mut bytes).is_ok()
    };
    let becomes = |wanted: bool, what: &str| {
        wait_for(what, || if is_answered() == wanted { Ok(()) } else { Err("not yet".to_owned()) });
    };
    let transfer = Transfer::start(west, east, four(1, 2), 24 << 20);
    becomes(true, "an answer by the route");
    for _ in 0..3 {
        // Silence may be an answer that is late.
        let before = router.count("router", "blackhole");
        middle.ip("route replace blackhole 10.99.0.0/16");
        wait_for("a packet in the blackhole", || {
            is_answered();
            let met = router.count("router", "blackhole") > before;
            met.then_some(()).ok_or_else(|| "not yet".to_owned())
        });
        middle.ip("route replace 10.99.0.0/16 via 10.90.1.2");
        becomes(true, "an answer by the route that is back");
    }
    middle.ip("route del 10.99.0.0/16");
    becomes(false, "silence without a route");
    transfer.finish();
    assert!(router.count("router", "blackhole") >= 3);
    let figures = router.figures().router.expect("it has one");
    assert!(figures.route_changes >= 7, "{figures:?}");
}

#[test]
fn routes_of_a_link_that_goes_down_and_comes_back_are_followed() {
    let line = line(1500);
    let [west, middle] = [0, 1].map(|number| line.host(number));
    middle.ip("link add side type veth peer name other");
    middle.ip("addr add 10.95.0.1/24 dev side");
    middle.ip("link set side up");
    middle.ip("link set other up");
    middle.ip("route add 10.96.0.0/16 via 10.95.0.2");
    let router = NfRun::start(middle, ROUTER, &[]);
    let routes = || router.figures().router.expect("it has one");
    assert!(router.said().iter().any(|event| matches!(event, Event::Note(said)
        if said.contains("no ports of the chain"))));
    let before = routes().ipv4_routes;
    middle.ip("link set side down");
    // Nobody says so of IPv4: both go without a word.
    wait_for("routes that are gone", || match routes().ipv4_routes {
        now if now < before => Ok(()),
        now => Err(format!("{now} of {before}")),
    });
    middle.ip("link set side up");
    middle.ip("route add 10.96.0.0/16 via 10.95.0.2");
    wait_for("routes that are back", || match routes().ipv4_routes {
        now if now == before => Ok(()),
        now => Err(format!("{now} of {before}")),
    });
    assert!(ping(west, four(0, 2)).is_ok());
}

#[test]
fn routes_of_a_file_are_used_and_the_kernels_are_not() {
    let line = line(1500);
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    east.ip("addr add 10.99.0.1/32 dev lo");
    middle.ip("route add blackhole 10.99.0.0/16");
    let mut table = String::from(
        "10.90.0.0/24 dev west\n10.90.1.0/24 dev east\nnexthop 1 via 10.90.1.2 dev east\n10.99.0.0/16 1\n",
    );
    for number in 0..50_000_u32 {
        let [a, b, ..] = (number << 8).to_be_bytes().map(u32::from);
        table.push_str(&format!("{}.{b}.{}.0/24 1\n", 20 + a, number & 0xff));
    }
    let text = format!("{ROUTER}routes = \"table.txt\"\n");
    let router = NfRun::start(middle, &text, &[("table.txt", &table)]);
    let at = Ipv4Addr::new(10, 99, 0, 1).into();
    wait_for("an answer by the file's route", || ping(west, at));
    let figures = router.figures().router.expect("it has one");
    assert!(figures.ipv4_routes > 50_000 && figures.routes.ends_with("table.txt"), "{figures:?}");
    let wrong = format!("{table}10.98.0.0/16 via 10.90.1.2 dev nowhere\n");
    drop(router);
    let why = NfRun::try_start(middle, &text, &[("table.txt", &wrong)]).expect_err("no such port");
    let expected =
        "table.txt, line 50005: `dev` is \"nowhere\"; allowed are the chain's ports: west, east";
    assert!(why.contains(expected), "{why}");
}

#[test]
fn two_slices_share_the_interfaces_queue_by_queue() {
    let line = Line::with_queues(3, 1500, 2);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    let text = "[[slice]]\nports = [\"xdp:west@0\", \"xdp:east@0\"]\n\
         [[slice]]\nports = [\"xdp:west@1\", \"xdp:east@1\"]\n[[function]]\nkind = \"router\"\n";
    let router = NfRun::start(line.host(1), text, &[]);
    Transfer::start(line.host(0), line.host(2), four(1, 2), 2 << 20).finish();
    let figures = router.figures();
    assert_eq!(figures.slices.len(), 2);
    assert_eq!(figures.slices[1].name, "edge-1");
    assert!(router.count("router", "forwarded") > 1000);
}
