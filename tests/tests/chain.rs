//! `calisto nf`: files that are refused, functions that are run, and what is left behind, which is
//! nothing.

use std::process::Command;

use chain::figures::Figures;
use rustix::process::Signal;
use whole::{Frames, Host, Line, NfRun, Program, Transfer, binary, four, run, wait_for};

const BRIDGE: &str = "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"l2\"\nlinks = [[\"west\", \"east\"]]\n";
const ROUTER: &str = "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n";

/// Two hosts that believe that they are on one link, and one between them.
fn one_link() -> Line {
    let line = Line::new(3, 1500);
    for (host, interface, number) in [(line.host(0), "east", 1), (line.host(2), "west", 2)] {
        host.ip(&format!("addr add 10.80.0.{number}/24 dev {interface}"));
        host.ip(&format!("addr add fd80::{number}/64 dev {interface} nodad"));
    }
    line
}

/// Two hosts with a router's place between them.
fn two_links() -> Line {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    line
}

#[test]
fn a_bridge_joins_two_hosts_as_a_wire_does() {
    let line = one_link();
    let bridge = NfRun::start(line.host(1), BRIDGE, &[]);
    for address in ["10.80.0.2", "fd80::2"] {
        let address = address.parse().expect("an address");
        Transfer::start(line.host(0), line.host(2), address, 4 << 20).finish();
    }
    assert!(bridge.count("l2", "forwarded") > 5000, "{:?}", bridge.figures());
    assert_eq!(bridge.figures().slices[0].filter, None, "it takes everything");
}

/// `calisto nf WORDS` on a host.
fn nf(host: &Host, words: &[&str]) -> Command {
    let mut command = host.command(binary("calisto"));
    command.arg("nf").args(words);
    command
}

#[test]
fn the_command_runs_a_chain_says_what_it_does_and_leaves_nothing_behind() {
    let line = one_link();
    let folder = std::env::temp_dir().join(format!("calisto-chain-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
    let (file, sockets) = (folder.join("edge.toml"), folder.join("sockets"));
    std::fs::write(&file, format!("name = \"edge\"\n{BRIDGE}")).expect("the folder is ours");
    let [file, at] = [&file, &sockets].map(|path| path.to_str().expect("a plain path"));
    let words = |words: &[&str]| nf(line.host(1), &[&["--sockets", at, "-j"], words].concat());
    let (status, out, said) = run(&mut words(&["check", file]));
    assert!(status.success(), "{said}");
    assert!(
        out.contains("\"schema_version\":1") && out.contains("\"functions\":[\"l2\"]"),
        "{out}"
    );
    let mut chain = Program::spawn(&mut words(&["run", file]));
    chain.wait_until_it_says("forwarding between west, east");
    let address = "10.80.0.2".parse().expect("an address");
    Transfer::start(line.host(0), line.host(2), address, 1 << 20).finish();
    let (status, out, said) = run(&mut words(&["stats"]));
    assert!(status.success(), "{said}");
    let figures: Figures = serde_json::from_str(&out).expect("figures are JSON");
    assert_eq!((figures.schema_version, figures.name.as_str()), (2, "edge"));
    assert_eq!(figures.pid, chain.pid());
    let (status, _, said) = run(&mut words(&["run", file]));
    assert!(!status.success() && said.contains("a chain of that name runs already"), "{said}");
    chain.signal(Signal::INT);
    let ended = chain.end();
    assert!(ended.status.success(), "{}", ended.said);
    let last: Figures = serde_json::from_str(&ended.out).expect("the last figures are JSON");
    assert!(last.uptime_seconds >= figures.uptime_seconds);
    let links = line.host(1).ip("link show");
    assert!(!links.contains("xdp"), "a program is left on an interface: {links}");
    let left = std::fs::read_dir(&sockets).expect("the folder is there").count();
    assert_eq!(left, 0, "a socket is left");
    let (status, _, said) = run(&mut words(&["stats", "edge"]));
    assert!(!status.success() && said.contains("calisto nf run"), "{said}");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn what_cannot_be_run_says_why_and_leaves_nothing_behind() {
    let line = one_link();
    let middle = line.host(1);
    for (text, files, words) in [
        (BRIDGE.replace("east", "none0"), None, "none0"),
        (
            BRIDGE.replace("[[function]]", "filter = \"tpc port 80\"\n[[function]]"),
            None,
            "tpc port 80",
        ),
        (BRIDGE.replace("[[function]]", "cpus = [999]\n[[function]]"), None, "999"),
        (
            format!("{ROUTER}[[function]]\nkind = \"router\"\nroutes = \"none.txt\"\n"),
            None,
            "none.txt cannot be read",
        ),
        (
            format!("{ROUTER}[[function]]\nkind = \"router\"\nroutes = \"t\"\n"),
            Some(("t", "10.0.0.0/8 dev lo\n")),
            "t, line 1: `dev` is \"lo\"",
        ),
        (
            format!(
                "{ROUTER}[[function]]\nkind = \"esp\"\nkeys = \"k\"\n[[function]]\nkind = \"router\"\n"
            ),
            Some(("k", "[[tunnel]]\n")),
            "k, line 1: ",
        ),
    ] {
        let files: Vec<(&str, &str)> = files.into_iter().collect();
        let why = match NfRun::try_start(middle, &text, &files) {
            Err(why) => why,
            // A thread finds out only when it begins.
            Ok(chain) => chain.failure(),
        };
        assert!(why.contains(words), "{text}: {why}");
        let links = middle.ip("link show");
        assert!(!links.contains("xdp"), "{text}: a program is left on an interface: {links}");
    }
}

#[test]
fn an_interface_that_goes_away_ends_the_chain_with_a_sentence() {
    let line = one_link();
    let bridge = NfRun::start(line.host(1), BRIDGE, &[]);
    line.host(2).ip("link del west");
    let why = bridge.failure();
    assert!(why.contains("east") && why.contains("removed"), "{why}");
}

#[test]
fn rules_deny_and_permit_what_real_programs_send() {
    let line = two_links();
    let text = format!(
        "{ROUTER}[[function]]\nkind = \"acl\"\ndefault = \"deny\"\n\
         [[function.rules]]\naction = \"deny\"\nprotocol = \"tcp\"\ndestination_port = \"1-1023\"\n\
         [[function.rules]]\naction = \"permit\"\nprotocol = \"tcp\"\n[[function]]\nkind = \"router\"\n"
    );
    let chain = NfRun::start(line.host(1), &text, &[]);
    let [west, east] = [line.host(0), line.host(2)];
    Transfer::start(west, east, whole::four(1, 2), 1 << 20).finish();
    Transfer::start(west, east, whole::six(1, 2), 1 << 20).finish();
    let at = (whole::four(1, 2), 80).into();
    let attempt = west
        .enter(|| std::net::TcpStream::connect_timeout(&at, std::time::Duration::from_millis(300)));
    assert!(attempt.is_err(), "port 80 is denied");
    assert!(chain.count("acl", "denied") >= 1);
    assert_eq!(chain.count("acl", "rule_1"), chain.count("acl", "denied"), "hits of each rule");
    assert_eq!(chain.count("acl", "rule_2"), chain.count("acl", "permitted"));
    assert_eq!(chain.count("acl", "denied_by_default"), 0);
    let udp = west.enter(|| std::net::UdpSocket::bind("0.0.0.0:0")).expect("a port is free");
    udp.send_to(b"calisto", at).expect("there is a way");
    chain.wait_for_count("acl", "denied_by_default", |count| count >= 1);
}

#[test]
fn an_acl_that_guards_the_host_keeps_from_it_what_its_rules_deny_and_nothing_else() {
    let line = two_links();
    let [west, middle] = [line.host(0), line.host(1)];
    let listen = |port: u16| {
        let any = std::net::SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
        middle.enter(move || std::net::TcpListener::bind(any)).expect("the port is free")
    };
    let _listeners = [22, 8080].map(listen);
    let reaches = |at: std::net::IpAddr, port: u16| {
        let limit = std::time::Duration::from_millis(400);
        west.enter(|| std::net::TcpStream::connect_timeout(&(at, port).into(), limit)).is_ok()
    };
    let text = |host: &str| {
        format!(
            "{ROUTER}[[function]]\nkind = \"acl\"\ndefault = \"permit\"\n{host}[[function.rules]]\n\
             action = \"deny\"\nprotocol = \"tcp\"\ndestination_port = \"1-1023\"\n[[function]]\n\
             kind = \"router\"\n"
        )
    };
    let own = [whole::four(0, 2), whole::four(1, 1), whole::six(0, 2), whole::six(1, 1)];
    let chain = NfRun::start(middle, &text("host = \"judge\"\n"), &[]);
    for at in own {
        assert!(reaches(at, 8080), "{at}: permitted");
        assert!(!reaches(at, 22), "{at}: denied");
    }
    assert!(chain.count("acl", "rule_1") >= 4, "{:?}", chain.figures());
    // An address that comes later is guarded as well.
    middle.ip("addr add 10.99.0.1/32 dev lo");
    let new = std::net::Ipv4Addr::new(10, 99, 0, 1).into();
    wait_for("the guard of a new address", || {
        if reaches(new, 8080) && !reaches(new, 22) { Ok(()) } else { Err("not yet".to_owned()) }
    });
    chain.reload(&text(""), &[]).expect("it is right");
    wait_for("the kernel to have its packets", || {
        if reaches(own[0], 22) { Ok(()) } else { Err("not yet".to_owned()) }
    });
    chain.reload(&text("host = \"judge\"\n"), &[]).expect("it is right");
    wait_for("the guard", || if reaches(own[0], 22) { Err("not yet".to_owned()) } else { Ok(()) });
}

#[test]
fn a_packet_is_traced_where_the_chain_has_no_interfaces() {
    let line = Line::new(1, 1500);
    let file = std::env::temp_dir().join(format!("calisto-trace-{}.toml", std::process::id()));
    let text = "name = \"far\"\n[[slice]]\nports = [\"xdp:far0\", \"xdp:far1\"]\n[[function]]\nkind = \"acl\"\n\
         [[function.rules]]\naction = \"permit\"\nprotocol = \"udp\"\n[[function]]\nkind = \"router\"\n";
    std::fs::write(&file, text).expect("the temporary folder is ours");
    let file = file.to_str().expect("a plain path");
    // UDP from 10.0.0.1 to 10.0.1.2, and the same as TCP.
    let udp = "4500001c00000000401165cf 0a000001 0a000102 1388 0050 0008 0000";
    let tcp = "4500001c00000000400665da 0a000001 0a000102 1388 0050 0008 0000";
    let words = ["trace", file, "--hex", udp, "--hex", tcp, "--address", "far0=10.0.0.254/24"];
    let words = [&words[..], &["--address", "far1=10.0.1.254/24"]].concat();
    let (status, told, said) = run(&mut nf(line.host(0), &words));
    assert!(status.success(), "{told}{said}");
    for part in [
        "packet 1 by far0 (by which its sender is reached): 10.0.0.1:5000 > 10.0.1.2:80 udp, ttl 64",
        "   1 acl                next             permitted, rule_1\n",
        "10.0.1.2 by far1 is asked for, and taken to be at",
        "  leaves by far1\n\npacket 2 by far0",
        "   1 acl                drop             denied_by_default\n  dropped by acl\n",
    ] {
        assert!(told.contains(part), "{part:?} is not in\n{told}");
    }
    assert!(said.contains("link addresses of far0, far1 are made up"), "{said}");
    let (_, told, _) = run(&mut nf(line.host(0), &[&words[..], &["-j"]].concat()));
    let ends: Vec<serde_json::Value> =
        told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(ends[0]["ways"][1]["end"]["leaves"], "far1", "{told}");
    assert_eq!(ends[1]["ways"][0]["end"]["dropped"], "acl", "{told}");
    let _ = std::fs::remove_file(file);
}

#[test]
fn a_policer_lets_a_real_transfer_pass_and_cuts_what_is_too_much() {
    let line = two_links();
    let text = format!(
        "{ROUTER}[[function]]\nkind = \"policer\"\n[[function.classes]]\nprotocol = \"udp\"\nrate_mbit = 1\n\
         burst_kib = 16\n[[function]]\nkind = \"router\"\n"
    );
    let chain = NfRun::start(line.host(1), &text, &[]);
    let [west, east] = [line.host(0), line.host(2)];
    Transfer::start(west, east, whole::four(1, 2), 4 << 20).finish();
    assert_eq!(chain.count("policer", "exceeded"), 0, "TCP is of no class");
    let udp = west.enter(|| std::net::UdpSocket::bind("0.0.0.0:0")).expect("a port is free");
    for _ in 0..200 {
        udp.send_to(&[7; 1000], (whole::four(1, 2), 9)).expect("there is a way");
    }
    // 16 of 1000 bytes at once, and 125 a second.
    wait_for("packets that exceed the rate", || {
        let [passed, exceeded] = ["passed", "exceeded"].map(|name| chain.count("policer", name));
        let is_cut = passed >= 15 && exceeded >= 50;
        if is_cut { Ok(()) } else { Err(format!("{passed} passed, {exceeded} exceeded")) }
    });
}

/// Keys of a tunnel between gateways at 10.90.1.1 (`is_west`) and 10.90.1.2.
fn keys(is_west: bool, algorithm: &str) -> String {
    let ends = [
        ("10.90.1.1", "10.90.0.0/24", "fd90:0::/64"),
        ("10.90.1.2", "10.90.2.0/24", "fd90:2::/64"),
    ];
    let [here, there] = if is_west { ends } else { [ends[1], ends[0]] };
    let (bytes, auth) = match algorithm {
        "aes-128-gcm" => (20, 0),
        "aes-128-cbc-hmac-sha1" => (16, 20),
        _ => (16, 32),
    };
    // Any bytes that are not too regular to be keys.
    let drawn = |seed: u32, bytes: u32| -> String {
        let byte =
            |at: u32| (at + seed).wrapping_mul(0x9e37_79b1).wrapping_mul(at + 7 * seed) >> 13;
        (0..bytes).map(|at| format!("{:02x}", byte(at) as u8)).collect()
    };
    let direction = |name: &str, seed: u32| {
        let mut text =
            format!("{name}_spi = {}\n{name}_key = {:?}\n", 1000 + seed, drawn(seed, bytes));
        if auth > 0 {
            text.push_str(&format!("{name}_auth = {:?}\n", drawn(seed + 100, auth)));
        }
        text
    };
    // Whom errors about packets that are too long for the tunnel come from.
    let own = if is_west { ["10.90.0.2", "fd90:0::2"] } else { ["10.90.2.1", "fd90:2::1"] };
    let (out, back) = if is_west { (3, 5) } else { (5, 3) };
    format!(
        "[[tunnel]]\nname = \"t\"\naddress = {own:?}\nlocal = {:?}\nremote = {:?}\nlocal_networks = [{:?}, {:?}]\n\
         remote_networks = [{:?}, {:?}]\nalgorithm = {algorithm:?}\n{}{}",
        here.0,
        there.0,
        here.1,
        here.2,
        there.1,
        there.2,
        direction("out", out),
        direction("in", back)
    )
}

#[test]
fn tcp_of_linux_goes_through_a_tunnel_between_two_gateways() {
    let text = format!(
        "{ROUTER}[[function]]\nkind = \"esp\"\nkeys = \"keys\"\n[[function]]\nkind = \"router\"\n"
    );
    let line = Line::new(4, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(3).default_route(2, 1, "west");
    line.host(1).default_route(1, 2, "east");
    line.host(2).default_route(1, 1, "west");
    for algorithm in ["aes-128-gcm", "aes-128-cbc-hmac-sha256", "aes-128-cbc-hmac-sha1"] {
        let gateway = |host: usize| {
            NfRun::start(line.host(host), &text, &[("keys", &keys(host == 1, algorithm))])
        };
        let gateways = [gateway(1), gateway(2)];
        let [west, east] = [line.host(0), line.host(3)];
        Transfer::start(west, east, whole::four(2, 2), 2 << 20).finish();
        Transfer::start(east, west, whole::six(0, 1), 2 << 20).finish();
        for gateway in &gateways {
            let figures = gateway.figures();
            for counter in ["sealed", "opened"] {
                assert!(gateway.count("esp", counter) > 500, "{algorithm}: {figures:?}");
            }
            for counter in ["bad_icv", "replayed", "unprotected", "selector_mismatch"] {
                assert_eq!(gateway.count("esp", counter), 0, "{algorithm}: {figures:?}");
            }
        }
    }
}

#[test]
fn a_reload_whose_rules_make_no_filter_changes_nothing_and_the_chain_goes_on() {
    let line = two_links();
    let middle = line.host(1);
    let text = |rules: u16| {
        let rule = |port: u16| {
            format!(
                "[[function.rules]]\naction = \"deny\"\nprotocol = \"udp\"\nsource = \"10.{}.0.0/16\"\n\
                 destination_port = {port}\n",
                port % 200
            )
        };
        let rules: String = (1..=rules).map(rule).collect();
        format!(
            "{ROUTER}[[function]]\nkind = \"acl\"\ndefault = \"permit\"\nhost = \"judge\"\n{rules}\
             [[function]]\nkind = \"router\"\n"
        )
    };
    let chain = NfRun::start(middle, &text(1), &[]);
    let before = chain.figures();
    let names = |figures: &Figures| {
        let groups = figures.slices.iter().flat_map(|slice| &slice.groups);
        let counters = groups.filter(|group| group.name == "acl").flat_map(|group| &group.counters);
        counters.map(|counter| counter.name.clone()).collect::<Vec<_>>()
    };
    // More than the hook can run; and more than any filter may have.
    for rules in [400, 1500] {
        let refused = chain.reload(&text(rules), &[]).expect_err("nobody could run that filter");
        assert!(refused.contains("acl") && refused.contains("instructions"), "{refused}");
        let now = chain.figures();
        assert_eq!(now.slices[0].filter, before.slices[0].filter, "{rules}");
        assert_eq!(names(&now), names(&before), "the functions are those of before");
        let file = format!("name = \"edge\"\n{}", text(rules));
        let file = chain::file::ChainFile::parse(&file, "edge.toml").expect("it is right");
        let checked = middle.enter(|| chain::check_here(&file)).expect_err("it is looked at here");
        assert!(checked.to_string().contains("instructions"), "{checked}");
    }
    // Another address makes another filter of the rules that are in force.
    middle.ip("addr add 10.99.0.1/32 dev lo");
    wait_for("the filter of a new address", || match chain.figures().slices[0].filter.clone() {
        Some(filter) if filter.contains("10.99.0.1") => Ok(()),
        filter => Err(format!("{filter:?}")),
    });
    let file = format!("name = \"edge\"\n{}", text(1));
    let file = chain::file::ChainFile::parse(&file, "edge.toml").expect("it is right");
    middle.enter(|| chain::check_here(&file)).expect("what runs is no reason to refuse it");
}

#[test]
fn copies_of_what_is_chosen_come_to_whoever_listens_and_the_packets_arrive_as_ever() {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let chain = NfRun::start(
        middle,
        "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"mirror\"\nto = \"west\"\n\
         protocol = \"tcp\"\n[[function]]\nkind = \"router\"\n",
        &[],
    );
    let came_to = middle.enter(|| sys::interface::by_name("east")).expect("it is there").mac;
    let mut wire = Frames::new(west, "east");
    Transfer::start(east, west, four(0, 1), 1 << 20).finish();
    let copies: Vec<Vec<u8>> =
        wire.come().into_iter().filter(|frame| frame[..6] == came_to).collect();
    // As they came to the middle: with all of their hops.
    assert!(copies.len() > 50, "{} copies", copies.len());
    assert!(copies.iter().all(|copy| copy[12..14] == [8, 0] && copy[23] == 6 && copy[22] == 64));
    let mirrored = chain.count("mirror", "mirrored");
    assert!(
        mirrored > 700 && chain.count("router", "forwarded") > mirrored,
        "{:?}",
        chain.figures()
    );
}
