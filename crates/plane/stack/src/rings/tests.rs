//! Rings come and go with their flows.

use std::net::SocketAddr;

use base::Nanos;
use tcp::{Config, Engine};

use super::*;

fn flows(count: u16) -> Vec<FlowId> {
    let mut engine = Engine::new(Config::default(), [1; 16], Nanos::ZERO);
    let [local, remote]: [SocketAddr; 2] =
        ["10.0.0.1:0", "10.0.0.2:7"].map(|at| at.parse().expect("an address"));
    let mut connect = |_| engine.connect(Nanos::ZERO, local, remote, FlowOptions::default(), 0);
    (0..count).map(|number| connect(number).expect("a free port")).collect()
}

#[test]
fn rings_come_with_the_first_use_go_with_the_flow_and_are_refused_and_counted_beyond_the_limit() {
    let limits = RingLimits { receive_log2: 12, send_log2: 12, bytes_max: 5 << 10 };
    let options = FlowOptions {
        receive_ring_log2: 10,
        receive_limit_log2: 12,
        send_ring_log2: 10,
        ..FlowOptions::default()
    };
    let mut rings = Rings::new(limits, &options);
    let flows = flows(3);
    assert_eq!((rings.bytes(), rings.send_ring(flows[0]).len()), (0, 0));
    assert!(rings.ensure(flows[0]) && rings.ensure(flows[1]));
    assert_eq!((rings.bytes(), rings.lengths(flows[1])), (4 << 10, (1 << 10, 1 << 10)));
    assert!(!rings.ensure(flows[2]), "one of its two would be too many");
    assert_eq!((rings.refused(), rings.has_room(11)), (1, false));
    rings.both(flows[0]).1.split_at(7).1.copy_in(&[9]);
    let pair = rings.take(flows[0]);
    rings.free(flows[2]);
    assert_eq!(rings.bytes(), 2 << 10);
    rings.put(flows[2], pair);
    assert_eq!(
        (rings.bytes(), rings.send_ring(flows[2]).byte(7)),
        (4 << 10, Some(9)),
        "it has moved"
    );
    rings.free(flows[1]);
    let is_grown = rings.grow_send(flows[2], 11, |old, new| old.copy_to(new) == old.len());
    assert!(is_grown);
    assert_eq!((rings.bytes(), rings.lengths(flows[2]).1), (3 << 10, 2 << 10));
    assert_eq!(rings.send_ring(flows[2]).byte(7), Some(9));
    rings.free(flows[2]);
    assert_eq!(rings.bytes(), 0);
}
