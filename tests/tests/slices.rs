//! Slices, applications and the kernel on one NIC: each has its packets, and none needs the others.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use base::Nanos;
use calisto_slice::{Slice, SliceSpec};
use shm::Batch;
use testbed::{Testbed, TestbedConfig};
use whole::Daemon;

/// Where the daemon echoes, on queue 0 only.
const DAEMON: u16 = 7;
/// What the slice takes, on queue 1 only.
const SLICE: u16 = 9000;
/// What neither wants.
const KERNEL: u16 = 8000;

/// Packets of one round: one flow each to all three, which the wire spreads over both queues.
const FLOWS: u16 = 64;

/// Which of the flows got where.
#[derive(Debug, PartialEq, Eq)]
struct Round {
    echoed: usize,
    sliced: usize,
    /// Packets to the slice's port that came to the kernel, and those to the kernel's.
    passed: [usize; 2],
}

struct Fixture {
    clients: Vec<UdpSocket>,
    /// Of the kernel on the side of the NIC, at the slice's port and at its own.
    kernel: [UdpSocket; 2],
    server: SocketAddr,
}

impl Fixture {
    fn new(bed: &Testbed) -> Self {
        let open = |side: &testbed::Side, port: u16| {
            let address = SocketAddr::from((side.ipv4(), port));
            let socket = side.enter(|| UdpSocket::bind(address)).expect("the namespace is there");
            let socket = socket.expect("the port is free");
            socket.set_nonblocking(true).expect("a socket can be non-blocking");
            socket
        };
        Self {
            clients: (0..FLOWS).map(|flow| open(bed.client(), 20_000 + flow)).collect(),
            kernel: [SLICE, KERNEL].map(|port| open(bed.server(), port)),
            server: (bed.server().ipv4(), 0).into(),
        }
    }

    /// Sends a packet of each flow to each port; where they got within a moment.
    fn round(&self, mut slice: Option<&mut Slice>) -> Round {
        for client in &self.clients {
            for port in [DAEMON, SLICE, KERNEL] {
                let to = SocketAddr::new(self.server.ip(), port);
                client.send_to(b"whose?", to).expect("the link is up");
            }
        }
        let mut round = Round { echoed: 0, sliced: 0, passed: [0, 0] };
        let mut quiet_since = sys::clock::now();
        while sys::clock::now().since(quiet_since) < Nanos::from_secs(2) {
            let mut batch = Batch::new();
            let sliced = slice.as_mut().map_or(0, |slice| {
                let count = slice.read_multi(&mut batch, sys::clock::now());
                slice.give_back(&mut batch);
                count
            });
            let came = |socket: &UdpSocket| usize::from(socket.recv(&mut [0; 64]).is_ok());
            let echoed: usize = self.clients.iter().map(came).sum();
            let passed = self.kernel.each_ref().map(came);
            round.echoed += echoed;
            round.sliced += sliced;
            round.passed = [round.passed[0] + passed[0], round.passed[1] + passed[1]];
            if sliced + echoed + passed[0] + passed[1] > 0 {
                quiet_since = sys::clock::now();
            } else {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        round
    }
}

#[test]
fn a_daemon_a_slice_and_the_kernel_share_one_nic_and_none_needs_the_others() {
    let bed = Testbed::new(TestbedConfig { queues: 2, ..TestbedConfig::default() })
        .expect("this test needs root and the ip command");
    let fixture = Fixture::new(&bed);
    let all = usize::from(FLOWS);
    let config =
        "ports = [\"xdp:veth0@0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n[workers]\ncount = 1\n";
    let mut daemon = Daemon::start(bed.server(), config);
    let spec = SliceSpec {
        filter: Some(format!("udp dst port {SLICE}")),
        ..SliceSpec::new("beside", vec!["xdp:veth0@1".parse().expect("a port")])
    };
    let open = || bed.server().enter(|| Slice::open(&spec)).expect("the namespace is there");
    let mut slice = open().unwrap_or_else(|error| panic!("{error}"));

    let shared = fixture.round(Some(&mut slice));
    assert!((1..all).contains(&shared.echoed), "the daemon has queue 0: {shared:?}");
    assert!((1..all).contains(&shared.sliced), "the slice has queue 1: {shared:?}");
    assert_eq!(shared.passed, [all - shared.sliced, all], "the kernel has the rest: {shared:?}");

    // The daemon attached the program and dies without a word: the slice and the kernel go on.
    daemon.kill();
    let without_daemon = Round { echoed: 0, ..shared };
    assert_eq!(fixture.round(Some(&mut slice)), without_daemon);

    daemon.start_again(bed.server());
    let again = Round { echoed: shared.echoed, ..without_daemon };
    assert_eq!(fixture.round(Some(&mut slice)), again);

    drop(slice);
    let without_slice = Round { sliced: 0, passed: [all, all], ..again };
    assert_eq!(fixture.round(None), without_slice, "its packets are the kernel's");

    let mut slice = open().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(fixture.round(Some(&mut slice)).sliced, all - again.passed[0], "and its own again");
}
