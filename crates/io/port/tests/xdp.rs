//! AF_XDP against the kernel, over veth pairs in namespaces of our own. Needs root.

use std::net::IpAddr;
use std::sync::Arc;

use crate::common::xdp::*;
use crate::common::*;
use base::{Nanos, PortId, QueueId};
use port::af_packet::{AfPacketOptions, AfPacketPort};
use port::xdp::{AttachMode, Destination, Protocol, Take, Umem, XdpInterface, XdpOptions, XdpPort};
use port::{Fault, LinkChecksums, OpenError, Opener, Port, PortSpec, Queues};
use shm::{Batch, FramePool, PoolConfig};
use testbed::TestbedConfig;

#[test]
fn a_kernel_client_is_echoed_byte_for_byte_in_native_and_generic_mode() {
    let bed = bed(TestbedConfig::default());
    for (mode, word) in [(AttachMode::Native, "native"), (AttachMode::Generic, "generic")] {
        let mut pool = pool();
        let mut port = server(&bed, mode, &mut pool, &XdpOptions::default());
        let capabilities = port.capabilities();
        assert!(capabilities.mode.starts_with(word), "{}", capabilities.mode);
        assert!(capabilities.mode.contains("copy"), "{}", capabilities.mode);
        assert!(capabilities.kernel_answers_arp && capabilities.needs_wakeup);
        assert_eq!((capabilities.mtu, capabilities.mac), (1500, Some(bed.server().mac())));
        let client = client(&bed);
        for len in [0, 1, 17, 18, 19, 64, 500, 1471, 1472] {
            let request: Vec<u8> = (0..len).map(|index| (index * 7 + len) as u8).collect();
            client.send(&request).expect("the link is up");
            echo(&mut port, &mut pool, 1);
            let mut answer = [0; 2048];
            let received = client.recv(&mut answer).expect("an answer comes back");
            assert_eq!(answer[..received], request, "{word}, {len} bytes");
        }
        let counters = port.counters();
        assert_eq!((counters.rx_packets, counters.tx_packets), (9, 9), "{counters:?}");
        assert_eq!(counters.rx_invalid + counters.tx_invalid + counters.tx_oversize, 0);
        port.close(&mut pool);
        assert_eq!(pool.outstanding(), 0, "every frame came home");
    }
}

#[test]
fn many_packets_keep_their_order_both_ways() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    let client = client(&bed);
    for round in 0..20u32 {
        for index in 0..100u32 {
            client.send(&(round * 100 + index).to_be_bytes()).expect("the link is up");
        }
        echo(&mut port, &mut pool, 100);
        for index in 0..100u32 {
            let mut answer = [0; 8];
            assert_eq!(client.recv(&mut answer).expect("an answer comes back"), 4);
            assert_eq!(answer[..4], (round * 100 + index).to_be_bytes());
        }
    }
    let counters = port.counters();
    assert_eq!(counters.rx_packets, 2000, "{counters:?}");
    port.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn full_batches_leave_with_few_kicks() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    let sink = socket(bed.client(), (bed.client().ipv4(), 4000));
    let frame = udp_frame(bed.server(), bed.client(), &[], 4000, b"numbered");
    for _ in 0..4 {
        let mut batch = batch_of(&mut pool, &vec![frame.clone(); 64]);
        transmit(&mut port, &mut pool, &mut batch);
    }
    for _ in 0..256 {
        let mut packet = [0; 64];
        assert_eq!(sink.recv(&mut packet).expect("all arrive"), 8);
    }
    let counters = port.counters();
    assert!(counters.kicks <= 12, "4 batches of 64: {counters:?}");
    port.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn every_queue_of_an_interface_works_over_one_pool() {
    let bed = bed(TestbedConfig { queues: 2, ..TestbedConfig::default() });
    let mut pool = pool();
    let interface = attach(bed.server(), AttachMode::Native, Take::Ours).expect("it attaches");
    interface.ours().add(echo_of(&bed)).expect("the map has room");
    let umem = Umem::new(&pool);
    let mut ports: Vec<XdpPort> = (0..2)
        .map(|queue| {
            open(&interface, queue, &umem, &mut pool, &XdpOptions::default())
                .unwrap_or_else(|error| panic!("{error}"))
        })
        .collect();
    assert_eq!(ports[1].capabilities().queues, Queues::One { queue: QueueId(1), of: 2 });
    for index in 0..64 {
        let client = client(&bed);
        client.send(&[index; 20]).expect("the link is up");
        let end = sys::clock::now() + Nanos::from_secs(5);
        let mut answered = false;
        while !answered && sys::clock::now() < end {
            for (queue, port) in ports.iter_mut().enumerate() {
                let mut batch = Batch::new();
                port.rx(&mut pool, &mut batch, sys::clock::now());
                for frame in &mut batch {
                    assert_eq!(frame.meta().queue, QueueId(queue as u16));
                    assert_eq!(frame.meta().port, PortId(5));
                    turn_round(frame);
                    answered = true;
                }
                transmit(port, &mut pool, &mut batch);
            }
        }
        let mut answer = [0; 64];
        assert_eq!(client.recv(&mut answer).expect("an answer comes back"), 20);
        assert_eq!(answer[..20], [index; 20]);
    }
    let received: Vec<u64> = ports.iter().map(|port| port.counters().rx_packets).collect();
    assert!(received[0] > 0 && received[1] > 0, "64 flows reach both queues: {received:?}");
    ports.iter_mut().for_each(|port| port.close(&mut pool));
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_port_without_a_queue_is_all_queues_of_its_interface() {
    let bed = bed(TestbedConfig { queues: 4, ..TestbedConfig::default() });
    let mut pool = pool();
    let spec: PortSpec = "xdp:veth0".parse().expect("a port");
    let mut port = bed
        .server()
        .enter(|| Opener::new(&pool).open(&spec, PortId(5), &mut pool))
        .expect("the namespace is there")
        .unwrap_or_else(|error| panic!("{error}"));
    let interface = Arc::clone(port.as_xdp().expect("it is one").interface());
    interface.ours().add(echo_of(&bed)).expect("the map has room");
    let capabilities = port.capabilities();
    assert_eq!(capabilities.queues, Queues::All(4));
    assert_eq!(capabilities.checksums, LinkChecksums::MayBeOpen, "a kernel is at the other end");
    assert!(capabilities.mode.ends_with("4 queues"), "{}", capabilities.mode);
    let mut seen = [0; 4];
    for index in 0..128 {
        let client = client(&bed);
        client.send(&[index; 20]).expect("the link is up");
        // Asleep until it comes, whichever queue that is.
        let fd = port.poll_fd().expect("the kernel is behind it");
        assert!(sys::poll::wait_readable(fd, Nanos::from_secs(10)), "packet {index}");
        let mut batch = Batch::new();
        port.rx(&mut pool, &mut batch, sys::clock::now());
        assert_eq!(batch.len(), 1, "packet {index}");
        seen[usize::from(batch[0].meta().queue.0)] += 1;
        batch.iter_mut().for_each(turn_round);
        transmit(&mut port, &mut pool, &mut batch);
        let mut answer = [0; 64];
        assert_eq!(client.recv(&mut answer).expect("an answer comes back"), 20);
        port.prepare_wait(&mut pool);
    }
    assert!(seen.iter().all(|&count| count > 0), "128 flows reach every queue: {seen:?}");
    assert_eq!(port.counters().rx_packets, 128);
    port.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn what_is_ours_changes_while_traffic_runs() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    let interface = Arc::clone(port.interface());
    let kernel = socket(bed.server(), (bed.server().ipv4(), ECHO_PORT));
    let client = client(&bed);
    let mut buffer = [0; 64];
    for round in 0..3 {
        client.send(b"for us").expect("the link is up");
        let mut batch = receive(&mut port, &mut pool, 1);
        assert_eq!(batch.len(), 1, "round {round}");
        give_all(&mut pool, &mut batch);
        assert!(is_quiet(&kernel), "the kernel's socket got a packet of ours");

        assert!(interface.ours().remove(echo_of(&bed)).expect("the map is there"));
        client.send(b"for the kernel").expect("the link is up");
        assert_eq!(kernel.recv(&mut buffer).expect("it comes to the kernel"), 14);
        let mut batch = receive_for(&mut port, &mut pool, Nanos::from_millis(20));
        assert_eq!(batch.len(), 0, "we got a packet of the kernel's");
        give_all(&mut pool, &mut batch);
        interface.ours().add(echo_of(&bed)).expect("the map has room");
    }
    // Others' packets pass all the while.
    let other = socket(bed.server(), (bed.server().ipv4(), ECHO_PORT + 1));
    client.send_to(b"other", (bed.server().ipv4(), ECHO_PORT + 1)).expect("the link is up");
    assert_eq!(other.recv(&mut buffer).expect("it comes to the kernel"), 5);
}

#[test]
fn traffic_returns_to_the_kernel_when_the_port_or_the_program_goes() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    let kernel = socket(bed.server(), (bed.server().ipv4(), ECHO_PORT));
    let client = client(&bed);
    let mut buffer = [0; 64];
    port.close(&mut pool);
    client.send(b"no socket").expect("the link is up");
    assert_eq!(kernel.recv(&mut buffer).expect("it comes to the kernel"), 9);
    drop(port);
    let program = || {
        let found = inside(bed.server(), || sys::interface::by_name(bed.server().interface()));
        found.expect("the link is up").xdp
    };
    // Another test that starts a program at this moment has a copy of the link until it runs.
    let end = sys::clock::now() + Nanos::from_secs(5);
    while program().is_some() && sys::clock::now() < end {}
    assert_eq!(program(), None, "the program went with its interface");
    client.send(b"no program").expect("the link is up");
    assert_eq!(kernel.recv(&mut buffer).expect("it comes to the kernel"), 10);
}

#[test]
fn ipv6_is_echoed() {
    let bed = bed(TestbedConfig { ipv6: true, ..TestbedConfig::default() });
    let mut pool = pool();
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    let address = Some(IpAddr::V6(bed.server().ipv6()));
    let destination = Destination { protocol: Protocol::Udp, address, port: Some(ECHO_PORT) };
    port.interface().ours().add(destination).expect("the map has room");
    let client = socket(bed.client(), (bed.client().ipv6(), 0));
    client.send_to(b"six", (bed.server().ipv6(), ECHO_PORT)).expect("the link is up");
    echo(&mut port, &mut pool, 1);
    let mut answer = [0; 16];
    let (len, from) = client.recv_from(&mut answer).expect("an answer comes back");
    assert_eq!((&answer[..len], from.ip()), (&b"six"[..], IpAddr::V6(bed.server().ipv6())));
}

#[test]
fn an_icmp_error_about_a_packet_of_ours_comes_to_us_and_others_to_the_kernel() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    // Nobody listens on the client's port 9; the packets come from the echo port and from one
    // beside.
    let kernel = socket(bed.server(), (bed.server().ipv4(), ECHO_PORT + 1));
    kernel.connect((bed.client().ipv4(), 9)).expect("a UDP socket connects");
    kernel.send(b"from the kernel").expect("the link is up");
    let refused = kernel.recv(&mut [0; 16]).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let mut sent = udp_frame(bed.server(), bed.client(), &[], 9, b"from us");
    sent[34..36].copy_from_slice(&ECHO_PORT.to_be_bytes());
    sent[40..42].copy_from_slice(&[0, 0]);
    let mut batch = batch_of(&mut pool, &[sent.clone()]);
    transmit(&mut port, &mut pool, &mut batch);
    let mut got = receive(&mut port, &mut pool, 1);
    assert_eq!(got.len(), 1);
    let error = got[0].bytes();
    assert_eq!((error[23], &error[34..36]), (1, &[3, 3][..]), "port unreachable");
    assert_eq!(error[42..70], sent[14..42], "it quotes what we sent");
    give_all(&mut pool, &mut got);
}

#[test]
fn tagged_packets_come_with_their_tags_and_a_tag_of_the_meta_is_put_in() {
    let bed = bed(TestbedConfig::default());
    let (mut pool, mut raw_pool) = (pool(), pool());
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    let (from, to) = (bed.client(), bed.server());
    let mut raw = inside(from, || {
        let options = AfPacketOptions::default();
        AfPacketPort::open(from.interface(), PortId(0), QueueId(0), &raw_pool, &options)
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let sent = [
        udp_frame(from, to, &[], ECHO_PORT, b"untagged"),
        udp_frame(from, to, &[[0x81, 0, 0x60, 5]], ECHO_PORT, b"tagged"),
        udp_frame(from, to, &[[0x88, 0xa8, 0, 7], [0x81, 0, 0, 8]], ECHO_PORT, b"twice"),
    ];
    let mut batch = batch_of(&mut raw_pool, &sent);
    transmit(&mut raw, &mut raw_pool, &mut batch);
    let mut got = receive(&mut port, &mut pool, 3);
    let bytes: Vec<&[u8]> = got.iter().map(|frame| frame.bytes()).collect();
    assert_eq!(bytes, sent);

    got.iter_mut().for_each(turn_round);
    got[0].meta_mut().vlan_tci = 0x2009;
    transmit(&mut port, &mut pool, &mut got);
    let mut back = receive(&mut raw, &mut raw_pool, 3);
    let tags: Vec<u16> = back.iter().map(|frame| frame.meta().vlan_tci).collect();
    // The kernel takes the outer tag off; one that is not 802.1Q was put back.
    assert_eq!(tags, [0x2009, 0x6005, 0]);
    assert!(back[0].bytes().ends_with(b"untagged") && back[0].len() == sent[0].len());
    assert_eq!(back[2].bytes()[12..22], [0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0]);
    give_all(&mut raw_pool, &mut back);
    raw.close(&mut raw_pool);
    port.close(&mut pool);
    assert_eq!((pool.outstanding(), raw_pool.outstanding()), (0, 0));
}

#[test]
fn open_checksums_of_a_trusted_link_are_finished_on_the_way_back() {
    // With offloads on, the kernel's sum covers the pseudo-header only. A device that cannot sum
    // has the kernel complete what we leave open.
    for device_sums in [true, false] {
        let bed = bed(TestbedConfig { offloads: true, ..TestbedConfig::default() });
        let veth0 = |on| sys::ethtool::set("veth0", sys::ethtool::Offload::TxChecksum, on);
        let set = bed.server().enter(|| veth0(device_sums)).expect("the namespace is there");
        set.expect("a veth's checksums can be switched");
        let mut pool = pool();
        let options = XdpOptions { trust_link: true, ..XdpOptions::default() };
        let mut port = server(&bed, AttachMode::Native, &mut pool, &options);
        assert_eq!(port.capabilities().checksums, LinkChecksums::Trusted);
        let client = client(&bed);
        client.send(b"summed by nobody yet").expect("the link is up");
        echo(&mut port, &mut pool, 1);
        let mut answer = [0; 64];
        let len = client.recv(&mut answer).expect("the client verifies the sum that we made");
        assert_eq!(&answer[..len], b"summed by nobody yet", "the device sums: {device_sums}");
    }
}

#[test]
fn frames_cross_from_one_interface_to_another_without_a_copy() {
    let (left, right) = (bed(TestbedConfig::default()), bed(TestbedConfig::default()));
    let mut pool = pool();
    let umem = Umem::new(&pool);
    let mut ports: Vec<XdpPort> = [&left, &right]
        .iter()
        .map(|bed| {
            let interface = attach(bed.server(), AttachMode::Native, Take::Everything);
            let interface = interface.unwrap_or_else(|error| panic!("{error}"));
            open(&interface, 0, &umem, &mut pool, &XdpOptions::default())
                .unwrap_or_else(|error| panic!("{error}"))
        })
        .collect();
    assert!(!ports[0].capabilities().kernel_answers_arp, "everything is taken");
    let mut raw_pool = crate::common::pool();
    let mut ends: Vec<AfPacketPort> = [&left, &right]
        .iter()
        .map(|bed| {
            inside(bed.client(), || {
                let name = bed.client().interface();
                let options = AfPacketOptions::default();
                AfPacketPort::open(name, PortId(0), QueueId(0), &raw_pool, &options)
            })
            .unwrap_or_else(|error| panic!("{error}"))
        })
        .collect();
    let sent: Vec<Vec<u8>> = (0..50u8)
        .map(|index| udp_frame(left.client(), right.client(), &[], 9, &[index; 300]))
        .collect();
    let mut batch = batch_of(&mut raw_pool, &sent);
    transmit(&mut ends[0], &mut raw_pool, &mut batch);
    let mut crossing = receive(&mut ports[0], &mut pool, 50);
    transmit(&mut ports[1], &mut pool, &mut crossing);
    let mut got = receive(&mut ends[1], &mut raw_pool, 50);
    let bytes: Vec<&[u8]> = got.iter().map(|frame| frame.bytes()).collect();
    assert_eq!(bytes, sent);
    give_all(&mut raw_pool, &mut got);
    // The first socket brought the memory: the second keeps working when it is gone, and a new
    // one joins by the second.
    ports[0].close(&mut pool);
    let interface = Arc::clone(ports[0].interface());
    ports[0] = open(&interface, 0, &umem, &mut pool, &XdpOptions::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let mut batch = batch_of(&mut raw_pool, &sent[..10]);
    transmit(&mut ends[1], &mut raw_pool, &mut batch);
    let mut crossing = receive(&mut ports[1], &mut pool, 10);
    transmit(&mut ports[0], &mut pool, &mut crossing);
    let mut got = receive(&mut ends[0], &mut raw_pool, 10);
    assert_eq!(got.len(), 10);
    give_all(&mut raw_pool, &mut got);
    ports.iter_mut().for_each(|port| port.close(&mut pool));
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_sleeper_is_woken_by_a_packet() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    let client = client(&bed);
    for _ in 0..3 {
        port.prepare_wait(&mut pool);
        let mut batch = Batch::new();
        assert_eq!(port.rx(&mut pool, &mut batch, sys::clock::now()), 0);
        assert_eq!(port.next_deadline(), Nanos::FAR_FUTURE);
        let descriptor = port.poll_fd().expect("a socket");
        assert!(!sys::poll::wait_readable(descriptor, Nanos::from_millis(5)));
        client.send(b"wake up").expect("the link is up");
        assert!(sys::poll::wait_readable(descriptor, Nanos::from_secs(5)));
        assert_eq!(port.rx(&mut pool, &mut batch, sys::clock::now()), 1);
        give_all(&mut pool, &mut batch);
    }
}

#[test]
fn busy_polling_works_and_is_said() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let options = XdpOptions { busy_poll_micros: Some(20), ..XdpOptions::default() };
    let mut port = server(&bed, AttachMode::Native, &mut pool, &options);
    assert!(port.capabilities().mode.contains("busy poll"), "{}", port.capabilities().mode);
    let client = client(&bed);
    client.send(b"busy").expect("the link is up");
    echo(&mut port, &mut pool, 1);
    assert_eq!(client.recv(&mut [0; 16]).expect("an answer comes back"), 4);
}

#[test]
fn a_fallback_to_generic_mode_is_said_aloud() {
    let bed = bed(TestbedConfig { mtu: 3800, ..TestbedConfig::default() });
    let interface = attach(bed.server(), AttachMode::Probe, Take::Ours).expect("generic works");
    assert!(interface.mode().contains("refused native XDP"), "{}", interface.mode());
    let mut pool = pool();
    let umem = Umem::new(&pool);
    let port = open(&interface, 0, &umem, &mut pool, &XdpOptions::default()).expect("it fits");
    assert!(port.capabilities().mode.contains("generic"), "{}", port.capabilities().mode);
    drop((port, interface));
    let error = attach(bed.server(), AttachMode::Native, Take::Ours).expect_err("too large");
    assert!(error.to_string().contains("leave out mode=native"), "{error}");
}

#[test]
fn wrong_places_are_named_with_what_to_do() {
    let bed = bed(TestbedConfig { mtu: 1900, ..TestbedConfig::default() });
    let side = bed.server();
    let error =
        inside(side, || XdpInterface::attach("nosuch0", AttachMode::Probe, Take::Ours).err());
    let error = error.expect("nobody is called that").to_string();
    assert!(error.contains("nosuch0") && error.contains("interfaces here: lo, veth0"), "{error}");

    let interface = attach(side, AttachMode::Native, Take::Ours).expect("it attaches");
    let config = PoolConfig { frames: 256, chunk_bytes: 2048, ..PoolConfig::default() };
    let mut small = FramePool::new(config).expect("a small pool");
    let umem = Umem::new(&small);
    let error = open(&interface, 0, &umem, &mut small, &XdpOptions::default());
    let error = error.err().expect("1900 bytes do not fit").to_string();
    assert!(error.contains("is 1900, and frames of 2048 bytes allow 1770"), "{error}");

    let mut pool = pool();
    let error = open(&interface, 0, &umem, &mut pool, &XdpOptions::default());
    assert_eq!(error.err(), Some(OpenError::OtherPool));
    let umem = Umem::new(&pool);
    let error = open(&interface, 3, &umem, &mut pool, &XdpOptions::default());
    let error = error.err().expect("there is one queue").to_string();
    assert!(error.contains("veth0 has no queue 3: it uses 1"), "{error}");

    let error = attach(side, AttachMode::Generic, Take::Ours).expect_err("it is native");
    let error = error.to_string();
    assert!(error.contains("another XDP program (id "), "{error}");
    assert!(error.contains("`ip link set dev veth0 xdp off`"), "{error}");
    assert_eq!(pool.outstanding(), 0, "a port that did not open keeps no frame");
}

#[test]
fn missing_rights_are_named() {
    let bed = bed(TestbedConfig::default());
    let side = bed.server();
    let error = inside(side, || {
        without_capabilities();
        XdpInterface::attach(side.interface(), AttachMode::Probe, Take::Ours).err()
    });
    let error = error.expect("nothing is allowed").to_string();
    assert!(error.contains("CAP_BPF missing; start as root"), "{error}");

    let interface = attach(side, AttachMode::Native, Take::Ours).expect("it attaches");
    let error = inside(side, || {
        let mut pool = pool();
        let umem = Umem::new(&pool);
        without_capabilities();
        open(&interface, 0, &umem, &mut pool, &XdpOptions::default()).err()
    });
    let error = error.expect("nothing is allowed").to_string();
    assert!(error.contains("CAP_NET_RAW missing"), "{error}");
}

#[test]
fn what_is_ours_can_be_changed_without_rights_once_the_program_is_attached() {
    let bed = bed(TestbedConfig::default());
    let interface = attach(bed.server(), AttachMode::Native, Take::Ours).expect("it attaches");
    let echo = echo_of(&bed);
    inside(bed.server(), || {
        without_capabilities();
        interface.ours().add(echo).expect("the descriptor is the right");
        assert_eq!(interface.ours().list().expect("the descriptor is the right"), [echo]);
        assert!(interface.ours().remove(echo).expect("the descriptor is the right"));
    });
}

#[test]
fn a_port_belongs_to_its_namespace_whatever_thread_opens_it() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let interface = attach(bed.server(), AttachMode::Native, Take::Ours).expect("it attaches");
    interface.ours().add(echo_of(&bed)).expect("the map has room");
    let umem = Umem::new(&pool);
    // The other side has an interface of the same index, too.
    let mut port =
        inside(bed.client(), || open(&interface, 0, &umem, &mut pool, &XdpOptions::default()))
            .unwrap_or_else(|error| panic!("{error}"));
    let client = client(&bed);
    client.send(b"at home").expect("the link is up");
    echo(&mut port, &mut pool, 1);
    assert_eq!(client.recv(&mut [0; 16]).expect("an answer comes back"), 7);
}

/// The calling thread loses every right, for good.
fn without_capabilities() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).expect("anybody may give up rights");
}

#[test]
fn an_interface_that_goes_down_or_vanishes_is_a_fault_and_no_more() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = server(&bed, AttachMode::Native, &mut pool, &XdpOptions::default());
    let frame = udp_frame(bed.server(), bed.client(), &[], 9, b"x");

    ip(bed.server(), "link set dev veth0 down");
    let mut batch = batch_of(&mut pool, &vec![frame.clone(); 3]);
    port.tx(&mut pool, &mut batch, sys::clock::now());
    assert_eq!(port.fault(), Some(Fault::Down));
    give_all(&mut pool, &mut batch);
    up_again(&bed);
    let end = sys::clock::now() + Nanos::from_secs(5);
    while port.fault().is_some() && sys::clock::now() < end {
        port.flush(&mut pool, sys::clock::now());
    }
    assert_eq!(port.fault(), None, "what waited has left");

    ip(bed.client(), "link delete dev veth0");
    let end = sys::clock::now() + Nanos::from_secs(5);
    let mut batch = Batch::new();
    while port.fault().is_none() && sys::clock::now() < end {
        port.rx(&mut pool, &mut batch, sys::clock::now());
    }
    assert_eq!(port.fault(), Some(Fault::Vanished));
    give_all(&mut pool, &mut batch);
    let mut batch = batch_of(&mut pool, &[frame]);
    assert_eq!(port.tx(&mut pool, &mut batch, sys::clock::now()), 0);
    assert_eq!(port.rx(&mut pool, &mut batch, sys::clock::now()), 0);
    give_all(&mut pool, &mut batch);
    port.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn an_empty_pool_loses_packets_into_a_counter_and_recovers() {
    let bed = bed(TestbedConfig::default());
    let config = PoolConfig { frames: 64, ..PoolConfig::default() };
    let mut pool = FramePool::new(config).expect("a small pool");
    let options = XdpOptions { fill_frames: Some(32), ..XdpOptions::default() };
    let mut port = server(&bed, AttachMode::Native, &mut pool, &options);
    let client = client(&bed);
    let mut hoard: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    for _ in 0..100 {
        client.send(b"flood").expect("the link is up");
    }
    let mut batch = receive_for(&mut port, &mut pool, Nanos::from_millis(300));
    assert_eq!(batch.len(), 32, "as many as the kernel had frames");
    let counters = port.counters();
    assert!(counters.rx_no_frame > 0 && counters.rx_fill_empty >= 68, "{counters:?}");
    hoard.drain(..).for_each(|frame| pool.give(frame));
    give_all(&mut pool, &mut batch);
    port.rx(&mut pool, &mut batch, sys::clock::now());
    client.send(b"again").expect("the link is up");
    echo(&mut port, &mut pool, 1);
    port.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}
