//! Packets that do not go into their tunnel, and what their senders hear of it.

use base::Nanos;
use calisto_nf::Verdict;
use calisto_nf::esp::Algorithm;
use wire::icmp::{ErrorKind, ErrorMessage};

use crate::ends::{GATEWAY_MAC, HOST_MAC, PORT, Plan, ipv4, ipv6, sum_ipv4};

/// What is sent back about a packet.
fn answer(end: &mut crate::ends::End, packet: &[u8]) -> Option<Vec<u8>> {
    let (verdict, frame) = end.process(&[packet.to_vec()]).pop()?;
    assert_eq!(verdict, Verdict::Out(PORT));
    assert_eq!(frame[..12], [HOST_MAC, GATEWAY_MAC].concat(), "back to who sent it");
    Some(frame)
}

#[test]
fn packet_that_is_too_long_is_answered_with_the_length_that_is_not() {
    for algorithm in Algorithm::ALL {
        for plan in [Plan::new(algorithm), Plan::new(algorithm).over_ipv6()] {
            let inner = usize::from(plan.tunnel(0).inner_mtu());
            let mut near = plan.end(0);
            for (longest, longer) in
                [(ipv4(inner), ipv4(inner + 1)), (ipv6(inner), ipv6(inner + 1))]
            {
                let sealed = near.pass(&longest).expect("the longest one goes through");
                let block = algorithm.block_bytes();
                assert!((1501 - block..=1500).contains(&(sealed.len() - 14)), "{}", sealed.len());
                let frame = answer(&mut near, &longer).expect("the sender is told");
                let error = ErrorMessage::parse(&frame).expect("a right ICMP error");
                assert_eq!(error.kind, ErrorKind::TooBig { mtu: inner as u32 });
                assert_eq!(error.key.ports(), (2000, 1000), "about this packet");
            }
            let counts = near.counts();
            assert_eq!((counts.too_long, counts.answered, counts.sealed), (2, 2, 2));
        }
    }
}

#[test]
fn packet_whose_time_has_come_is_answered() {
    let mut near = Plan::new(Algorithm::Gcm).end(0);
    let mut four = ipv4(100);
    four[22] = 1;
    sum_ipv4(&mut four);
    let mut six = ipv6(100);
    six[21] = 1;
    for packet in [four, six] {
        let frame = answer(&mut near, &packet).expect("the sender is told");
        let error = ErrorMessage::parse(&frame).expect("a right ICMP error");
        assert_eq!(error.kind, ErrorKind::TimeExceeded);
    }
    assert_eq!((near.counts().ttl_exceeded, near.counts().answered), (2, 2));
}

#[test]
fn errors_come_from_an_address_of_the_gateway() {
    let source = |plan: Plan, packet: &[u8]| {
        let frame = answer(&mut plan.end(0), packet).expect("the sender is told");
        frame[26..30].to_vec()
    };
    assert_eq!(source(Plan::new(Algorithm::Gcm), &ipv4(1500)), [192, 0, 2, 1]);
    let over_ipv6 = Plan::new(Algorithm::Gcm).over_ipv6();
    assert_eq!(source(over_ipv6, &ipv4(1500)), [192, 0, 0, 8], "the dummy address (RFC 7600)");
}

#[test]
fn no_error_is_sent_about_errors_later_fragments_and_groups() {
    let mut near = Plan::new(Algorithm::Gcm).end(0);
    let mut error = ipv4(1500);
    error[23] = 1;
    error[34] = 3;
    let mut fragment = ipv4(1500);
    fragment[20..22].copy_from_slice(&[0, 1]);
    let mut to_all = ipv4(1500);
    to_all[..6].fill(0xff);
    for mut packet in [error, fragment, to_all] {
        sum_ipv4(&mut packet);
        assert_eq!(near.pass(&packet), None);
    }
    let mut error = ipv6(1500);
    error[20] = 58;
    error[54] = 1;
    assert_eq!(near.pass(&error), None);
    let counts = near.counts();
    assert_eq!((counts.too_long, counts.answered, counts.unanswered), (4, 0, 4));
}

#[test]
fn errors_have_a_rate() {
    let mut near = Plan::new(Algorithm::Gcm).end(0);
    let flood = vec![ipv4(1500); 64];
    for _ in 0..4 {
        near.process(&flood);
    }
    assert_eq!((near.counts().answered, near.counts().unanswered), (50, 206));
    near.now += Nanos::from_millis(10);
    near.process(&flood);
    assert_eq!(near.counts().answered, 60);
}

#[test]
fn packet_without_room_before_or_behind_it_is_dropped() {
    // A chunk of 2048 bytes with 256 before the packet: this one fits, and what comes behind it
    // does not.
    let plan = Plan { mtu: 3000, ..Plan::new(Algorithm::CbcSha256) };
    let mut near = plan.end(0);
    near.drops(&ipv4(1770), |counters| &mut counters.no_room);
    assert!(near.pass(&ipv4(1700)).is_some());
}
