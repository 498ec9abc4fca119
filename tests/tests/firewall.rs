//! A stateful firewall between two hosts of Linux, with the programs that people run.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use whole::{Host, Intruder, Line, NfRun, Program, Transfer, four, install, run, six, wait_for};

/// Two hosts with a router's place between them.
fn two_links() -> Line {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    line
}

/// A firewall whose inside is west, with settings, and rules before the one that lets west out.
fn firewall(settings: &str, rules: &str) -> String {
    format!(
        "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"firewall\"\n{settings}\
         [[function.zones]]\nname = \"inside\"\nports = [\"west\"]\n{rules}\
         [[function.rules]]\naction = \"permit\"\nfrom = \"inside\"\n[[function]]\nkind = \"router\"\n"
    )
}

/// A rule about port 8000.
fn rule(action: &str) -> String {
    format!(
        "[[function.rules]]\naction = \"{action}\"\nprotocol = \"tcp\"\ndestination_port = 8000\n"
    )
}

/// A server of files on port 8000 of both versions.
fn server(host: &Host) -> Program {
    let mut server = host.command("python3");
    server.args(["-m", "http.server", "8000", "--bind", "::", "--directory", "/etc/ssl"]);
    Program::spawn(&mut server)
}

/// Whether `curl` gets a page from port 8000 of there.
fn fetched(from: &Host, address: IpAddr) -> bool {
    let mut command = from.command("curl");
    let url = format!("http://{}/", SocketAddr::new(address, 8000));
    let words = ["--silent", "--fail", "--max-time", "2", "--noproxy", "*", &url];
    let (status, out, _) = run(command.args(words));
    status.success() && !out.is_empty()
}

fn wait_until_fetched(from: &Host, address: IpAddr) {
    wait_for("an answer", || {
        fetched(from, address).then_some(()).ok_or_else(|| "none yet".to_owned())
    });
}

fn pinged(from: &Host, address: IpAddr) -> bool {
    let words = ["-c", "2", "-i", "0.2", "-W", "2", &address.to_string()];
    let (status, out, _) = run(from.command("ping").args(words));
    status.success() && out.contains(" 0% packet loss")
}

/// `iperf3` from `from` to a server there, with more words; bytes that came.
fn carried(from: &Host, to: &Host, address: IpAddr, words: &[&str]) -> u64 {
    let mut server =
        Program::spawn(to.command("iperf3").args(["-s", "-1", "--forceflush", "-p", "5210"]));
    server.wait_until_it_says("Server listening");
    let at = address.to_string();
    let client =
        Program::spawn(from.command("iperf3").args(["-c", &at, "-p", "5210", "-J"]).args(words));
    let report: serde_json::Value = serde_json::from_str(&client.succeed()).expect("it is JSON");
    server.succeed();
    let end = &report["end"];
    let came = [&end["sum_received"]["bytes"], &end["sum"]["bytes"]];
    came.iter().find_map(|bytes| bytes.as_u64()).unwrap_or_else(|| panic!("no bytes: {report}"))
}

/// A connection that is quiet.
struct Idle([TcpStream; 2]);

impl Idle {
    fn between(from: &Host, to: &Host, address: IpAddr) -> Self {
        let listener = to.enter(|| TcpListener::bind((address, 0))).expect("it is its address");
        let at = listener.local_addr().expect("it listens");
        let client =
            from.enter(|| TcpStream::connect_timeout(&at, Duration::from_secs(20))).expect("a way");
        let (server, _) = listener.accept().expect("it is there");
        for end in [&client, &server] {
            end.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket has one");
            end.set_nodelay(true).expect("it is TCP");
        }
        Self([client, server])
    }

    fn goes_both_ways(&self) {
        let [client, server] = &self.0;
        for (mut from, mut to) in [(client, server), (server, client)] {
            let mut heard = [0; 5];
            from.write_all(b"still").expect("it is open");
            to.read_exact(&mut heard).expect("it comes");
            assert_eq!(&heard, b"still");
        }
    }
}

#[test]
fn behind_a_firewall_real_programs_reach_out_and_nobody_reaches_in() {
    install(&["curl=curl", "iperf3=iperf3", "ping=iputils-ping"]);
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let chain = NfRun::start(middle, &firewall("", ""), &[]);
    let _servers = [server(west), server(east)];
    for (inside, outside) in [(four(0, 1), four(1, 2)), (six(0, 1), six(1, 2))] {
        wait_until_fetched(west, outside);
        assert!(pinged(west, outside), "{outside} {:?}", chain.figures());
        let before = chain.count("firewall", "denied_by_default");
        assert!(!fetched(east, inside), "{inside} is reached from outside");
        assert!(chain.count("firewall", "denied_by_default") > before);
        assert!(!pinged(east, inside), "{inside} answers those outside");
        // All that real TCP says is of its connection, whichever way the bytes go.
        let bytes = 8 << 20;
        let text = bytes.to_string();
        for words in [&["-n", &text][..], &["-n", &text, "-R"], &["-n", &text, "-P", "4"]] {
            // Whoever receives reads no further once the sender has said that it has sent
            // everything.
            assert!(carried(west, east, outside, words) > 1 << 20, "{words:?}");
        }
        assert!(carried(west, east, outside, &["-u", "-b", "8M", "-n", "200000"]) > 100_000);
        Transfer::start(west, east, outside, 4 << 20).finish();
    }
    assert_eq!(chain.count("firewall", "rule_1"), chain.count("firewall", "opened"));
    for counter in ["invalid_tcp", "invalid_window", "invalid_icmp", "unreadable"] {
        assert_eq!(chain.count("firewall", counter), 0, "{counter}: {:?}", chain.figures());
    }
}

#[test]
fn a_reload_ends_no_connection_that_is_there_and_holds_for_the_next() {
    install(&["curl=curl"]);
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let chain = NfRun::start(middle, &firewall("", ""), &[]);
    let _server = server(east);
    wait_until_fetched(west, four(1, 2));
    let idle = Idle::between(west, east, four(1, 2));
    let transfer = Transfer::start(west, east, four(1, 2), 16 << 20);
    let permitted = chain.count("firewall", "rule_1");
    chain.reload(&firewall("", &rule("deny")), &[]).expect("it is right");
    transfer.finish();
    idle.goes_both_ways();
    assert!(!fetched(west, four(1, 2)), "the new rule denies that");
    assert!(chain.count("firewall", "rule_1") > 0, "{:?}", chain.figures());
    assert_eq!(chain.count("firewall", "rule_2"), permitted, "hits go with what the rule says");
    assert_eq!(chain.count("firewall", "invalid_tcp"), 0, "{:?}", chain.figures());
    let wrong = firewall("", &rule("allow"));
    let said = chain.reload(&wrong, &[]).expect_err("there is no such action");
    assert!(said.contains("permit"), "{said}");
    idle.goes_both_ways();
}

#[test]
fn under_a_flood_that_fills_the_table_connections_in_use_stay_and_new_ones_find_room() {
    install(&["curl=curl"]);
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let text = firewall("connections = 512\n", &rule("permit"));
    let chain = NfRun::start(middle, &text, &[]);
    let _servers = [server(west), server(east)];
    wait_until_fetched(west, four(1, 2));
    wait_until_fetched(east, four(0, 1));
    let idle = Idle::between(west, east, four(1, 2));
    let transfer = Transfer::start(west, east, four(1, 2), 8 << 20);
    let intruder = Intruder::on(east);
    let IpAddr::V4(inside) = four(0, 1) else { unreachable!("it is of version 4") };
    // An open port, which answers all of it; and one that is closed.
    intruder.flood(SocketAddrV4::new(inside, 8000), 6000);
    intruder.flood(SocketAddrV4::new(inside, 8001), 1000);
    chain.wait_for_count("firewall", "connections", |count| count >= 500);
    assert!(chain.count("firewall", "opened") > 1024, "{:?}", chain.figures());
    transfer.finish();
    idle.goes_both_ways();
    wait_until_fetched(west, four(1, 2));
    wait_until_fetched(east, four(0, 1));
    idle.goes_both_ways();
    assert!(chain.count("firewall", "connections") <= 512);
}

#[test]
fn icmp_errors_about_connections_come_through_a_firewall_and_others_do_not() {
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let chain = NfRun::start(middle, &firewall("", ""), &[]);
    // Nobody listens there: the kernel of the host says so, and the socket hears of it.
    let asker = west.enter(|| UdpSocket::bind("0.0.0.0:0")).expect("a port is free");
    asker.connect((four(1, 2), 9)).expect("there is a way");
    asker.set_read_timeout(Some(Duration::from_millis(300))).expect("it has one");
    wait_for("an error", || {
        let _ = asker.send(b"calisto");
        match asker.recv(&mut [0; 8]) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert!(chain.count("firewall", "related") >= 1);
    let stranger = east.enter(|| UdpSocket::bind("0.0.0.0:0")).expect("a port is free");
    stranger.send_to(b"calisto", (four(0, 1), 9)).expect("there is a way");
    chain.wait_for_count("firewall", "denied_by_default", |count| count >= 1);
}
