//! Name servers and those that ask them, by datagrams and over TCP.

use whole::kernel_udp;

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

/// Datagrams that the kernel's sockets have taken and sent.
fn of_kernel(ground: &Ground) -> [u64; 2] {
    let here = ground.accelerated().here();
    ["InDatagrams", "OutDatagrams"].map(|name| kernel_udp(here, name))
}

#[test]
fn unbound_answers_dig_over_tcp_and_by_datagrams() {
    let ground = Ground::new();
    let settings = settings(&ground);
    let words = ["/usr/sbin/unbound", "-d", "-p", "-c", &settings];
    let server = ground.serve(At::Here, PORT, &words);
    let before = ground.accelerated().carried();
    ask(&ground, (At::Here, At::There), &["+tcp"], ("many.example", MANY));
    ground.was_carried(At::Here, At::There, before, u64::from(MANY) * 16);
    let before = of_kernel(&ground);
    // It lets routers cut its datagrams (IP_PMTUDISC_OMIT).
    ask(&ground, (At::Here, At::There), &["+notcp"], ("few.example", FEW));
    assert_eq!(of_kernel(&ground), before, "datagrams of the kernel");
    ground.accelerated().all_was_accelerated();
    ground.end([server]);
}

#[test]
fn dnsmasq_answers_dig_by_datagrams_from_the_address_that_was_asked() {
    let ground = Ground::new();
    let port = format!("--port={PORT}");
    let records: Vec<String> =
        (0..FEW).map(|at| format!("--host-record=few.example,192.0.2.{at}")).collect();
    let words = ["/usr/sbin/dnsmasq", "-k", "-C", "/dev/null", "-u", "root", "-R", "-h", &port];
    let words: Vec<&str> = words.into_iter().chain(records.iter().map(String::as_str)).collect();
    let server = ground.serve(At::Here, PORT, &words);
    let before = of_kernel(&ground);
    ask(&ground, (At::Here, At::There), &["+notcp"], ("few.example", FEW));
    assert_eq!(of_kernel(&ground), before, "datagrams of the kernel");
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
