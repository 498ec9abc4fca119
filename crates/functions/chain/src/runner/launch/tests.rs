//! Tests of how the slices of a chain are set up.

use std::net::Ipv4Addr;

use base::Nanos;
use calisto_nf::{Verdict, Verdicts};
use shm::{Batch, FramePool, PoolConfig};

use super::*;
use crate::health::Health;
use crate::ports::PortInterface;
use crate::tables::Senders;

const FILE: &str = r#"
name = "two"
[[slice]]
ports = ["xdp:a@0", "xdp:b@0"]
[[slice]]
ports = ["xdp:a@1", "xdp:b@1"]
[[function]]
kind = "policer"
[[function.classes]]
rate_mbit = 8
burst_kib = 2
[[function]]
kind = "l2"
links = [["a", "b"]]
"#;

#[test]
fn the_rate_of_a_policer_is_that_of_all_slices_together() {
    let file = ChainFile::parse(FILE, "two.toml").expect("a chain");
    let interface = |name: &str, index| {
        let name = name.to_owned();
        PortInterface { name, index, mac: [2, 0, 0, 0, 0, 1], mtu: 1500 }
    };
    let ports = Ports::new(vec![interface("a", 1), interface("b", 2)]);
    let parts = Parts {
        folder: std::path::Path::new(""),
        ports: &ports,
        rib: None,
        gateway: None,
        health: &Health::default(),
        follows: None,
    };
    let mut all = all_stages(&parts, &file, &|_| false).expect("functions");
    assert_eq!(all.len(), 2);
    let pool = FramePool::new(PoolConfig { frames: 16, chunk_bytes: 2048, numa_node: None });
    let mut pool = pool.expect("a small pool");
    let mut passed = 0;
    for _ in 0..4 {
        for stages in &mut all {
            let mut frame = pool.take().expect("a frame");
            assert!(frame.fill(&[0; 1000]));
            let (mut batch, mut verdicts) = (Batch::from_iter([frame]), Verdicts::new());
            stages[0].process(&mut batch, &mut verdicts, Nanos::ZERO);
            passed += u32::from(verdicts[0] == Verdict::Next);
            batch.drain(..).for_each(|frame| pool.give(frame));
        }
    }
    assert_eq!(passed, 2, "two packets of 1000 bytes are in 2 KiB");
}

#[test]
fn a_services_address_that_is_a_tunnels_end_too_is_nobody_elses_for_tunnels() {
    let text = r#"
name = "c"
[[slice]]
ports = ["xdp:a"]
[[function]]
kind = "balancer"
[[function.services]]
address = "192.0.2.1:80"
forwarding = "link"
[[function.services.servers]]
address = "10.0.0.2:80"
[[function]]
kind = "tunnel"
[[function.tunnels]]
kind = "gre"
local = "192.0.2.1"
remote = "198.51.100.1"
networks = ["10.2.0.0/16"]
[[function]]
kind = "router"
"#;
    let file = ChainFile::parse(text, "c.toml").expect("a chain");
    let Senders { all, served } = senders(&file, None);
    let address = Ipv4Addr::new(192, 0, 2, 1);
    assert!(all.contains(&IpAddr::V4(address)) && served.contains(&address));
    assert_eq!(all.len(), 1);
}
