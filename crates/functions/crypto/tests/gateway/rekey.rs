//! Keys that change while packets flow.

use std::sync::Arc;

use base::Nanos;
use calisto_nf::esp::{Algorithm, Gateway, Others, RETIRED_FOR, Tunnel};

use crate::ends::{End, Plan, association, ipv4, udp};

const STARTED: Nanos = Nanos::from_secs(1_700_000_000);

/// One gateway, whose tunnels change.
struct Changing {
    gateway: Arc<Gateway>,
    end: End,
}

impl Changing {
    fn new(tunnel: Tunnel) -> Self {
        let gateway = Gateway::new(vec![tunnel], STARTED).expect("the plan is right");
        let gateway = Arc::new(gateway);
        Self { end: End::of(Arc::clone(&gateway), Others::Drop), gateway }
    }

    fn change(&mut self, tunnel: Tunnel) {
        let started = STARTED + Nanos::from_secs(60);
        let next = Gateway::after(&self.gateway, vec![tunnel], started, self.end.now);
        self.gateway = Arc::new(next.expect("the plan is right"));
        let mut end = End::of(Arc::clone(&self.gateway), Others::Drop);
        end.now = self.end.now;
        end.esp.take_over(&mut self.end.esp);
        self.end = end;
    }
}

/// The number of a packet between gateways of IPv4.
fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes([packet[38], packet[39], packet[40], packet[41]])
}

fn plan() -> Plan {
    Plan::new(Algorithm::Gcm)
}

#[test]
fn an_association_that_stays_goes_on_number_by_number_and_refuses_what_has_come_before() {
    let [mut near, mut far] = [0, 1].map(|own| Changing::new(plan().tunnel(own)));
    let old: Vec<Vec<u8>> =
        (0..5).map(|_| near.end.pass(&ipv4(100)).expect("it is sealed")).collect();
    assert!(far.end.pass(&old[3]).is_some());
    near.change(plan().tunnel(0));
    far.change(plan().tunnel(1));
    assert_eq!((near.gateway.retired(), far.gateway.retired()), (0, 0));
    let next = near.end.pass(&ipv4(100)).expect("it is sealed");
    assert_eq!(number(&next), 6);
    assert!(far.end.pass(&next).is_some());
    far.end.drops(&old[3], |counters| &mut counters.replayed);
    assert!(far.end.pass(&old[4]).is_some(), "this one has not come yet");
    assert_eq!(far.end.counts().opened, 3, "counted on");
}

#[test]
fn keys_that_change_in_two_steps_lose_no_packet_in_either_direction() {
    // What each end sends with, from the first step on.
    let fresh = |sender: usize| association(Algorithm::Gcm, 2 + sender);
    let [mut near, mut far] = [0, 1].map(|own| Changing::new(plan().tunnel(own)));
    let mut on_its_way = [Vec::new(), Vec::new()];
    let mut send = |near: &mut Changing, far: &mut Changing| {
        let there = near.end.pass(&ipv4(100));
        let back = far.end.pass(&udp("10.2.0.6:1", "10.1.0.5:2", &[7; 60]));
        for (packets, packet) in on_its_way.iter_mut().zip([there, back]) {
            packets.push(packet.expect("it is sealed"));
        }
    };
    send(&mut near, &mut far);
    near.change(Tunnel { inbound: fresh(1), ..plan().tunnel(0) });
    send(&mut near, &mut far);
    far.change(Tunnel { inbound: fresh(0), ..plan().tunnel(1) });
    send(&mut near, &mut far);
    near.change(Tunnel { inbound: fresh(1), outbound: fresh(0), ..plan().tunnel(0) });
    send(&mut near, &mut far);
    far.change(Tunnel { inbound: fresh(0), outbound: fresh(1), ..plan().tunnel(1) });
    send(&mut near, &mut far);
    let [there, back] = on_its_way;
    for (to, packets) in [(&mut far, &there), (&mut near, &back)] {
        for packet in packets {
            assert!(to.end.pass(packet).is_some(), "{:?}", to.end.counts());
        }
        for packet in packets {
            to.end.drops(packet, |counters| &mut counters.replayed);
        }
        assert_eq!(to.gateway.retired(), 1);
    }
    // Later nobody can come with the old keys any more.
    let mut late = Changing::new(plan().tunnel(0));
    let packet = late.end.pass(&ipv4(100)).expect("it is sealed");
    far.end.now += RETIRED_FOR;
    far.end.drops(&packet, |counters| &mut counters.unknown_spi);
    far.change(Tunnel { inbound: fresh(0), outbound: fresh(1), ..plan().tunnel(1) });
    assert_eq!(far.gateway.retired(), 0);
}

#[test]
fn a_packet_of_an_association_that_is_gone_brings_only_what_its_tunnel_was_for() {
    let mut far = Changing::new(plan().tunnel(1));
    let mut near = Changing::new(plan().tunnel(0));
    let packet = near.end.pass(&ipv4(100)).expect("it is sealed");
    let other = ["10.7.0.0/16".parse().expect("a network")].to_vec();
    far.change(Tunnel {
        remote_networks: other,
        inbound: association(Algorithm::Gcm, 2),
        outbound: association(Algorithm::Gcm, 3),
        ..plan().tunnel(1)
    });
    assert!(far.end.pass(&packet).is_some(), "it was on its way");
    // But nothing is sent there, or has to come from there, any more.
    let back = udp("10.2.0.6:1", "10.1.0.5:2", &[7; 60]);
    far.end.drops(&back, |counters| &mut counters.no_policy);
}
