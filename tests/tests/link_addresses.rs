//! Link addresses: frames to another host's are not served, and a port's may change.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use testbed::Side;
use whole::{
    Accelerated, Daemon, KernelTcp, Program, Sniffer, Talks, bed, kernel_tcp, run, wait_for,
};

use crate::sockets_death::{PORT, serve};

const PYTHON: &str = "/usr/bin/python3";

/// What nobody has yet.
const OTHER: &str = "02:00:00:00:00:99";
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x99];

fn ip(side: &Side, words: &str) {
    let (status, _, said) = run(side.command("ip").args(words.split(' ')));
    assert!(status.success(), "ip {words}: {said}");
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Has `side` believe that `address` has that link address.
fn believe(side: &Side, address: impl Into<IpAddr>, mac: &str) {
    let address = address.into();
    ip(side, &format!("neighbour replace {address} lladdr {mac} dev veth0 nud permanent"));
}

/// A socket that asks `server`, and what it answers within a moment.
fn ask(side: &Side, server: SocketAddr) -> Option<Vec<u8>> {
    let asked = side.enter(|| {
        let socket = UdpSocket::bind(SocketAddr::from((side.ipv4(), 0))).expect("a free port");
        socket.set_read_timeout(Some(Duration::from_millis(300))).expect("no zero");
        socket.send_to(b"question", server).expect("the wire takes it");
        let mut answer = [0; 64];
        let (len, _) = socket.recv_from(&mut answer).ok()?;
        Some(answer[..len].to_vec())
    });
    asked.expect("the namespace is there")
}

fn wait_for_answer(side: &Side, server: SocketAddr, wanted: &[u8]) {
    wait_for("an answer", || match ask(side, server) {
        Some(answer) if answer == wanted => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

/// `side` hears every frame of the wire, as below a bridge or a capture.
fn hear_all(side: &Side) {
    ip(side, "link set dev veth0 promisc on");
}

#[test]
fn frames_to_another_hosts_link_address_get_no_answer_and_are_counted() {
    for port in ["xdp:veth0,mode=native", "xdp:veth0,mode=generic", "af_packet:veth0"] {
        let bed = bed();
        let (here, there) = (bed.server(), bed.client());
        hear_all(here);
        let listen = format!("udp:{}:7", here.ipv4());
        let config = format!("ports = [\"{port}\"]\nlisten = [\"{listen}\"]\n");
        let daemon = Daemon::start(here, &format!("{config}[workers]\njob = \"echo\"\n"));
        let at = SocketAddr::from((here.ipv4(), 7));
        wait_for_answer(there, at, b"question");
        believe(there, here.ipv4(), OTHER);
        assert_eq!(ask(there, at), None, "{port}");
        wait_for("one that is counted", || match daemon.counter("other_host") {
            1.. => Ok(()),
            count => Err(format!("{count} by {port}")),
        });
        believe(there, here.ipv4(), &text(here.mac()));
        wait_for_answer(there, at, b"question");
    }
}

#[test]
fn a_call_to_another_hosts_link_address_is_neither_taken_nor_refused() {
    for mode in ["native", "generic"] {
        let bed = bed();
        let (here, there) = (bed.server(), bed.client());
        hear_all(here);
        let (port, listen) = (format!("xdp:veth0,mode={mode}"), format!("tcp:{}:8", here.ipv4()));
        let config = format!("ports = [\"{port}\"]\nlisten = [\"{listen}\"]\n");
        let daemon = Daemon::start(here, &format!("{config}[workers]\njob = \"tcp-echo\"\n"));
        let call = || {
            let at = SocketAddr::from((here.ipv4(), 8));
            let wait = Duration::from_millis(300);
            there.enter(|| TcpStream::connect_timeout(&at, wait)).expect("it is there")
        };
        believe(there, here.ipv4(), OTHER);
        let sniffer = Sniffer::new(there);
        assert!(call().is_err(), "{mode}");
        wait_for("one that is counted", || match daemon.counter("other_host") {
            1.. => Ok(()),
            count => Err(format!("{count} in mode {mode}")),
        });
        let from_here = |packet: &&Vec<u8>| packet[6..12] == here.mac();
        let is_ip = |packet: &&Vec<u8>| packet[12..14] == [8, 0];
        let came = sniffer.packets();
        let came = came.iter().filter(from_here).filter(is_ip).count();
        assert_eq!(came, 0, "an answer or a reset in mode {mode}");
        believe(there, here.ipv4(), &text(here.mac()));
        wait_for("a connection", || call().map(drop).map_err(|error| error.to_string()));
    }
}

#[test]
fn connections_outlive_a_changed_link_address_and_what_comes_then_leaves_with_the_new_one() {
    let accelerated = Accelerated::start();
    let (here, there) = (accelerated.here(), accelerated.there());
    let server = serve(&accelerated, "epoll");
    let at = SocketAddr::from((here.ipv4(), PORT));
    let mut talks = Talks::connect(there, 10, at);
    talks.echo(3000);
    let resets = kernel_tcp(here, "OutRsts");
    ip(here, &format!("link set dev veth0 address {OTHER}"));
    believe(there, here.ipv4(), OTHER);
    let sniffer = Sniffer::with_buffer(there, 16 << 20);
    talks.echo(3000);
    let mut more = Talks::connect(there, 10, at);
    more.echo(3000);
    // A call of a program's own leaves before anything has come to the new address by that way.
    let remote = SocketAddr::from((there.ipv4(), 7));
    let _echo = KernelTcp::echo(there, remote);
    let code = "import socket,sys\n\
                s = socket.create_connection((sys.argv[1], 7))\n\
                s.sendall(b'called')\n\
                print(s.recv(6).decode())\n";
    let caller = accelerated.run(&[PYTHON, "-c", code, &there.ipv4().to_string()]);
    assert_eq!(caller.succeed(), "called\n");
    talks.end();
    more.end();
    let calls =
        |packet: &&Vec<u8>| packet[12..14] == [8, 0] && packet[23] == 6 && packet[36..38] == [0, 7];
    let packets = sniffer.packets();
    let from_here = packets.iter().filter(calls);
    let sources: Vec<_> = from_here.map(|packet| packet[6..12].to_vec()).collect();
    assert!(sources.len() > 2, "the caller's segments were heard");
    assert!(sources.iter().all(|source| *source == OTHER_MAC), "{sources:x?}");
    assert_eq!(kernel_tcp(here, "OutRsts"), resets, "the kernel has refused no segment of ours");
    accelerated.all_was_accelerated();
    server.kill();
    accelerated.nothing_is_left();
}

/// A container with a macvlan interface over `side`'s, which answers at port 7 in its own way.
fn container(side: &Side, address: &str) -> Program {
    let code = "import socket,sys,time\n\
                print('is there', flush=True)\n\
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                while True:\n\
                \x20   try:\n\
                \x20       s.bind((sys.argv[1], 7))\n\
                \x20       break\n\
                \x20   except OSError:\n\
                \x20       time.sleep(0.01)\n\
                print('is bound', flush=True)\n\
                while True:\n\
                \x20   _, peer = s.recvfrom(64)\n\
                \x20   s.sendto(b'container', peer)\n";
    let mut command = side.command("unshare");
    let mut container = Program::spawn(command.args(["-n", PYTHON, "-c", code, address]));
    container.wait_until_it_says("is there");
    let pid = container.pid();
    ip(side, "link add inside link veth0 type macvlan mode bridge");
    ip(side, &format!("link set inside netns {pid}"));
    for words in ["link set inside up".to_owned(), format!("address add {address}/24 dev inside")] {
        let mut command = side.command("nsenter");
        command.args(["-t", &pid.to_string(), "-n", "ip"]).args(words.split(' '));
        let (status, _, said) = run(&mut command);
        assert!(status.success(), "{words}: {said}");
    }
    container.wait_until_it_says("is bound");
    container
}

#[test]
fn a_container_over_a_ports_interface_keeps_its_packets_and_a_macvlan_of_the_host_has_none() {
    let bed = bed();
    let (here, there) = (bed.server(), bed.client());
    let config =
        "ports = [\"xdp:veth0\"]\nlisten = [\"udp:0.0.0.0:7\"]\n[workers]\njob = \"echo\"\n";
    let daemon = Daemon::start(here, config);
    let [of_container, of_macvlan] = ["10.77.0.9", "10.77.0.8"];
    let at = |address: &str| SocketAddr::new(address.parse().expect("an address"), 7);
    wait_for_answer(there, SocketAddr::from((here.ipv4(), 7)), b"question");
    let container = container(here, of_container);
    wait_for_answer(there, at(of_container), b"container");
    // The host's own, which it is reached under as by the port's own address.
    ip(here, &format!("link add over link veth0 address {OTHER} type macvlan mode bridge"));
    ip(here, "link set over up");
    ip(here, &format!("address add {of_macvlan}/24 dev over"));
    // The port's interface would answer for it, too.
    believe(there, at(of_macvlan).ip(), OTHER);
    wait_for_answer(there, at(of_macvlan), b"question");
    wait_for_answer(there, at(of_container), b"container");
    assert_eq!(daemon.counter("other_host"), 0, "the kernel has what is another host's");
    container.kill();
}

#[test]
fn a_macvlan_over_the_bridge_that_a_port_is_in_is_the_hosts() {
    let bed = bed();
    let (here, there) = (bed.server(), bed.client());
    for words in [
        "link add bridge0 type bridge",
        "link set veth0 master bridge0",
        "link set bridge0 up",
        &format!("link add over link bridge0 address {OTHER} type macvlan mode bridge"),
        "link set over up",
    ] {
        ip(here, words);
    }
    let at = SocketAddr::from((here.ipv4(), 7));
    let config = format!("ports = [\"xdp:veth0\"]\nlisten = [\"udp:{at}\"]\n");
    let daemon = Daemon::start(here, &format!("{config}[workers]\njob = \"echo\"\n"));
    believe(there, here.ipv4(), OTHER);
    wait_for_answer(there, at, b"question");
    assert_eq!(daemon.counter("other_host"), 0);
}
