//! Real packets between the Linux kernel and the daemon, over every kind of port.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use base::Nanos;
use testbed::{Testbed, TestbedConfig};
use whole::{Daemon, Flows, Intruder, run, wait_for};
use wire::build::UdpPacket;

fn bed(config: TestbedConfig) -> Testbed {
    Testbed::new(config).expect("this test needs root and the ip command")
}

fn echo_config(port: &str, more: &str) -> String {
    format!("ports = [{port:?}]\nlisten = [\"udp:10.77.0.2:7\"]\n{more}")
}

fn until_counted(daemon: &Daemon, counter: &str, count: u64) {
    wait_for(counter, || match daemon.counter(counter) {
        now if now == count => Ok(()),
        now => Err(now.to_string()),
    });
}

fn echo_is_perfect(bed: &Testbed, flows: usize, rounds: usize) {
    let echoed = bed.client().enter(|| {
        let local = "10.77.0.1:0".parse().expect("an address");
        let mut flows = Flows::new(flows, local, "10.77.0.2:7".parse().expect("an address"));
        // While ARP is under way the kernel queues, and may let a later packet overtake.
        flows.run(1, 0);
        flows.run(rounds, 1);
        flows
    });
    echoed.expect("the client's namespace is there").assert_perfect();
}

#[test]
fn xdp_native_and_generic_echo_to_the_kernel_fused_and_threaded() {
    for port in ["xdp:veth0,mode=native", "xdp:veth0,mode=generic"] {
        for arrangement in ["fused", "threads"] {
            let bed = bed(TestbedConfig::default());
            let workers = format!("[workers]\ncount = 3\narrangement = {arrangement:?}\n");
            let daemon = Daemon::start(bed.server(), &echo_config(port, &workers));
            echo_is_perfect(&bed, 40, 25);
            assert_eq!(daemon.counter("dispatched_packets"), 1040, "{port} {arrangement}");
            assert_eq!(daemon.counter("drop_bad_checksum"), 0);
        }
    }
}

#[test]
fn a_queue_other_than_the_first_is_served_too() {
    let bed = bed(TestbedConfig { queues: 2, ..TestbedConfig::default() });
    let config = "ports = [\"xdp:veth0@0\", \"xdp:veth0@1\"]\nlisten = [\"udp:10.77.0.2:7\"]\n";
    let _daemon = Daemon::start(bed.server(), config);
    echo_is_perfect(&bed, 40, 10);
}

#[test]
fn a_veth_of_four_queues_as_ip_makes_it_loses_nothing_and_status_says_its_queues() {
    // Nothing is switched off, nothing is told beforehand: as after `ip link add`.
    let bed = bed(TestbedConfig {
        queues: 4,
        offloads: true,
        static_neighbours: false,
        ..TestbedConfig::default()
    });
    let daemon = Daemon::start(bed.server(), &echo_config("xdp:veth0", "[workers]\ncount = 3\n"));
    echo_is_perfect(&bed, 100, 200);
    assert_eq!(daemon.counter("dispatched_packets"), 100 * 201);
    let status = daemon.calisto("status");
    assert!(status.contains("4 queues"), "{status}");
}

#[test]
fn a_packet_socket_serves_an_address_that_the_kernel_does_not_have() {
    let bed = bed(TestbedConfig { static_neighbours: false, ..TestbedConfig::default() });
    let mut flush = bed.server().command("ip");
    let (status, _, said) = run(flush.args(["addr", "flush", "dev", "veth0"]));
    assert!(status.success(), "{said}");
    let daemon = Daemon::start(bed.server(), &echo_config("af_packet:veth0", ""));
    echo_is_perfect(&bed, 10, 10);
    assert!(daemon.counter("arp_answered") >= 1, "somebody had to answer ARP");
}

#[test]
fn a_tap_joins_the_daemon_to_the_kernel_of_its_own_host() {
    let bed = bed(TestbedConfig::default());
    let config = "ports = [\"tap:tap7,address=10.99.0.1/24,up\"]\nlisten = [\"udp:10.99.0.2:7\"]\n";
    let daemon = Daemon::start(bed.server(), config);
    let echoed = bed.server().enter(|| {
        let local = "10.99.0.1:0".parse().expect("an address");
        let mut flows = Flows::new(10, local, "10.99.0.2:7".parse().expect("an address"));
        // While ARP is under way the kernel queues, and may let a later packet overtake.
        flows.run(1, 0);
        flows.run(10, 1);
        flows
    });
    echoed.expect("the server's namespace is there").assert_perfect();
    assert!(daemon.counter("arp_answered") >= 1);
}

#[test]
fn ipv6_is_echoed_as_ipv4_is() {
    let bed = bed(TestbedConfig { ipv6: true, ..TestbedConfig::default() });
    let address = bed.server().ipv6();
    let config = format!("ports = [\"xdp:veth0\"]\nlisten = [\"udp:[{address}]:7\"]\n");
    let _daemon = Daemon::start(bed.server(), &config);
    let client = bed.client().ipv6();
    let echoed = bed.client().enter(|| {
        let mut flows = Flows::new(10, (client, 0).into(), (address, 7).into());
        flows.run(10, 1);
        flows
    });
    echoed.expect("the client's namespace is there").assert_perfect();
}

#[test]
fn a_checksum_left_open_by_a_kernel_is_accepted_and_a_wrong_one_only_on_a_trusted_link() {
    let bed = bed(TestbedConfig { offloads: true, ..TestbedConfig::default() });
    let destination = "10.77.0.2:7".parse().expect("an address");
    let datagram = UdpPacket {
        source_mac: [0; 6],
        destination_mac: [0; 6],
        source: "10.77.0.1:4000".parse().expect("an address"),
        destination: SocketAddr::V4(destination),
        payload: b"damaged on its way",
        vlan: None,
    };
    let mut wrong = vec![0; datagram.len()];
    datagram.write(&mut wrong).expect("it fits into a packet");
    // Behind the Ethernet header, which the kernel writes.
    let mut wrong = wrong.split_off(14);
    wrong[20 + 6] ^= 0x40;
    let intruder = Intruder::new(bed.client());
    for port in ["xdp:veth0", "af_packet:veth0"] {
        let daemon = Daemon::start(bed.server(), &echo_config(port, ""));
        echo_is_perfect(&bed, 5, 5);
        assert_eq!(daemon.counter("drop_bad_checksum"), 0, "{port}");
        intruder.send_packet(&wrong, destination);
        until_counted(&daemon, "drop_bad_checksum", 1);
    }
    let daemon = Daemon::start(bed.server(), &echo_config("xdp:veth0", "trust_link = true\n"));
    intruder.send_packet(&wrong, destination);
    until_counted(&daemon, "dispatched_packets", 1);
    assert_eq!(daemon.counter("drop_bad_checksum"), 0);
}

#[test]
fn what_is_not_ours_stays_with_the_kernel_while_the_daemon_runs_and_all_does_after_it() {
    let bed = bed(TestbedConfig::default());
    let kernel_echo = |port: u16, requests: usize| {
        let server = bed.server().enter(move || {
            let socket = UdpSocket::bind(("10.77.0.2", port)).expect("the port is free");
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("no zero");
            socket
        });
        let socket = server.expect("the server's namespace is there");
        std::thread::spawn(move || {
            let mut bytes = [0; 256];
            for _ in 0..requests {
                let Ok((len, from)) = socket.recv_from(&mut bytes) else { return };
                let _ = socket.send_to(&bytes[..len], from);
            }
        })
    };
    let ask = |port: u16| {
        let perfect = bed.client().enter(move || {
            let local = "10.77.0.1:0".parse().expect("an address");
            let mut flows = Flows::new(5, local, ([10, 77, 0, 2], port).into());
            flows.run(4, 1);
            flows
        });
        perfect.expect("the client's namespace is there").assert_perfect();
    };
    let mut daemon = Daemon::start(bed.server(), &echo_config("xdp:veth0", ""));
    let thread = kernel_echo(9, 20);
    ask(9);
    thread.join().expect("the kernel's echo has ended");
    assert_eq!(daemon.counter("rx_packets"), 0, "port 9 is not ours and must not reach us");
    daemon.signal(rustix::process::Signal::KILL);
    daemon.wait();
    let thread = kernel_echo(7, 20);
    ask(7);
    thread.join().expect("the kernel's echo has ended");
    // And the daemon comes back at once, as if nothing had been.
    let _daemon = Daemon::start(bed.server(), &echo_config("xdp:veth0", ""));
    echo_is_perfect(&bed, 5, 5);
}

#[test]
fn a_wire_with_delay_and_loss_joins_two_linux_hosts() {
    let (left, right) = (
        bed(TestbedConfig { static_neighbours: false, ..TestbedConfig::default() }),
        bed(TestbedConfig { static_neighbours: false, ..TestbedConfig::default() }),
    );
    // The inner ends of both beds come together in one namespace, with nothing between them.
    let middle = right.server();
    let ip = |side: &testbed::Side, arguments: &str| {
        let (status, _, said) = run(side.command("ip").args(arguments.split(' ')));
        assert!(status.success(), "ip {arguments}: {said}");
    };
    ip(left.server(), &format!("link set veth0 netns {} name left0", middle.namespace()));
    ip(middle, "addr flush dev veth0");
    ip(middle, "link set left0 up");
    for (side, name) in [(left.client(), "veth0"), (middle, "left0")] {
        let wait = || sys::interface::wait_until_operational(name, Nanos::from_secs(20));
        side.enter(wait).expect("the namespace is there").expect("both ends are up");
    }
    ip(right.client(), "addr flush dev veth0");
    ip(right.client(), "addr add 10.77.0.9/24 dev veth0");
    let server = right.client().enter(|| {
        let socket = UdpSocket::bind("10.77.0.9:7").expect("the port is free");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("no zero");
        socket
    });
    let server = server.expect("the namespace is there");
    std::thread::spawn(move || {
        let mut bytes = [0; 256];
        while let Ok((len, from)) = server.recv_from(&mut bytes) {
            let _ = server.send_to(&bytes[..len], from);
        }
    });
    let cross = |options: &str| {
        let mut wire = middle.command(whole::binary("calisto"));
        wire.args(["wire", "af_packet:left0", "af_packet:veth0", "--seconds", "30"]);
        wire.args(options.split(' ')).stdout(std::process::Stdio::null());
        let mut wire = wire.stderr(std::process::Stdio::null()).spawn().expect("calisto is there");
        let crossed = left.client().enter(|| {
            let local = "10.77.0.1:0".parse().expect("an address");
            let mut flows = Flows::new(5, local, "10.77.0.9:7".parse().expect("an address"));
            // The wire comes up, and ARP crosses it, while the first requests are lost.
            let began = std::time::Instant::now();
            while flows.received == 0 && began.elapsed() < Duration::from_secs(10) {
                flows.send_all();
                std::thread::sleep(Duration::from_millis(50));
                flows.receive_all();
            }
            flows.settle();
            let (sent, received) = (flows.sent, flows.received);
            let began = std::time::Instant::now();
            flows.run(1, 0);
            let round_trip = began.elapsed();
            flows.run(19, 5);
            assert_eq!((flows.reordered, flows.corrupt), (0, 0));
            (flows.sent - sent, flows.received - received, round_trip)
        });
        let _ = wire.kill();
        let _ = wire.wait();
        crossed.expect("the namespace is there")
    };
    let (sent, received, round_trip) = cross("--delay 20ms");
    assert_eq!((sent, received), (100, 100), "a perfect wire loses nothing");
    assert!(round_trip >= Duration::from_millis(40), "twice 20 ms, not {round_trip:?}");
    let (sent, received, _) = cross("--loss 30% --seed 7");
    // Both ways: 49 % come back. The test is that many are lost and many are not.
    assert!(received > sent / 5 && received < sent * 4 / 5, "{received} of {sent}");
}
