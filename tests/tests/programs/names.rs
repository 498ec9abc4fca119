//! Name servers and those that ask them, by datagrams and over TCP.

use crate::ground::{At, Ground};

const PORT: u16 = 5300;

/// Addresses of a name that fit into one datagram.
const FEW: u8 = 20;
/// Those of another one, that do not fit into a short one.
const MANY: u8 = 200;

fn settings(ground: &Ground) -> String {
    let folder = ground.path("");
    let names = [("few", FEW), ("many", MANY)].map(|(name, count)| {
        let line = |at: u8| format!(" local-data: \"{name}.example. A 192.0.2.{at}\"\n");
        (0..count).map(line).collect::<String>()
    });
    let settings = format!(
        "server:\n interface: 0.0.0.0\n port: {PORT}\n access-control: 0.0.0.0/0 allow\n \
         chroot: \"\"\n username: \"\"\n directory: \"{folder}\"\n pidfile: \"\"\n \
         use-syslog: no\n do-daemonize: no\n num-threads: 1\n{}",
        names.concat()
    );
    ground.write("unbound.conf", &settings)
}

/// Asks for all addresses of a name, and looks at every one.
fn ask(ground: &Ground, (server, client): (At, At), options: &[&str], (name, count): (&str, u8)) {
    let (port, host) = (PORT.to_string(), format!("@{}", ground.host(server)));
    let words = ["dig", "+short", "+tries=1", "+time=20", "-p", &port, &host];
    let out = ground.run(client, &[&words[..], options, &[name]].concat()).succeed();
    let mut came: Vec<&str> = out.lines().collect();
    came.sort_unstable();
    let mut meant: Vec<String> = (0..count).map(|at| format!("192.0.2.{at}")).collect();
    meant.sort_unstable();
    assert_eq!(came, meant, "{options:?}");
}

#[test]
fn unbound_answers_dig_over_tcp_and_by_the_kernels_datagrams() {
    let ground = Ground::new();
    let settings = settings(&ground);
    let words = ["/usr/sbin/unbound", "-d", "-p", "-c", &settings];
    let server = ground.serve(At::Here, PORT, &words);
    let before = ground.accelerated().carried();
    ask(&ground, (At::Here, At::There), &["+tcp"], ("many.example", MANY));
    ground.was_carried_beside(At::Here, At::There, before, u64::from(MANY) * 16);
    // It wants long datagrams in fragments (IP_PMTUDISC_OMIT): these are the kernel's.
    ask(&ground, (At::Here, At::There), &["+notcp"], ("few.example", FEW));
    let left = ground.accelerated().fallbacks();
    let reasons: Vec<&str> = left.iter().map(|total| total.reason.as_str()).collect();
    assert_eq!(reasons, ["unsupported_option"], "{left:?}");
    ground.end([server]);
}

#[test]
fn dig_asks_over_tcp() {
    let ground = Ground::new();
    let settings = settings(&ground);
    let words = ["/usr/sbin/unbound", "-d", "-p", "-c", &settings];
    let server = ground.serve(At::There, PORT, &words);
    let before = ground.accelerated().carried();
    ask(&ground, (At::There, At::Here), &["+tcp"], ("many.example", MANY));
    ground.was_carried(At::There, At::Here, before, u64::from(MANY) * 16);
    ground.end([server]);
}
