//! What a chain says at its start of a kernel that does other things than it, and of one that
//! believes strangers.

use chain::Event;
use whole::{Frames, Host, Line, NfRun, run, wait_for};
use wire::checksum::Sum;

const TEXT: &str =
    "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"router\"\n";

/// Whether a chain on `host` says something with these words.
fn says(host: &Host, words: &str) -> bool {
    let chain = NfRun::start(host, TEXT, &[]);
    chain.said().iter().any(|event| matches!(event, Event::Note(note) if note.contains(words)))
}

/// A router advertisement for fd77:N::/64, which it says is on the link.
fn advertisement(number: u8) -> Vec<u8> {
    const ICMP: u8 = 58;
    let from: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77];
    let to: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut message = vec![134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    message.extend([3, 4, 64, 0xc0, 0, 0, 9, 9, 0, 0, 9, 9, 0, 0, 0, 0]);
    message.extend([0xfd, 0x77, 0, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let bytes = message.len() as u16;
    let sum = Sum::ZERO.pseudo_ipv6(from, to, ICMP, bytes).bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let link = [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x77, 0x86, 0xdd];
    let [b0, b1] = bytes.to_be_bytes();
    let fixed = [0x60, 0, 0, 0, b0, b1, ICMP, 255];
    [&link[..], &fixed, &from, &to, &message].concat()
}

#[test]
fn a_kernel_that_makes_routes_of_what_strangers_advertise_is_told_of() {
    let line = Line::new(3, 1500);
    let middle = line.host(1);
    let mut frames = Frames::new(line.host(0), "east");
    let has_route = |number: u8| {
        let routes = middle.ip("-6 route show");
        routes.contains(&format!("fd77:{number}::/64"))
    };
    // `accept_ra`, `forwarding`, and whether Linux believes it then.
    let cases = [(0, 0, false), (1, 1, false), (1, 0, true), (2, 1, true)];
    for (number, (accepts, forwards, believes)) in (1_u8..).zip(cases) {
        middle.sysctl("ipv6/conf/west/forwarding", &forwards.to_string());
        middle.sysctl("ipv6/conf/west/accept_ra", &accepts.to_string());
        frames.send([advertisement(number)].iter());
        if believes {
            wait_for("the route", || has_route(number).then_some(()).ok_or_else(String::new));
        }
        assert_eq!(says(middle, "accept_ra"), believes, "{accepts} {forwards}");
    }
    // Later ones have come since.
    assert!(!has_route(1) && !has_route(2), "Linux has believed what it should not");
}

#[test]
fn what_guards_the_kernels_forwarding_and_not_a_chains_is_told_of() {
    let line = Line::new(3, 1500);
    let middle = line.host(1);
    let set = |value: &str| {
        for scope in ["all", "west", "east"] {
            middle.sysctl(&format!("ipv4/conf/{scope}/rp_filter"), value);
        }
    };
    set("0");
    for words in ["rp_filter", "IPsec", "nftables"] {
        assert!(!says(middle, words), "{words}");
    }
    set("2");
    middle.ip("xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir fwd action block");
    let rules = "add table inet t; \
                 add chain inet t f { type filter hook forward priority 0; policy drop; }";
    let (status, _, said) = run(middle.command("nft").arg(rules));
    assert!(status.success(), "{said}");
    for words in ["rp_filter", "IPsec", "nftables"] {
        assert!(says(middle, words), "{words}");
    }
}
