//! Real namespaces: these tests need root, and fail with the reason where it is missing.

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use sys::ethtool::{self, Offload};

use super::*;

fn bed(config: TestbedConfig) -> Testbed {
    Testbed::new(config).unwrap_or_else(|error| panic!("{error}"))
}

fn plain() -> Testbed {
    bed(TestbedConfig::default())
}

fn names(bed: &Testbed) -> [String; 2] {
    [bed.client().namespace().to_owned(), bed.server().namespace().to_owned()]
}

fn is_there(namespace: &str) -> bool {
    Path::new("/run/netns").join(namespace).exists()
}

fn socket(side: &Side, address: IpAddr) -> UdpSocket {
    let bind = || {
        let socket = UdpSocket::bind(SocketAddr::new(address, 0)).expect("the address is ours");
        let timeout = Some(Duration::from_secs(10));
        socket.set_read_timeout(timeout).expect("the timeout is not zero");
        socket
    };
    side.enter(bind).expect("the namespace is there")
}

/// Sends there and back again; what came back.
fn echo(bed: &Testbed, client: IpAddr, server: IpAddr) -> Vec<u8> {
    let client = socket(bed.client(), client);
    let server = socket(bed.server(), server);
    let there = server.local_addr().expect("it is bound");
    client.send_to(b"there and back", there).expect("the wire is up");
    let mut buffer = [0; 64];
    let (length, from) = server.recv_from(&mut buffer).expect("it arrives");
    server.send_to(&buffer[..length], from).expect("the wire is up");
    let (length, from) = client.recv_from(&mut buffer).expect("it comes back");
    assert_eq!(from, there);
    buffer[..length].to_vec()
}

fn output(side: &Side, program: &str, arguments: &[&str]) -> String {
    let output = side.command(program).args(arguments).output().expect("it can run");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts `shell` and makes it wait for ten minutes; returns once it runs.
fn stay(shell: &mut Command) -> Child {
    shell.args(["-c", "echo in; exec sleep 600"]).stdout(Stdio::piped());
    let mut child = shell.spawn().expect("ip and sh are there");
    let mut said = [0; 3];
    let mut output = child.stdout.take().expect("it is piped");
    output.read_exact(&mut said).expect("it says that it is inside");
    child
}

#[test]
fn a_datagram_goes_there_and_back() {
    let bed = plain();
    let (client, server) = (bed.client().ipv4().into(), bed.server().ipv4().into());
    assert_eq!(echo(&bed, client, server), b"there and back");
}

#[test]
fn a_datagram_goes_there_and_back_over_ipv6_at_once() {
    let bed = bed(TestbedConfig { ipv6: true, ..TestbedConfig::default() });
    let (client, server) = (bed.client().ipv6().into(), bed.server().ipv6().into());
    assert_eq!(echo(&bed, client, server), b"there and back");
    let (client, server) = (bed.client().ipv4().into(), bed.server().ipv4().into());
    assert_eq!(echo(&bed, client, server), b"there and back");
}

#[test]
fn dropping_a_bed_removes_both_namespaces() {
    let bed = plain();
    let names = names(&bed);
    assert!(names.iter().all(|name| is_there(name)));
    drop(bed);
    assert!(!names.iter().any(|name| is_there(name)));
}

#[test]
fn a_panic_removes_both_namespaces() {
    let mut names = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let bed = plain();
        names = Some(self::names(&bed));
        // Without the message that a panic prints: this one is meant.
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    let names = names.expect("the bed was made");
    assert!(!names.iter().any(|name| is_there(name)));
}

/// Set for the process that [`ctrl_c_removes_both_namespaces`] starts.
const HOLD: &str = "CALISTO_TESTBED_HOLD";

#[test]
fn ctrl_c_removes_both_namespaces() {
    if std::env::var_os(HOLD).is_some() {
        return hold_a_bed_until_interrupted();
    }
    let this_test = "tests::ctrl_c_removes_both_namespaces";
    let mut holder = Command::new(std::env::current_exe().expect("proc is there"));
    holder.args(["--exact", this_test, "--nocapture"]).env(HOLD, "1");
    let mut holder = holder.process_group(0).stdout(Stdio::piped()).spawn().expect("it is us");
    let output = BufReader::new(holder.stdout.take().expect("it is piped"));
    let mut output = output.lines().map(|line| line.expect("it prints text"));
    let names = output.find_map(|line| line.split_once("holding ").map(|(_, n)| n.to_owned()));
    let names = names.expect("it says which namespaces it has made");
    let names: Vec<&str> = names.split(' ').collect();
    assert!(names.len() == 2 && names.iter().all(|name| is_there(name)), "{names:?}");

    // A terminal sends the signal to the whole foreground group.
    let group = Pid::from_raw(holder.id().cast_signed()).expect("no pid is zero");
    rustix::process::kill_process_group(group, Signal::INT).expect("it is ours");
    let rest: Vec<String> = output.collect();

    let status = holder.wait().expect("it is our child");
    assert!(status.success(), "{status}: {rest:?}");
    assert!(!names.iter().any(|name| is_there(name)));
}

fn hold_a_bed_until_interrupted() {
    on_interrupt().expect("the kernel lets us");
    let bed = plain();
    println!("holding {}", names(&bed).join(" "));
    while !sys::signal::stop_requested() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_bed_that_cannot_be_finished_leaves_nothing() {
    // More queues than the kernel grants a veth (4096).
    let config = TestbedConfig { queues: 1_000_000, ..TestbedConfig::default() };
    let error = Testbed::new(config).expect_err("too many").to_string();
    assert!(error.contains("numrxqueues 1000000"), "{error}");
    let name = error.split_whitespace().find(|word| word.starts_with("calisto-"));
    assert!(!is_there(name.expect("the error names the whole command")));
}

#[test]
fn two_beds_with_the_same_addresses_do_not_meet() {
    let beds = [plain(), plain()];
    let [one, two] = beds.each_ref().map(|bed| {
        let (client, server) = (bed.client().ipv4().into(), bed.server().ipv4().into());
        assert_eq!(echo(bed, client, server), b"there and back");
        names(bed)
    });
    assert!(one.iter().all(|name| !two.contains(name)));
    let [first, second] = beds;
    drop(first);
    assert!(two.iter().all(|name| is_there(name)), "the other one stays");
    drop(second);
    assert!(!two.iter().any(|name| is_there(name)));
}

#[test]
fn beds_of_a_dead_process_are_removed_and_their_processes_with_them() {
    // Alive until the bed is complete: the other tests remove the beds of the dead, too.
    let mut maker = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat is there");
    let namespace = format!("calisto-{}-0-client", maker.id());
    ip::ip(["netns", "add", &namespace]).expect("we are root");
    let mut left = Command::new("ip");
    left.args(["netns", "exec", &namespace]);
    let mut left = stay(left.arg("sh"));
    drop(maker.stdin.take());
    maker.wait().expect("it is our child");

    let _next = plain();

    assert!(!is_there(&namespace));
    left.wait().expect("it has been ended, or this test would take ten minutes");
}

#[test]
fn beds_of_a_living_process_stay() {
    let bed = plain();
    let stale = remove_stale().expect("we are root");
    let names = names(&bed);
    assert!(names.iter().all(|name| is_there(name) && !stale.contains(name)));
}

#[test]
fn a_process_left_in_a_bed_ends_with_it() {
    let bed = plain();
    let mut left = stay(&mut bed.server().command("sh"));
    drop(bed);
    let status = left.wait().expect("it is our child");
    assert!(!status.success(), "it was ended: {status}");
}

#[test]
fn both_ends_have_the_queues_and_the_mtu_that_were_asked_for() {
    let bed = bed(TestbedConfig { queues: 3, mtu: 3000, ..TestbedConfig::default() });
    for side in [bed.client(), bed.server()] {
        let interface = side.interface();
        let channels = side.enter(|| ethtool::channels(interface)).expect("it is there");
        let channels = channels.expect("a veth tells its channels");
        assert_eq!((channels.rx, channels.tx), (3, 3));
        let link = output(side, "ip", &["link", "show", "dev", interface]);
        assert!(link.contains("mtu 3000") && link.contains(",UP"), "{link}");
    }
}

#[test]
fn offloads_are_off_unless_asked_for() {
    for offloads in [false, true] {
        let bed = bed(TestbedConfig { offloads, ..TestbedConfig::default() });
        for side in [bed.client(), bed.server()] {
            let interface = side.interface();
            for offload in [Offload::Tso, Offload::Gso, Offload::TxChecksum] {
                let on = side.enter(|| ethtool::get(interface, offload)).expect("it is there");
                assert_eq!(on.expect("a veth has it"), offloads, "{offload}");
            }
        }
    }
}

#[test]
fn a_new_bed_is_silent() {
    let bed = plain();
    let (client, server) = (bed.client().ipv4().into(), bed.server().ipv4().into());
    echo(&bed, client, server);
    let link = output(bed.server(), "ip", &["-s", "link", "show", "dev", "veth0"]);
    // Two lines below the heading of each direction: bytes, packets, …
    let packets = |heading: &str| {
        let mut lines = link.lines().skip_while(|line| !line.trim().starts_with(heading)).skip(1);
        lines.next().and_then(|line| line.split_whitespace().nth(1)).map(str::to_owned)
    };
    assert_eq!(packets("RX:").as_deref(), Some("1"), "only the echo's own packets: {link}");
    assert_eq!(packets("TX:").as_deref(), Some("1"), "only the echo's own packets: {link}");
}

#[test]
fn work_inside_sees_the_interfaces_of_the_namespace_and_its_panic_comes_out() {
    let bed = plain();
    let devices = || std::fs::read_to_string("/proc/thread-self/net/dev").expect("proc is there");
    let inside = bed.client().enter(devices).expect("the namespace is there");
    assert!(inside.contains("veth0:"), "{inside}");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        bed.client().enter(|| std::panic::resume_unwind(Box::new("from inside")))
    }));
    let panic = panicked.map(|_: Result<(), _>| ()).expect_err("it panicked");
    assert_eq!(panic.downcast_ref(), Some(&"from inside"));
}

#[test]
fn a_bed_without_ipv6_has_no_ipv6_address_and_one_with_it_has() {
    for ipv6 in [false, true] {
        let bed = bed(TestbedConfig { ipv6, ..TestbedConfig::default() });
        for side in [bed.client(), bed.server()] {
            let addresses = output(side, "ip", &["-6", "address", "show"]);
            assert_eq!(addresses.contains("inet6"), ipv6, "{addresses}");
        }
    }
}

#[test]
fn a_command_inside_keeps_its_exit_code() {
    let bed = plain();
    let mut command = bed.client().command("sh");
    let status = command.args(["-c", "exit 7"]).status().expect("it can run");
    assert_eq!(status.code(), Some(7));
}

#[test]
fn an_impossible_configuration_is_refused_with_what_to_set() {
    let refused = |config: TestbedConfig| Testbed::new(config).expect_err("impossible").to_string();
    let plain = TestbedConfig::default;
    assert!(refused(TestbedConfig { queues: 0, ..plain() }).contains("`queues`"));
    assert!(refused(TestbedConfig { mtu: 67, ..plain() }).contains("68 to 65535"));
    assert!(refused(TestbedConfig { mtu: 1279, ipv6: true, ..plain() }).contains("1280 to 65535"));
}
