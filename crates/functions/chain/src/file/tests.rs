//! Files that are read, and files that are refused with file, line, field and what is allowed.

use calisto_nf::PortRange;
use calisto_nf::acl::{Action, Rule};
use calisto_nf::esp::Others;
use proptest::prelude::*;

use super::*;

const WHOLE: &str = r#"
name = "edge"

[[slice]]
ports = ["xdp:eth0@0", "xdp:eth1@1"]
cpus = [3, 1, 1]
frames = 8192
frame_bytes = 2048
filter = "ip or ip6"

[[slice]]
ports = ["xdp:eth0@1", "xdp:eth1@0"]

[[function]]
kind = "esp"
keys = "tunnel.keys"

[[function]]
kind = "router"
routes = "table.txt"
icmp_per_second = 100
when_full = "stop"
rules = "ignore"
"#;

fn refused(text: &str) -> FileError {
    ChainFile::parse(text, "router.toml").expect_err(text)
}

/// A bridge, with `function` behind its kind.
fn bridge(function: &str) -> String {
    format!(
        "name = \"b\"\n[[slice]]\nports = [\"xdp:eth0\", \"xdp:eth1\"]\n[[function]]\nkind = \"l2\"\n{function}"
    )
}

#[test]
fn a_whole_file_is_read_as_it_is_meant() {
    let chain = ChainFile::parse(WHOLE, "router.toml").expect("it is right");
    assert_eq!(chain.name, "edge");
    let [first, second] = &chain.slices[..] else { panic!("{chain:?}") };
    assert_eq!(first.cpus, [1, 3]);
    assert_eq!((first.frames, first.frame_bytes), (Some(8192), Some(2048)));
    assert_eq!(first.filter.as_deref(), Some("ip or ip6"));
    assert_eq!((second.frames, &second.cpus[..]), (None, &[][..]));
    let router = RouterPart {
        routes: Routes::File("table.txt".to_owned()),
        when_full: WhenFull::Stop,
        rules: Rules::Ignore,
        icmp_per_second: Some(100),
        icmp_burst: None,
    };
    let esp = EspPart { keys: "tunnel.keys".to_owned(), others: Others::Drop };
    assert_eq!(chain.functions, [FunctionPart::Esp(esp), FunctionPart::Router(router)]);
}

#[test]
fn the_shortest_router_follows_the_kernel() {
    let text = "name = \"r\"\n[[slice]]\nports = [\"xdp:a\"]\n[[function]]\nkind = \"router\"\n";
    let chain = ChainFile::parse(text, "r.toml").expect("it is right");
    let [FunctionPart::Router(router)] = &chain.functions[..] else { panic!("{chain:?}") };
    assert_eq!(router.routes, Routes::Kernel);
}

#[test]
fn a_bridge_has_links_and_addresses_by_interface() {
    let text = bridge(
        "links = [[\"eth0\", \"eth1\"]]\nsource = { eth1 = \"02:00:00:00:00:0a\" }\n\
         destination = { eth0 = \"ff:ff:ff:ff:ff:ff\" }\n",
    );
    let chain = ChainFile::parse(&text, "b.toml").expect("it is right");
    let [FunctionPart::L2(l2)] = &chain.functions[..] else { panic!("{chain:?}") };
    assert_eq!(l2.links, [LinkPart("eth0".to_owned(), "eth1".to_owned())]);
    assert_eq!(l2.source, [("eth1".to_owned(), [2, 0, 0, 0, 0, 10])]);
    assert_eq!(l2.destination, [("eth0".to_owned(), [255; 6])]);
}

/// `WHOLE` with one line replaced is refused: at which line, about which field, with which words.
#[test]
fn what_is_wrong_is_said_with_file_line_field_and_what_is_allowed() {
    let cases = [
        ("name = \"edge\"", "name = \"ed/ge\"", 2, "name", "1 to 64 letters, digits, - and _"),
        ("name = \"edge\"", "", 1, "name", "is missing: write for example `name = \"edge\"`"),
        ("name = \"edge\"", "nmae = \"edge\"", 1, "name", "is missing"),
        ("name = \"edge\"", "name = \"e\"\nname = \"f\"", 3, "", "not TOML"),
        ("cpus = [3, 1, 1]", "cpus = [1024]", 6, "slice.cpus", "from 0 to 1023"),
        ("cpus = [3, 1, 1]", "cpus = 1", 6, "slice.cpus", "is 1; allowed is a list of 0 to 1024"),
        ("cpus = [3, 1, 1]", "cpu = [1]", 6, "slice.cpu", "is no key: did you mean `cpus`?"),
        ("frames = 8192", "frames = 300", 7, "slice.frames", "so 512 or more"),
        ("frames = 8192", "frames = -1", 7, "slice.frames", "from 256 to 1048576"),
        ("frames = 8192", "frames = 99999999999999999999", 7, "slice.frames", "whole number"),
        ("frame_bytes = 2048", "frame_bytes = 3000", 8, "slice.frame_bytes", "2048 or 4096"),
        ("filter = \"ip or ip6\"", "filter = \"\"", 9, "slice.filter", "1 to 4096 bytes"),
        ("[\"xdp:eth0@1\", \"xdp:eth1@0\"]", "[\"xdp:eth0@1\"]", 11, "slice.ports", "same order"),
        ("[\"xdp:eth0@1\", ", "[\"xdp:eth0\", ", 11, "slice.ports", "belongs to one slice"),
        ("[\"xdp:eth0@1\", ", "[\"xpd:eth0\", ", 12, "slice.ports", "did you mean xdp"),
        ("[\"xdp:eth0@1\", \"xdp:eth1@0\"]", "[]", 12, "slice.ports", "a list of 1 to 64"),
        (
            "kind = \"esp\"",
            "kind = \"ESP\"",
            15,
            "function.kind",
            "\"router\" or \"acl\" or \"policer\"",
        ),
        ("kind = \"esp\"", "kind = \"rooter\"", 15, "function.kind", "did you mean \"router\"?"),
        ("keys = \"tunnel.keys\"", "", 14, "function.keys", "keys = \"tunnel.keys\""),
        (
            "icmp_per_second = 100",
            "icmp_per_second = 1.5",
            21,
            "function.icmp_per_second",
            "is 1.5; allowed is",
        ),
        ("icmp_per_second = 100", "links = []", 21, "function.links", "keys here are kind, routes"),
        (
            "kind = \"router\"\nroutes = \"table.txt\"\nicmp_per_second = 100\nwhen_full = \"stop\"\nrules = \"ignore\"",
            "kind = \"esp\"\nkeys = \"k\"",
            18,
            "function.kind",
            "one esp at most",
        ),
    ];
    for (from, to, line, field, words) in cases {
        let text = WHOLE.replacen(from, to, 1);
        assert_ne!(text, WHOLE, "{from}");
        let error = refused(&text);
        let said = error.to_string();
        assert_eq!((error.line(), error.field()), (Some(line), field), "{to}: {said}");
        assert!(said.starts_with(&format!("router.toml, line {line}: ")), "{said}");
        assert!(said.contains(words), "{to}: {said}");
    }
}

#[test]
fn a_chain_ends_with_who_says_where_packets_leave() {
    let (text, _) = WHOLE.split_once("[[function]]\nkind = \"router\"").expect("it is there");
    let said = refused(text).to_string();
    assert!(said.contains("line 14") && said.contains("put a router or an l2 behind it"), "{said}");
    let turned = format!("{WHOLE}[[function]]\nkind = \"l2\"\nlinks = [[\"eth0\", \"eth1\"]]\n");
    let said = refused(&turned).to_string();
    assert!(said.contains("behind \"router\", which decides about every packet"), "{said}");
}

#[test]
fn a_bridge_joins_ports_that_there_are_and_each_once() {
    for (function, words) in [
        ("links = [[\"eth0\", \"eth2\"]]", "those are eth0, eth1"),
        ("links = [[\"eth0\", \"eth0\"]]", "has eth0 twice"),
        ("links = [[\"eth0\"]]", "two interfaces"),
        ("links = [[\"eth0\", \"eth1\"]]\nsource = { eth1 = \"03:00:00:00:00:01\" }", "group"),
        ("links = [[\"eth0\", \"eth1\"]]\nsource = { eth1 = \"2:0:0:0:0:1\" }", "02:00:00"),
        ("links = [[\"eth0\", \"eth1\"]]\nsource = { lo = \"02:00:00:00:00:01\" }", "no port"),
    ] {
        let said = refused(&bridge(function)).to_string();
        assert!(said.contains(words), "{function}: {said}");
    }
}

/// A router behind a function of that kind and text.
fn before_router(kind: &str, text: &str) -> String {
    format!(
        "name = \"r\"\n[[slice]]\nports = [\"xdp:a\"]\n[[function]]\nkind = {kind:?}\n{text}\
         [[function]]\nkind = \"router\"\n"
    )
}

#[test]
fn rules_and_classes_are_read_as_they_are_meant() {
    let text = before_router(
        "acl",
        "default = \"permit\"\nrules = [{ action = \"deny\", protocol = \"tcp\", \
         source = \"10.0.0.0/8\", destination_port = \"1-1023\" }, { action = \"permit\" }]\n",
    );
    let chain = ChainFile::parse(&text, "r.toml").expect("it is right");
    let FunctionPart::Acl(acl) = &chain.functions[0] else { panic!("{chain:?}") };
    assert_eq!((acl.default, acl.not_ip, acl.rules.len()), (Action::Permit, Action::Permit, 2));
    let Rule { action, selector } = acl.rules[0];
    assert_eq!((action, selector.protocol), (Action::Deny, Some(6)));
    assert_eq!(selector.source, "10.0.0.0/8".parse().ok());
    assert_eq!(selector.destination_ports, PortRange::new(1, 1023));
    let text = before_router(
        "policer",
        "[[function.classes]]\nrate_mbit = 0.5\nprotocol = 17\nsource_port = 53\n\
         [[function.classes]]\nrate_mbit = 800\nburst_kib = 64\nper_source = [32, 64]\n",
    );
    let chain = ChainFile::parse(&text, "r.toml").expect("it is right");
    let FunctionPart::Policer(policer) = &chain.functions[0] else { panic!("{chain:?}") };
    let [slow, fast] = policer.classes[..] else { panic!("{policer:?}") };
    assert_eq!((slow.bytes_per_second, slow.burst_bytes), (62_500, 16 << 10));
    assert_eq!(slow.selector.source_ports, PortRange::new(53, 53));
    assert_eq!((fast.bytes_per_second, fast.burst_bytes), (100_000_000, 64 << 10));
    let bits = fast.per_source.map(|bits| (bits.ipv4_bits, bits.ipv6_bits));
    assert_eq!(bits, Some((32, 64)));
}

#[test]
fn an_acl_guards_the_host_only_where_it_can() {
    let guard = "[[function]]\nkind = \"acl\"\nhost = \"judge\"\n";
    let chain = |slice: &str, last: &str| {
        format!("name = \"c\"\n[[slice]]\nports = {slice}\n{guard}[[function]]\nkind = {last}\n")
    };
    let (ports, router) = ("[\"xdp:eth0\", \"xdp:eth1\"]", "\"router\"");
    let read = ChainFile::parse(&chain(ports, router), "r.toml").expect("it is right");
    assert!(matches!(&read.functions[0], FunctionPart::Acl(acl) if acl.guards_host));
    for (text, part) in [
        (chain(ports, "\"l2\"\nlinks = [[\"eth0\", \"eth1\"]]"), "without a router"),
        (chain(&format!("{ports}\nfilter = \"ip\""), router), "`filter`"),
        (chain("[\"af_packet:eth0\"]", router), "no xdp port"),
    ] {
        let said = refused(&text).to_string();
        assert!(said.contains("`function.host`") && said.contains(part), "{said}");
    }
}

#[test]
fn rules_and_classes_that_make_no_sense_are_named() {
    for (kind, text, line, words) in [
        ("acl", "rules = [{ action = \"drop\" }]\n", 6, "\"permit\" or \"deny\""),
        ("acl", "rules = [{ source = \"10.0.0.0/8\" }]\n", 6, "action = \"permit\""),
        (
            "acl",
            "[[function.rules]]\naction = \"deny\"\nsource = \"10.0.0.1/8\"\n",
            8,
            "10.0.0.0/8",
        ),
        ("acl", "[[function.rules]]\naction = \"deny\"\nprotocol = \"tpc\"\n", 8, "icmp, tcp, udp"),
        ("acl", "[[function.rules]]\naction = \"deny\"\nsource_port = \"9-8\"\n", 8, "8000-8080"),
        (
            "acl",
            "[[function.rules]]\naction = \"deny\"\nprotocol = 1\nsource_port = 8\n",
            6,
            "ports",
        ),
        ("acl", "rules = 1\n", 6, "[[function.rules]]"),
        ("policer", "", 4, "[[function.classes]]"),
        ("policer", "[[function.classes]]\n", 6, "rate_mbit = 100"),
        ("policer", "[[function.classes]]\nrate_mbit = 0\n", 7, "0.001 to 1000000"),
        ("policer", "[[function.classes]]\nrate_mbit = nan\n", 7, "0.001 to 1000000"),
        ("policer", "[[function.classes]]\nrate_mbit = 1\nburst_kib = 1\n", 8, "2 to 4194304"),
        ("policer", "[[function.classes]]\nrate_mbit = 1\nper_source = [33, 64]\n", 8, "[32, 64]"),
        ("esp", "keys = \"k\"\nothers = \"let\"\n", 7, "\"drop\" or \"pass\""),
    ] {
        let error = refused(&before_router(kind, text));
        let said = error.to_string();
        assert!(said.contains(words), "{text}: {said}");
        if error.line().is_some() {
            assert_eq!(error.line(), Some(line), "{text}: {said}");
        }
    }
}

#[test]
fn sections_that_are_missing_or_are_no_tables_are_named() {
    for (text, words) in [
        ("name = \"a\"\n", "`slice` is missing: write `[[slice]]`"),
        ("name = \"a\"\nslice = 1\n", "line 2: `slice` is 1; there may be several"),
        ("name = \"a\"\n[slice]\nports = []\n", "`slice` is a table; there may be several"),
        ("name = \"a\"\nslice = []\n", "write `[[slice]]`"),
        ("\u{0}", "not TOML"),
    ] {
        let said = refused(text).to_string();
        assert!(said.contains(words), "{text:?}: {said}");
    }
}

#[test]
fn a_file_of_more_than_anybody_would_write_is_refused_unread() {
    let said = refused(&"#\n".repeat(FILE_BYTES_MAX)).to_string();
    assert!(said.contains("allowed are 4194304"), "{said}");
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z0-9=\\[\\]\"\\n{}., -]{0,200}") {
        let _ = ChainFile::parse(&text, "f");
    }

    #[test]
    fn no_line_of_a_good_file_can_be_changed_so_that_it_panics(
        at in 0..30_usize, line in "[a-z_]{1,10} = [0-9\\[\\]\"a-z{}-]{0,20}",
    ) {
        let mut lines: Vec<&str> = WHOLE.lines().collect();
        let at = at % lines.len();
        lines[at] = &line;
        let _ = ChainFile::parse(&lines.join("\n"), "f");
    }
}

/// A firewall with a zone and a group.
const FIREWALL: &str = r#"
name = "edge"
[[slice]]
ports = ["xdp:eth0", "xdp:eth1"]
[[function]]
kind = "firewall"
connections = 1000
picks_up = true
[[function.zones]]
name = "inside"
ports = ["eth1"]
[[function.groups]]
name = "servers"
prefixes = ["10.1.0.80/32", "fd01::80/128"]
[[function.rules]]
action = "permit"
from = "inside"
[[function.rules]]
action = "deny"
destination_group = "servers"
protocol = "tcp"
destination_port = 443
[[function]]
kind = "router"
"#;

#[test]
fn a_firewall_has_zones_of_ports_and_rules_about_groups() {
    let chain = ChainFile::parse(FIREWALL, "edge.toml").expect("it is right");
    let FunctionPart::Firewall(part) = &chain.functions[0] else { panic!("{chain:?}") };
    assert_eq!(part.zones, [("inside".to_owned(), vec!["eth1".to_owned()])]);
    let settings = &part.settings;
    assert_eq!((settings.track.connections, settings.track.picks_up), (1000, true));
    assert_eq!((settings.rules[0].from, settings.rules[1].from), (Some(0), None));
    assert_eq!(settings.rules[1].destinations.len(), 2);
    for (from, to, line, words) in [
        ("from = \"inside\"", "from = \"outside\"", 17, "one of inside"),
        ("_group = \"servers\"", "_group = \"hosts\"", 20, "one of servers"),
        ("_group = \"servers\"", "_group = 7", 20, "one of servers"),
        ("protocol = \"tcp\"", "destination = \"10.0.0.0/8\"", 20, "only one of the two"),
        ("protocol = \"tcp\"", "protocol = \"icmp\"", 18, "no ports"),
        ("ports = [\"eth1\"]", "ports = [\"eth2\"]", 5, "no port of the slices"),
        ("ports = [\"eth1\"]", "ports = [\"eth1\", \"eth1\"]", 5, "twice"),
        ("picks_up = true", "picks_up = 1", 8, "true or false"),
        ("connections = 1000", "connections = 0", 7, "from 1 to"),
        ("10.1.0.80/32", "10.1.0.80/33", 14, "a prefix"),
    ] {
        let text = FIREWALL.replacen(from, to, 1);
        assert_ne!(text, FIREWALL, "{from}");
        let said = refused(&text).to_string();
        assert!(said.contains(&format!("line {line}: ")) && said.contains(words), "{to}: {said}");
    }
}

#[test]
fn functions_are_in_the_hook_only_where_the_file_says_so() {
    let with = |hook: &str| WHOLE.replacen("\n\n", &format!("\n{hook}\n"), 1);
    let is_hooked = |hook| ChainFile::parse(&with(hook), "edge.toml").expect("a chain").hook;
    assert!(!is_hooked("") && !is_hooked("hook = \"off\"") && is_hooked("hook = \"auto\""));
    let said = refused(&with("hook = true")).to_string();
    assert!(said.contains("`hook` is true; allowed is \"off\" or \"auto\""), "{said}");
}

#[test]
fn an_address_of_a_nat_is_that_of_no_service_whose_servers_answer_by_themselves() {
    let text = |address: &str, forwarding: &str| {
        format!(
            "name = \"c\"\n[[slice]]\nports = [\"xdp:eth1\", \"xdp:eth2\"]\n[[function]]\nkind = \"nat\"\n\
             outside = [\"eth2\"]\naddresses = [\"192.0.2.7\", \"192.0.2.8\"]\n[[function]]\n\
             kind = \"balancer\"\n[[function.services]]\naddress = \"{address}:80\"\n{forwarding}\n\
             [[function.services.servers]]\naddress = \"10.0.0.1:80\"\n[[function]]\nkind = \"router\"\n"
        )
    };
    let (link, nat) = ("forwarding = \"link\"", "forwarding = \"nat\"");
    let ipip = "forwarding = \"ipip\"\nsource = \"192.0.2.1\"";
    for (address, forwarding, is_right) in [
        ("192.0.2.8", link, false),
        ("192.0.2.8", ipip, false),
        ("192.0.2.8", nat, true),
        ("192.0.2.9", link, true),
    ] {
        let read = ChainFile::parse(&text(address, forwarding), "c.toml");
        assert_eq!(read.is_ok(), is_right, "{address} {forwarding}: {read:?}");
        if let Err(wrong) = read {
            assert_eq!((wrong.line(), wrong.field()), (Some(8), "function.services"), "{wrong}");
        }
    }
}
