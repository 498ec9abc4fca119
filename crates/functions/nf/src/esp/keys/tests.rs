//! Files that are right, and all the ways to get one wrong.

use super::*;
use crate::esp::Gateway;
use base::Nanos;

const KEY: &str = "06a9214036b8a15b512e03d534120006c286711e";
const OTHER: &str = "90d382b410eeba7ad938c46cec1a82bf8c12409a";

fn good() -> String {
    let mut lines: Vec<String> = EXAMPLE.lines().map(str::to_owned).collect();
    for line in &mut lines {
        if line.starts_with("out_key") {
            *line = format!("out_key = \"{KEY}\"");
        } else if line.starts_with("in_key") {
            *line = format!("in_key = \"{OTHER}\"");
        }
    }
    lines.join("\n")
}

fn refused(text: &str) -> String {
    match parse(text) {
        Ok(tunnels) => match Gateway::new(tunnels, Nanos::ZERO) {
            Ok(_) => panic!("taken: {text}"),
            Err(bad) => bad.to_string(),
        },
        Err(bad) => bad.to_string(),
    }
}

#[test]
fn example_is_a_tunnel_once_its_keys_are_drawn() {
    let tunnels = parse(&good()).expect("the example is right but for its keys");
    let [tunnel] = tunnels.as_slice() else { panic!("{tunnels:?}") };
    assert_eq!(tunnel.name, "branch");
    assert_eq!((tunnel.outbound.spi, tunnel.inbound.spi), (0x1001, 0x1002));
    assert_eq!(tunnel.outbound.secret.salt(), [0xc2, 0x86, 0x71, 0x1e]);
    assert_eq!(tunnel.outbound.secret.aes()[..2], [0x06, 0xa9]);
    assert_eq!((tunnel.mtu, tunnel.replay_window, tunnel.is_extended), (1500, 4096, false));
    // 20 of IP, 8 of ESP, 8 of IV, 16 of ICV leave 1448; two of them are the trailer's.
    assert_eq!(tunnel.inner_mtu(), 1446);
    Gateway::new(tunnels, Nanos::ZERO).expect("one tunnel contradicts no other");
    assert!(refused(EXAMPLE).starts_with("line 10: aes-128-gcm: `key` is all zero"));
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (from, to, says) in [
        ("local = \"192.0.2.1\"", "local = \"x\"", "line 3: `local` is an address"),
        (
            "local = \"192.0.2.1\"",
            "local = \"fd00::1\"",
            "tunnel `branch`: `local` and `remote` are of different",
        ),
        ("local = \"192.0.2.1\"", "local = \"192.0.2.2\"", "two hosts"),
        ("10.1.0.0/16", "10.1.0.1/16", "line 5: `local_networks` is a list of networks"),
        ("10.1.0.0/16", "fd01::/16", "no IP version in common"),
        ("[\"10.1.0.0/16\"]", "[]", "`local_networks` must name 1 to 64"),
        ("\"aes-128-gcm\"", "\"des\"", "line 7: `algorithm` is one of \"aes-128-cbc-hmac-sha1\""),
        ("0x1001", "0xff", "SPI 255 is reserved"),
        ("0x1001", "0x100000000", "line 9: `out_spi` is a number"),
        ("0x1001", "-1", "line 9: `out_spi` is a number"),
        ("out_spi = 0x1001", "", "line 1: this tunnel has no `out_spi`"),
        ("name", "nam", "line 2: a tunnel has no such key; keys are name, local"),
        ("branch", "a b", "line 2: `name` has 1 to 64"),
        ("[[tunnel]]", "[tunnel]", "nothing here but `[[tunnel]]`s"),
        ("[[tunnel]]", "mtu = 100000\n[[tunnel]]", "line 1: there is nothing here but"),
        ("out_spi", "mtu = 100\nout_spi", "`mtu` must be at least 576"),
        ("out_spi", "mtu = 100000\nout_spi", "line 9: `mtu` is a number"),
        ("out_spi", "replay_window = 1\nout_spi", "it may be 64 to 1048576 packets"),
        ("out_spi", "extended = 1\nout_spi", "line 9: `extended` is true or false"),
        ("out_spi", "address = \"10.1.0.1\"\nout_spi", "line 9: `address` is a list of addresses"),
        ("branch\"", "branch", "line 2: this is not TOML"),
        (OTHER, KEY, "both directions have the same key"),
    ] {
        let text = good().replacen(from, to, 1);
        assert_ne!(text, good(), "{from}");
        let sentence = refused(&text);
        assert!(sentence.contains(says), "{sentence:?} instead of {says:?}");
    }
    assert_eq!(refused(""), "there is no `[[tunnel]]` in it");
    assert!(refused(&" ".repeat(FILE_BYTES_MAX + 1)).contains("longer than"));
}

#[test]
fn two_tunnels_must_differ_in_what_tells_them_apart() {
    let twice = format!("{}\n{}", good(), good().replace("branch", "other"));
    assert!(refused(&twice).contains("packets with SPI 0x1002 come for tunnel `branch` already"));
    let keys = twice.replacen("0x1002", "0x1003", 1);
    assert!(refused(&keys).contains("tunnel `other`: another tunnel sends with the same key"));
}

#[test]
fn no_message_repeats_a_key_wherever_it_stands() {
    let broken = [
        good().replacen(KEY, &KEY[1..], 1),
        good().replacen(KEY, &format!("{KEY}zz"), 1),
        good().replacen(
            &format!("\"{KEY}\""),
            &KEY[..18].replace(|c: char| !c.is_ascii_digit(), "1"),
            1,
        ),
        good().replacen("out_key = ", "out_kee = ", 1),
        good().replacen("\"branch\"", &format!("\"{KEY}!\""), 1),
        good().replacen("192.0.2.1", KEY, 1),
        good().replacen(&format!("\"{KEY}\""), KEY, 1),
        good().replacen("out_key = ", "", 1),
        good().replacen("out_key = ", &format!("{KEY} = "), 1),
    ];
    for text in broken {
        let said = format!("{0} {0:?}", parse(&text).expect_err("it is broken"));
        assert!(!said.contains(&KEY[2..10]) && !said.contains("921403"), "{said}");
    }
}
