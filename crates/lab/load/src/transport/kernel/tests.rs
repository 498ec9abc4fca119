//! What `kernel` promises, case by case.

use super::*;

fn config(target: SocketAddr) -> KernelConfig {
    KernelConfig { target, sources: None, flows: 3, payload_bytes: 32, first_port: FIRST_PORT }
}

fn request(index: u64, flow: u32) -> Request {
    Request { index, flow, ..Request::default() }
}

fn server() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

/// Waits for, and takes, `count` replies.
fn receive(transport: &mut KernelUdp, count: usize) -> Vec<(Option<u32>, usize)> {
    let mut replies = Vec::new();
    for _ in 0..100 {
        transport.receive(|reply| {
            let Answer::Copy(payload) = reply.answer else { panic!("{reply:?}") };
            replies.push((reply.flow, payload.len()));
        });
        if replies.len() >= count {
            break;
        }
        transport.wait(Nanos::from_millis(50));
    }
    replies
}

#[test]
fn each_flow_has_a_port_of_its_own_and_replies_are_known_by_it() {
    let (server, address) = server();
    let mut transport = KernelUdp::open(&config(address)).expect("loopback is there");
    let mut sources = Vec::new();
    for flow in 0..3 {
        assert_eq!(transport.send(&[request(u64::from(flow), flow)]), 1);
        let mut bytes = [0; 64];
        let (length, from) = server.recv_from(&mut bytes).expect("it was sent");
        assert_eq!(length, 32);
        server.send_to(&bytes[..length], from).expect("loopback takes it");
        sources.push(from);
        assert_eq!(receive(&mut transport, 1), [(Some(flow), 32)]);
    }
    sources.dedup();
    assert_eq!(sources.len(), 3);
}

#[test]
fn requests_of_one_flow_leave_together() {
    let (server, address) = server();
    let transport = KernelUdp::open(&config(address)).expect("loopback is there");
    let requests = [request(0, 2), request(1, 2), request(2, 0), request(3, 2)];
    assert_eq!(transport.group(&requests), 2);
    let mut sender = transport.split();
    assert_eq!(sender.send(&requests[..2]), 2);
    let mut bytes = [0; 64];
    let (_, first) = server.recv_from(&mut bytes).expect("it was sent");
    let (_, second) = server.recv_from(&mut bytes).expect("it was sent");
    assert_eq!(first, second);
}

#[test]
fn a_prefix_makes_many_flows_of_few_sockets() {
    let (server, address) = server();
    let sources = Some("127.9.0.0/28".parse().expect("it is a prefix"));
    let mut transport = KernelUdp::open(&KernelConfig { sources, flows: 40, ..config(address) })
        .expect("loopback is there");
    assert!(transport.describe().starts_with("3 kernel UDP socket(s), 14 source addresses"));
    let mut seen = std::collections::BTreeSet::new();
    for flow in 0..40 {
        assert_eq!(transport.send(&[request(u64::from(flow), flow)]), 1);
        let mut bytes = [0; 64];
        let (length, from) = server.recv_from(&mut bytes).expect("it was sent");
        server.send_to(&bytes[..length], from).expect("loopback takes it");
        seen.insert(from);
    }
    assert_eq!(seen.len(), 40);
    assert_eq!(receive(&mut transport, 40).len(), 40);
}

#[test]
fn a_reply_longer_than_the_request_is_seen_to_be() {
    let (server, address) = server();
    let mut transport = KernelUdp::open(&config(address)).expect("loopback is there");
    transport.send(&[request(0, 0)]);
    let mut bytes = [0; 64];
    let (_, from) = server.recv_from(&mut bytes).expect("it was sent");
    server.send_to(&bytes, from).expect("loopback takes it");
    assert_eq!(receive(&mut transport, 1), [(Some(0), 33)]);
}

#[test]
fn a_target_where_nobody_listens_is_counted_as_refusing() {
    let (server, address) = server();
    drop(server);
    let mut transport = KernelUdp::open(&config(address)).expect("loopback is there");
    for index in 0..3 {
        assert_eq!(transport.send(&[request(index, 0)]), 1);
    }
    assert!(receive(&mut transport, 1).is_empty());
    assert!(transport.counters().refused > 0);
}

#[test]
fn what_the_kernel_cannot_do_is_refused_by_a_sentence_with_what_to_do() {
    let address = "127.0.0.1:7".parse().expect("it is an address");
    let refused = |config: KernelConfig| match KernelUdp::open(&config) {
        Ok(_) => panic!("it was opened: {config:?}"),
        Err(error) => error,
    };
    let many = refused(KernelConfig { flows: 700_000, ..config(address) });
    assert!(many.is_usage() && many.to_string().contains("at least 14 local"), "{many}");
    let other = Some("::1/128".parse().expect("it is a prefix"));
    let other = refused(KernelConfig { sources: other, ..config(address) });
    assert!(other.to_string().contains("different IP versions"), "{other}");
    // No host has an address of TEST-NET-1 (RFC 5737).
    let foreign = Some("192.0.2.1/32".parse().expect("it is a prefix"));
    let foreign = refused(KernelConfig { sources: foreign, ..config(address) });
    assert!(foreign.to_string().contains("address of this machine"), "{foreign}");
}
