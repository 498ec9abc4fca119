//! A chain gets another file while packets flow: all of it or nothing, and what it had come to
//! stays.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use whole::{Host, Line, NfRun, Program, Transfer, binary, four, run, wait_for};

const SLICE: &str = "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n";
const ROUTER: &str = "[[function]]\nkind = \"router\"\n";

fn line() -> Line {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    line
}

/// A chain that denies TCP to this port, and everything else passes.
fn denying(port: u16) -> String {
    format!(
        "{SLICE}[[function]]\nkind = \"acl\"\ndefault = \"permit\"\n[[function.rules]]\naction = \"deny\"\n\
         protocol = \"tcp\"\ndestination_port = {port}\n{ROUTER}"
    )
}

/// Whether a connection to there is refused by who is there, rather than dropped on its way.
fn is_reached(from: &Host, port: u16) -> bool {
    let at = (four(1, 2), port).into();
    let made = from.enter(|| std::net::TcpStream::connect_timeout(&at, Duration::from_millis(400)));
    made.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

#[test]
fn rules_change_under_a_transfer_and_what_is_wrong_changes_nothing() {
    let line = line();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let chain = NfRun::start(middle, &denying(81), &[]);
    let transfer = Transfer::start(west, east, four(1, 2), 48 << 20);
    assert!(!is_reached(west, 81) && is_reached(west, 82));
    let permitted = chain.count("acl", "permitted");
    chain.reload(&denying(82), &[]).expect("it is right");
    assert!(is_reached(west, 81) && !is_reached(west, 82));
    assert!(chain.count("acl", "permitted") > permitted, "it counts on");
    for (text, says) in [
        (denying(83).replace("deny\"", "dony\""), "dony"),
        (denying(83).replace("[[function]]\nkind = \"router\"", ""), "by which port"),
        (denying(83).replace("xdp:east", "af_packet:east"), "[[slice]]"),
        (denying(83).replace("kind = \"router\"", "kind = \"router\"\nroutes = \"none\""), "none"),
    ] {
        let why = chain.reload(&text, &[]).expect_err("it is wrong");
        assert!(why.contains(says), "{says}: {why}");
        assert!(is_reached(west, 81) && !is_reached(west, 82), "{says}");
    }
    transfer.finish();
    assert_eq!(chain.count("router", "neighbour_failed"), 0);
    chain.end().expect("it was told to end");
}

#[test]
fn routes_of_a_file_change_and_become_the_kernels_and_neighbours_stay_known() {
    let line = line();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    east.ip("addr add 10.99.0.1/32 dev lo");
    let text = format!("{SLICE}{ROUTER}routes = \"table\"\n");
    let links = "10.90.0.0/24 dev west\n10.90.1.0/24 dev east\n";
    let chain = NfRun::start(middle, &text, &[("table", links)]);
    let transfer = Transfer::start(west, east, four(1, 2), 24 << 20);
    let at = (std::net::Ipv4Addr::new(10, 99, 0, 1), 99).into();
    let is_reached = || {
        let made =
            west.enter(|| std::net::TcpStream::connect_timeout(&at, Duration::from_millis(400)));
        made.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    assert!(!is_reached(), "no route leads there");
    let more = format!("{links}10.99.0.0/16 via 10.90.1.2 dev east\n");
    chain.reload(&text, &[("table", &more)]).expect("it is right");
    assert!(is_reached());
    let wrong = format!("{links}10.99.0.0/16 via 10.90.1.2 dev nowhere\n");
    let why = chain.reload(&text, &[("table", &wrong)]).expect_err("there is no such port");
    assert!(why.contains("line 3") && is_reached(), "{why}");
    chain.reload(&text, &[("table", links)]).expect("it is right");
    assert!(!is_reached());
    middle.ip("route add 10.99.0.0/16 via 10.90.1.2");
    chain.reload(&format!("{SLICE}{ROUTER}"), &[]).expect("it is right");
    assert!(is_reached(), "by the kernel's route");
    middle.ip("route del 10.99.0.0/16");
    wait_for("the kernel's routes to be followed", || {
        (!is_reached()).then_some(()).ok_or_else(|| "it is still reached".to_owned())
    });
    transfer.finish();
}

/// Keys of one direction: which ones, and who sends by them.
fn direction(name: &str, which: u32) -> String {
    let byte = |at: u32| (at + which).wrapping_mul(0x9e37_79b1).wrapping_mul(at + 7 * which) >> 13;
    let key: String = (0..20).map(|at| format!("{:02x}", byte(at) as u8)).collect();
    format!("{name}_spi = {}\n{name}_key = {key:?}\n", 1000 + which)
}

/// The keys of a gateway: what it sends and receives by.
fn keys(is_west: bool, sends: u32, receives: u32) -> String {
    let ends = [("10.90.1.1", "10.90.0.0/24"), ("10.90.1.2", "10.90.2.0/24")];
    let [here, there] = if is_west { ends } else { [ends[1], ends[0]] };
    format!(
        "[[tunnel]]\nname = \"t\"\nlocal = {:?}\nremote = {:?}\nlocal_networks = [{:?}]\n\
         remote_networks = [{:?}]\n{}{}",
        here.0,
        there.0,
        here.1,
        there.1,
        direction("out", sends),
        direction("in", receives)
    )
}

#[test]
fn the_keys_of_a_tunnel_change_under_a_transfer_and_no_packet_is_lost_to_that() {
    let text = format!("{SLICE}[[function]]\nkind = \"esp\"\nkeys = \"keys\"\n{ROUTER}");
    let line = Line::new(4, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(3).default_route(2, 1, "west");
    line.host(1).default_route(1, 2, "east");
    line.host(2).default_route(1, 1, "west");
    let [near, far] =
        [(1, true, 3, 5), (2, false, 5, 3)].map(|(host, is_west, sends, receives)| {
            NfRun::start(line.host(host), &text, &[("keys", &keys(is_west, sends, receives))])
        });
    let transfer = Transfer::start(line.host(0), line.host(3), four(2, 2), 32 << 20);
    for round in 0..3 {
        let [old, new] = [10 * round, 10 * (round + 1)];
        // First what is received at both ends, then what is sent.
        near.reload(&text, &[("keys", &keys(true, 3 + old, 5 + new))]).expect("it is right");
        far.reload(&text, &[("keys", &keys(false, 5 + old, 3 + new))]).expect("it is right");
        near.reload(&text, &[("keys", &keys(true, 3 + new, 5 + new))]).expect("it is right");
        far.reload(&text, &[("keys", &keys(false, 5 + new, 3 + new))]).expect("it is right");
    }
    transfer.finish();
    for gateway in [&near, &far] {
        for counter in ["unknown_spi", "bad_icv", "replayed", "too_old", "no_policy"] {
            assert_eq!(gateway.count("esp", counter), 0, "{counter}: {:?}", gateway.figures());
        }
        assert!(gateway.count("esp", "sealed") > 500, "{:?}", gateway.figures());
    }
    let wrong = keys(true, 3, 3);
    let why = near.reload(&text, &[("keys", &wrong)]).expect_err("one key for both directions");
    assert!(why.contains("same key"), "{why}");
    Transfer::start(line.host(0), line.host(3), four(2, 2), 1 << 20).finish();
}

#[test]
fn the_command_reads_its_file_again_at_sighup_and_says_what_came_of_it() {
    let line = line();
    let [west, middle] = [0, 1].map(|number| line.host(number));
    let folder = std::env::temp_dir().join(format!("calisto-reload-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
    let (file, sockets) = (folder.join("edge.toml"), folder.join("sockets"));
    let write = |text: &str| {
        std::fs::write(&file, format!("name = \"edge\"\n{text}")).expect("the folder is ours");
    };
    write(&denying(81));
    let [shown, at] = [&file, &sockets].map(|path| path.to_str().expect("a plain path"));
    let nf = |words: &[&str]| -> Command {
        let mut command = middle.command(binary("calisto"));
        command.args(["nf", "--sockets", at]).args(words);
        command
    };
    let mut chain = Program::spawn(&mut nf(&["run", shown]));
    chain.wait_until_it_says("forwarding between west, east");
    assert!(!is_reached(west, 81));
    write(&denying(82));
    chain.signal(Signal::HUP);
    chain.wait_until_it_says("read again: 2 functions");
    assert!(is_reached(west, 81) && !is_reached(west, 82));
    write("");
    chain.signal(Signal::HUP);
    chain.wait_until_it_says("the chain stays as it was");
    assert!(is_reached(west, 81) && !is_reached(west, 82));
    let (status, out, said) = run(&mut nf(&["stats", "edge"]));
    assert!(status.success() && out.contains("rule_1"), "{out}{said}");
    chain.signal(Signal::INT);
    assert!(chain.end().status.success());
    let _ = std::fs::remove_dir_all(&folder);
}
