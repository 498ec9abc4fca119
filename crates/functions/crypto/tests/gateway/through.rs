//! Honest packets.

use base::ChecksumState;
use calisto_nf::esp::{Algorithm, Others};

use crate::ends::{GATEWAY_MAC, HOST_MAC, Plan, forwarded, ipv4, ipv6, sum_ipv4, udp};

#[test]
fn packet_of_every_length_comes_out_as_it_went_in_but_for_its_time_to_live() {
    for algorithm in Algorithm::ALL {
        for plan in [Plan::new(algorithm), Plan::new(algorithm).over_ipv6()] {
            let [mut near, mut far] = plan.both();
            let all = (28..200).step_by(1).chain([1000, 1280, 1386]);
            for len in all {
                let packets = [ipv4(len), ipv6(len.max(48))];
                for packet in packets {
                    let sealed = near.pass(&packet).expect("it goes into the tunnel");
                    let opened = far.pass(&sealed).expect("it comes out of the tunnel");
                    assert_eq!(opened, forwarded(packet), "{algorithm}, {len} bytes");
                }
            }
            let (near, far) = (near.counts(), far.counts());
            assert_eq!(near.sealed, far.opened);
        }
    }
}

#[test]
fn whole_batches_go_through_in_their_order() {
    for algorithm in Algorithm::ALL {
        let [mut near, mut far] = Plan::new(algorithm).both();
        let packets: Vec<_> = (0..64).map(|number| ipv4(40 + number * 13)).collect();
        for _ in 0..3 {
            let sealed: Vec<_> =
                near.process(&packets).into_iter().map(|(_, packet)| packet).collect();
            let opened = far.process(&sealed);
            for ((_, opened), packet) in opened.into_iter().zip(&packets) {
                assert_eq!(opened, forwarded(packet.clone()), "{algorithm}");
            }
        }
        assert_eq!((near.counts().sealed, far.counts().opened), (192, 192));
    }
}

#[test]
fn nothing_of_the_packet_is_seen_outside_but_its_length_and_class() {
    let plan = Plan::new(Algorithm::CbcSha256);
    let [mut near, _] = plan.both();
    let mut packet = ipv4(120);
    packet[15] = 0xb9; // Expedited forwarding, ECT(1).
    sum_ipv4(&mut packet);
    let sealed = near.pass(&packet).expect("it goes into the tunnel");
    assert_eq!(sealed[..12], [GATEWAY_MAC, HOST_MAC].concat());
    // 20 of IP, 8 of ESP, 16 of IV, 128 of text, 16 of ICV.
    assert_eq!(sealed.len(), 14 + 20 + 8 + 16 + 128 + 16);
    let [version, class, high, low] = sealed[14..18] else { unreachable!() };
    assert_eq!((version, class), (0x45, 0xb9));
    assert_eq!(usize::from(u16::from_be_bytes([high, low])), sealed.len() - 14);
    assert_eq!(sealed[18..24], [0, 0, 0x40, 0, 64, 50], "not to be fragmented, 64 hops, ESP");
    assert_eq!(wire::checksum::of(&sealed[14..34]), 0, "the checksum is right");
    assert_eq!(sealed[26..34], [192, 0, 2, 1, 192, 0, 2, 2]);
    assert_eq!(sealed[34..42], [0, 0, 0x10, 0x01, 0, 0, 0, 1]);
    assert!(!sealed[42..].windows(8).any(|bytes| bytes == [0x5a; 8]));
}

#[test]
fn same_packet_is_never_encrypted_the_same_way_twice() {
    for algorithm in Algorithm::ALL {
        let [mut near, _] = Plan::new(algorithm).both();
        let mut texts = std::collections::BTreeSet::new();
        let mut ivs = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let sealed = near.pass(&ipv4(100)).expect("it goes into the tunnel");
            ivs.insert(sealed[42..42 + algorithm.iv_bytes()].to_vec());
            texts.insert(sealed[42 + algorithm.iv_bytes()..].to_vec());
        }
        assert_eq!((ivs.len(), texts.len()), (300, 300), "{algorithm}");
    }
}

#[test]
fn iv_of_cbc_cannot_be_told_from_the_one_before() {
    let [mut near, _] = Plan::new(Algorithm::CbcSha1).both();
    let mut iv = || {
        let sealed = near.pass(&ipv4(100)).expect("it goes into the tunnel");
        u128::from_be_bytes(*sealed[42..].first_chunk().expect("it is longer"))
    };
    let ivs: Vec<u128> = (0..200).map(|_| iv()).collect();
    // Of 128 bits 64 differ between neighbours, if there is nothing to see; a counter would differ
    // in two.
    let differ: u32 = ivs.windows(2).map(|two| (two[0] ^ two[1]).count_ones()).sum();
    assert!((60..68).contains(&(differ / 199)), "{differ}");
}

#[test]
fn long_numbers_go_past_32_bits_and_their_upper_half_is_signed() {
    for algorithm in Algorithm::ALL {
        let plan = Plan { is_extended: true, ..Plan::new(algorithm) };
        let [mut near, mut far] = plan.both();
        let mut short = Plan::new(algorithm).end(1);
        let sealed = near.pass(&ipv4(100)).expect("it goes into the tunnel");
        short.drops(&sealed, |counters| &mut counters.bad_icv);
        assert_eq!(far.pass(&sealed), Some(forwarded(ipv4(100))), "{algorithm}");
    }
}

#[test]
fn congestion_outside_is_told_inside() {
    let [mut near, mut far] = Plan::new(Algorithm::Gcm).both();
    let mut packet = ipv4(100);
    packet[15] = 2;
    sum_ipv4(&mut packet);
    let mut sealed = near.pass(&packet).expect("it goes into the tunnel");
    sealed[15] |= 3;
    sum_ipv4(&mut sealed);
    packet[15] = 3;
    sum_ipv4(&mut packet);
    assert_eq!(far.pass(&sealed), Some(forwarded(packet)));

    let mut sealed = near.pass(&ipv4(100)).expect("it goes into the tunnel");
    sealed[15] |= 3;
    sum_ipv4(&mut sealed);
    far.drops(&sealed, |counters| &mut counters.congestion);
}

#[test]
fn packets_of_no_tunnel_pass_or_are_dropped_as_one_says() {
    let stranger = udp("10.1.0.5:1", "10.3.0.1:2", b"x");
    let mut arp = vec![2; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut strict = Plan::new(Algorithm::Gcm).end(0);
    strict.drops(&stranger, |counters| &mut counters.no_policy);
    assert_eq!(strict.pass(&arp), Some(arp.clone()), "what is not IP is not judged");
    let plan = Plan { others: Others::Pass, ..Plan::new(Algorithm::Gcm) };
    let mut lax = plan.end(0);
    assert_eq!(lax.pass(&stranger), Some(stranger));
    assert_eq!(lax.counts().passed, 1);
    // Not even then.
    let clear = udp("10.2.0.6:1", "10.1.0.5:2", b"I am from the other network");
    lax.drops(&clear, |counters| &mut counters.unprotected);
}

#[test]
fn tags_stay_and_padding_of_the_link_does_not_enter_the_tunnel() {
    let [mut near, mut far] = Plan::new(Algorithm::Gcm).both();
    let packet = ipv4(30);
    let mut padded = packet.clone();
    padded.resize(60, 0xee);
    let sealed = near.pass(&padded).expect("it goes into the tunnel");
    assert_eq!(sealed.len(), 14 + 20 + 8 + 8 + 32 + 16);
    let mut again = sealed.clone();
    again.resize(sealed.len() + 9, 0xee);
    assert_eq!(far.pass(&again), Some(forwarded(packet.clone())));

    let mut tagged = packet.clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    let mut expected = forwarded(packet);
    expected.splice(12..12, [0x81, 0, 0, 7]);
    let sealed = near.pass(&tagged).expect("it goes into the tunnel");
    assert_eq!(sealed[12..18], [0x81, 0, 0, 7, 8, 0]);
    assert_eq!(far.pass(&sealed), Some(expected));
}

#[test]
fn options_of_the_outer_header_and_extensions_are_passed_over() {
    let [mut near, mut far] = Plan::new(Algorithm::Gcm).both();
    let mut sealed = near.pass(&ipv4(100)).expect("it goes into the tunnel");
    sealed.splice(34..34, [1, 1, 1, 0]);
    sealed[14] = 0x46;
    sealed[17] += 4;
    sealed[24..26].fill(0);
    let sum = wire::checksum::of(&sealed[14..38]);
    sealed[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(far.pass(&sealed), Some(forwarded(ipv4(100))));

    let [mut near, mut far] = Plan::new(Algorithm::Gcm).over_ipv6().both();
    let mut sealed = near.pass(&ipv6(100)).expect("it goes into the tunnel");
    sealed.splice(54..54, [50, 0, 1, 4, 0, 0, 0, 0]);
    sealed[20] = 60;
    sealed[19] += 8;
    assert_eq!(far.pass(&sealed), Some(forwarded(ipv6(100))));
}

#[test]
fn checksum_that_a_sender_left_open_is_written_before_it_is_out_of_reach() {
    let [mut near, mut far] = Plan::new(Algorithm::Gcm).both();
    near.checksum = ChecksumState::Partial;
    for packet in [ipv4(101), ipv6(101)] {
        let mut open = packet.clone();
        let (addresses, udp) = if packet[14] >> 4 == 4 { (26..34, 34) } else { (22..54, 54) };
        let length = (packet.len() - udp) as u16;
        // Only the sum of the pseudo-header, as a kernel leaves it on a veth.
        let sum = wire::checksum::Sum::ZERO.bytes(&packet[addresses]).word(17).word(length);
        open[udp + 6..udp + 8].copy_from_slice(&sum.fold().to_be_bytes());
        assert_ne!(open, packet);
        let sealed = near.pass(&open).expect("it goes into the tunnel");
        assert_eq!(far.pass(&sealed), Some(forwarded(packet)));
    }
}
