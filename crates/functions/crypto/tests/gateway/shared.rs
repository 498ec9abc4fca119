//! One tunnel on several cores.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use base::Nanos;
use calisto_nf::esp::{Algorithm, Gateway, Others};

use crate::ends::{End, Plan, ipv4};

const SLICES: usize = 4;
const BATCHES: usize = 40;

#[test]
fn slices_that_share_a_tunnel_number_each_packet_once_and_accept_it_once() {
    let plan = Plan { window: 1 << 16, ..Plan::new(Algorithm::Gcm) };
    let gateway = |own| {
        let made = Gateway::new(vec![plan.tunnel(own)], Nanos::from_secs(1_700_000_000));
        Arc::new(made.expect("the plan is right"))
    };
    let (near, far) = (gateway(0), gateway(1));
    let packets = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..SLICES {
            scope.spawn(|| {
                let mut end = End::of(Arc::clone(&near), Others::Drop);
                for _ in 0..BATCHES {
                    let sealed = end.process(&vec![ipv4(100); 64]);
                    packets.lock().unwrap().extend(sealed.into_iter().map(|(_, packet)| packet));
                }
            });
        }
    });
    let packets = packets.into_inner().unwrap();
    let numbers: BTreeSet<_> = packets.iter().map(|packet| packet[38..42].to_vec()).collect();
    let ivs: BTreeSet<_> = packets.iter().map(|packet| packet[42..50].to_vec()).collect();
    assert_eq!((numbers.len(), ivs.len()), (packets.len(), packets.len()));
    // Each receiving slice gets every packet.
    let opened = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..SLICES {
            scope.spawn(|| {
                let mut end = End::of(Arc::clone(&far), Others::Drop);
                for batch in packets.chunks(64) {
                    end.process(batch);
                }
                let counts = end.counts();
                assert_eq!(counts.opened + counts.replayed, packets.len() as u64);
                *opened.lock().unwrap() += counts.opened;
            });
        }
    });
    assert_eq!(opened.into_inner().unwrap(), packets.len() as u64);
}
