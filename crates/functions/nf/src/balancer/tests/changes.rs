//! What changes while packets flow: servers, and packets that the router cuts.

use super::*;

#[test]
fn pieces_that_the_router_cuts_behind_link_all_carry_the_services_address() {
    let mut balancer = balancer(17, Forwarding::Link, 3);
    let mut packet = udp([CLIENT, SERVICE], &[1; 72]);
    packet[18..22].copy_from_slice(&[0x12, 0x34, 0, 0]);
    correct_checksum(&mut packet);
    let [routed, _] = through(&mut balancer, &packet, 0).expect("it passes");
    let mut frames = Frames::new();
    for (offset, payload) in [(0x2000_u16, 34..74), (5, 74..114)] {
        let mut piece = [&routed[..34], &routed[payload]].concat();
        piece[16..18].copy_from_slice(&60_u16.to_be_bytes());
        piece[20..22].copy_from_slice(&offset.to_be_bytes());
        correct_checksum(&mut piece);
        assert_eq!(piece[30..33], [10, 0, 0], "the router has found the server");
        let mut batch = frames.batch(&[&piece]);
        let mut verdicts = Verdicts::new();
        verdicts[0] = Verdict::Out(OUT);
        balancer.leave(&mut batch, &mut verdicts, Nanos::from_secs(1000));
        assert_eq!(batch[0].bytes()[30..34], [192, 0, 2, 80], "{offset}");
        frames.give(batch);
    }
}

#[test]
fn only_services_of_which_a_server_has_changed_get_another_ring() {
    let mut all = settings(17, Forwarding::Nat, 4);
    let other = Service { address: end("192.0.2.81:80"), ..all.services[0].clone() };
    all.services.push(other);
    let mut before = Balancer::new(&all, |_, _| true);
    let ring = before.services[0].ring().as_ptr();
    let is_well = |service, server| service == 0 || server != 2;
    let mut after = Balancer::following(&all, is_well, |service| service == 1);
    assert!(after.services[0].ring().is_empty(), "none was made");
    after.take_over(&mut before);
    assert_eq!(after.services[0].ring().as_ptr(), ring);
    for n in 1..200 {
        let client = format!("198.51.100.7:{n}");
        let first = to(&sent(&mut after, &udp([&client, SERVICE], b"")));
        assert!(first.starts_with("10.0.0."), "{first}");
        let second = to(&sent(&mut after, &udp([&client, "192.0.2.81:80"], b"")));
        assert_ne!(second, "10.0.0.3:8080");
    }
    // Where nobody has said that one has changed, the servers of before count.
    let mut wrong = Balancer::following(&all, |_, server| server == 0, |_| false);
    wrong.take_over(&mut after);
    assert!(through(&mut wrong, &udp([CLIENT, SERVICE], b""), 0).is_some());
}
