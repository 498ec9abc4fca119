//! Several owners of one interface: rights that come in as descriptors, programs and filters that
//! are shared.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::common::xdp::*;
use crate::common::*;
use base::{Nanos, PortId};
use port::xdp::{AttachMode, Take, Umem, XdpInterface, XdpOptions, XdpPort};
use port::{Filter, Judge, Opener, Port, PortSpec};
use shm::{Batch, FramePool};
use testbed::{Testbed, TestbedConfig};

#[test]
fn rights_can_come_in_as_descriptors() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let parent = attach(bed.server(), AttachMode::Native, Take::Ours).expect("it attaches");
    let copy = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().expect("a descriptor");
    let rights = port::xdp::XdpRights {
        ours: copy(parent.ours().as_fd()),
        flows: copy(parent.flows().as_fd()),
        sockets: copy(parent.sockets_fd()),
        link: parent.link_fd().expect("descriptors are left"),
    };
    drop(parent);
    let name = bed.server().interface();
    let interface = inside(bed.server(), || XdpInterface::from_rights(name, Take::Ours, rights))
        .map(Arc::new)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(interface.mode().contains("parent"));
    interface.ours().add(echo_of(&bed)).expect("the map has room");
    let umem = Umem::new(&pool);
    let mut port = open(&interface, 0, &umem, &mut pool, &XdpOptions::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let client = client(&bed);
    client.send(b"inherited").expect("the link is up");
    echo(&mut port, &mut pool, 1);
    assert_eq!(client.recv(&mut [0; 16]).expect("an answer comes back"), 9);
}

#[test]
fn who_has_the_map_of_sockets_leaves_a_port_that_takes_everything_to_the_kernel() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let interface =
        attach(bed.server(), AttachMode::Native, Take::Everything).expect("it attaches");
    let umem = Umem::new(&pool);
    let port = open(&interface, 0, &umem, &mut pool, &XdpOptions::default());
    let mut port = port.unwrap_or_else(|error| panic!("{error}"));
    let kernel = socket(bed.server(), (bed.server().ipv4(), ECHO_PORT));
    let client = client(&bed);
    client.send(b"taken").expect("the link is up");
    assert!(is_quiet(&kernel));
    interface.leave_queues().expect("it is ours");
    // The port and its program are there still.
    client.send(b"left").expect("the link is up");
    assert_eq!(kernel.recv(&mut [0; 16]).expect("it comes to the kernel"), 4);
    port.close(&mut pool);
}

#[test]
fn an_opener_shares_the_program_and_refuses_contradictions() {
    let bed = bed(TestbedConfig { queues: 2, ..TestbedConfig::default() });
    let mut pool = pool();
    let mut opener = Opener::new(&pool);
    let spec = |text: &str| text.parse::<PortSpec>().expect("a port");
    let mut ports = inside(bed.server(), || {
        let mut ports = Vec::new();
        for text in ["xdp:veth0@0", "xdp:veth0@1"] {
            let port = opener.open(&spec(text), PortId(1), &mut pool);
            ports.push(port.unwrap_or_else(|error| panic!("{error}")));
        }
        let error = opener.open(&spec("xdp:veth0@1,mode=generic"), PortId(1), &mut pool);
        let error = error.err().expect("it is native already").to_string();
        assert!(error.contains("share one XDP program"), "{error}");
        ports
    });
    assert_eq!(opener.interfaces().count(), 1);
    let ours = ports[1].as_xdp().expect("it is one").interface().ours();
    ours.add(echo_of(&bed)).expect("the map has room");
    let client = client(&bed);
    client.send(b"either queue").expect("the link is up");
    let end = sys::clock::now() + Nanos::from_secs(5);
    let mut got = Batch::new();
    while got.is_empty() && sys::clock::now() < end {
        for port in &mut ports {
            port.rx(&mut pool, &mut got, sys::clock::now());
        }
    }
    assert_eq!(got.len(), 1);
    give_all(&mut pool, &mut got);
    ports.iter_mut().for_each(|port| port.close(&mut pool));
    assert_eq!(pool.outstanding(), 0);
}

/// A veth whose peer sends from as many queues as it likes; we have two.
fn two_queues() -> Testbed {
    bed(TestbedConfig { queues: 2, ..TestbedConfig::default() })
}

/// Sends packets of many flows from the kernel, so that both queues get some; how many.
fn send_many_flows(bed: &Testbed) -> usize {
    for port in 0..64u16 {
        let client = socket(bed.client(), (bed.client().ipv4(), 20_000 + port));
        client.send_to(b"flow", (bed.server().ipv4(), ECHO_PORT)).expect("the link is up");
    }
    64
}

/// A port with its own frames: an owner of its own.
struct Owner {
    pool: FramePool,
    port: XdpPort,
}

impl Owner {
    fn new(bed: &Testbed, queue: u16, take: Take) -> Self {
        let interface = attach(bed.server(), AttachMode::Native, take);
        let interface = interface.unwrap_or_else(|error| panic!("{error}"));
        let mut pool = pool();
        let umem = Umem::new(&pool);
        let port = open(&interface, queue, &umem, &mut pool, &XdpOptions::default())
            .unwrap_or_else(|error| panic!("{error}"));
        Self { pool, port }
    }

    /// How many packets have come.
    fn received(&mut self) -> usize {
        let mut batch = receive_for(&mut self.port, &mut self.pool, Nanos::from_millis(300));
        let count = batch.len();
        give_all(&mut self.pool, &mut batch);
        count
    }
}

#[test]
fn two_owners_share_an_interface_and_neither_needs_the_other() {
    let bed = two_queues();
    let kernel = socket(bed.server(), (bed.server().ipv4(), ECHO_PORT));
    let mut first = Owner::new(&bed, 0, Take::Ours);
    let mut second = Owner::new(&bed, 1, Take::Everything);
    assert!(second.port.capabilities().mode.contains("shared"), "{:?}", second.port.capabilities());
    let to_kernel = |kernel: &std::net::UdpSocket| {
        kernel.set_read_timeout(Some(std::time::Duration::from_millis(300))).expect("a time");
        std::iter::from_fn(|| kernel.recv(&mut [0; 64]).ok()).count()
    };

    // Nothing is the first's: its queue is the kernel's, while the second takes all of its own.
    let sent = send_many_flows(&bed);
    let (of_first, of_second, of_kernel) =
        (first.received(), second.received(), to_kernel(&kernel));
    assert!(of_first == 0 && of_second > 0 && of_kernel > 0, "{of_first} {of_second} {of_kernel}");
    assert_eq!(of_second + of_kernel, sent);

    first.port.interface().ours().add(echo_of(&bed)).expect("the map has room");
    send_many_flows(&bed);
    assert_eq!((first.received(), second.received()), (of_kernel, of_second));

    // The process that attached the program goes: the other stays.
    drop(first);
    send_many_flows(&bed);
    assert_eq!((second.received(), to_kernel(&kernel)), (of_second, of_kernel));

    // A successor finds its place again.
    let mut third = Owner::new(&bed, 0, Take::Everything);
    send_many_flows(&bed);
    assert_eq!((third.received(), second.received()), (of_kernel, of_second));

    // A guest goes, closed or not: its queue is the kernel's.
    drop(second);
    send_many_flows(&bed);
    assert_eq!((third.received(), to_kernel(&kernel)), (of_kernel, of_second));
    // The kernel takes the program away a moment after the last of us has gone.
    drop(third);
    let is_as_before = (0..50).any(|_| send_many_flows(&bed) == to_kernel(&kernel));
    assert!(is_as_before, "the kernel does not get all of its packets");
}

#[test]
fn a_filter_is_changed_while_traffic_runs_and_leaves_the_rest_to_the_kernel() {
    let bed = bed(TestbedConfig::default());
    let kernel = socket(bed.server(), (bed.server().ipv4(), ECHO_PORT));
    let client = client(&bed);
    let mut owner = Owner::new(&bed, 0, Take::Everything);
    let filter = |text: &str| Filter::compile(text).unwrap_or_else(|error| panic!("{error}"));
    let is_ours = |owner: &mut Owner| {
        client.send(b"whose?").expect("the link is up");
        let ours = owner.received() > 0;
        assert_eq!(is_quiet(&kernel), ours, "it has one receiver");
        ours
    };
    assert!(is_ours(&mut owner));
    for (expression, ours) in [("tcp", false), ("udp port 7000", true), ("udp port 7001", false)] {
        let judge = owner.port.set_filter(Some(&filter(expression))).expect("the map has room");
        assert_eq!(judge, Judge::Kernel, "{expression}");
        assert_eq!(is_ours(&mut owner), ours, "{expression}");
    }
    let loops = filter("ip6 protochain 6");
    let judge = owner.port.set_filter(Some(&loops)).expect("the map has room");
    assert_eq!(judge, Judge::Reader { why: "it has a loop".to_owned() });
    assert!(is_ours(&mut owner), "what the kernel cannot judge comes whole");
    owner.port.set_filter(Some(&filter("tcp"))).expect("the map has room");
    assert!(!is_ours(&mut owner));
    owner.port.set_filter(None).expect("the map has room");
    assert!(is_ours(&mut owner));
}

#[test]
fn a_queue_that_is_in_use_is_busy_until_it_is_closed() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    let mut other_pool = crate::common::pool();
    let other_umem = Umem::new(&other_pool);
    let interface = Arc::clone(port.interface());
    let again = open(&interface, 0, &other_umem, &mut other_pool, &XdpOptions::default());
    let error = again.err().expect("the queue is taken").to_string();
    assert!(error.contains("queue 0 of veth0 is in use by another AF_XDP socket"), "{error}");
    port.close(&mut pool);
    for _ in 0..5 {
        let mut again = open(&interface, 0, &other_umem, &mut other_pool, &XdpOptions::default())
            .unwrap_or_else(|error| panic!("{error}"));
        again.close(&mut other_pool);
        assert_eq!(other_pool.outstanding(), 0);
    }
}
