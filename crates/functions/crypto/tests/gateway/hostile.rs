//! Packets that nobody honest sent.

use std::sync::Arc;

use base::Nanos;
use calisto_nf::esp::{Algorithm, Cipher, Gateway, Job, Others, Secret};
use crypto::IpsecMb;
use proptest::prelude::*;

use crate::ends::{self, End, Plan, forwarded, ipv4, ipv6, sum_ipv4, udp};

fn sealed(near: &mut End, packet: &[u8]) -> Vec<u8> {
    near.pass(packet).expect("it goes into the tunnel")
}

#[test]
fn replayed_packet_is_refused_and_a_late_one_is_not() {
    for algorithm in Algorithm::ALL {
        let [mut near, mut far] = Plan::new(algorithm).both();
        let packets: Vec<_> = (0..200).map(|_| sealed(&mut near, &ipv4(100))).collect();
        assert!(far.pass(&packets[1]).is_some());
        assert!(far.pass(&packets[0]).is_some(), "overtaken, but new");
        far.drops(&packets[0], |counters| &mut counters.replayed);
        assert!(far.pass(&packets[199]).is_some());
        far.drops(&packets[2], |counters| &mut counters.too_old);
        assert!(far.pass(&packets[150]).is_some());
        far.drops(&packets[150], |counters| &mut counters.replayed);
    }
}

#[test]
fn packet_twice_in_one_batch_comes_out_once() {
    let [mut near, mut far] = Plan::new(Algorithm::Gcm).both();
    let packet = sealed(&mut near, &ipv4(100));
    far.process(&vec![packet; 10]);
    let counts = far.counts();
    assert_eq!((counts.opened, counts.replayed), (1, 9));
}

#[test]
fn packet_with_any_bit_changed_is_refused_and_does_not_move_the_window() {
    for algorithm in Algorithm::ALL {
        let [mut near, mut far] = Plan::new(algorithm).both();
        let packet = sealed(&mut near, &ipv4(60));
        // Behind the SPI: another one would be another tunnel's.
        for at in 38..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 0x80 >> (at % 8);
            let is_number = at < 42;
            let before = far.counts();
            assert_eq!(far.pass(&changed), None, "{algorithm}, byte {at}");
            let after = far.counts();
            let refused = after.bad_icv - before.bad_icv + after.too_old - before.too_old;
            assert_eq!(refused, 1, "{algorithm}, byte {at}, of the number: {is_number}");
        }
        assert_eq!(far.pass(&packet), Some(forwarded(ipv4(60))), "{algorithm}");
    }
}

#[test]
fn packet_for_another_tunnel_or_gateway_is_refused() {
    let [mut near, mut far] = Plan::new(Algorithm::Gcm).both();
    let packet = sealed(&mut near, &ipv4(60));
    let mut unknown = packet.clone();
    unknown[37] = 0x77;
    far.drops(&unknown, |counters| &mut counters.unknown_spi);
    // The sender's own packet, back to it: its own number is not one that it is sent to by.
    let mut mirrored = packet.clone();
    mirrored[26..34].copy_from_slice(&[192, 0, 2, 2, 192, 0, 2, 1]);
    sum_ipv4(&mut mirrored);
    near.drops(&mirrored, |counters| &mut counters.unknown_spi);
    // ESP between others is none of this gateway's.
    let mut foreign = packet;
    foreign[30..34].copy_from_slice(&[192, 0, 2, 9]);
    sum_ipv4(&mut foreign);
    far.drops(&foreign, |counters| &mut counters.no_policy);
}

#[test]
fn fragment_of_esp_is_dropped() {
    let [mut near, mut far] = Plan::new(Algorithm::Gcm).both();
    let packet = sealed(&mut near, &ipv4(60));
    for bits in [[0x20, 0], [0, 1]] {
        let mut fragment = packet.clone();
        fragment[20..22].copy_from_slice(&bits);
        sum_ipv4(&mut fragment);
        far.drops(&fragment, |counters| &mut counters.fragment);
    }
    let [mut near, mut far] = Plan::new(Algorithm::Gcm).over_ipv6().both();
    let mut fragment = sealed(&mut near, &ipv6(60));
    fragment.splice(54..54, [50, 0, 0, 1, 0, 0, 0, 9]);
    fragment[20] = 44;
    fragment[19] += 8;
    far.drops(&fragment, |counters| &mut counters.fragment);
}

#[test]
fn esp_that_is_cut_short_anywhere_is_refused() {
    for algorithm in Algorithm::ALL {
        let [mut near, mut far] = Plan::new(algorithm).both();
        let packet = sealed(&mut near, &ipv4(60));
        for len in 34..packet.len() {
            let mut cut = packet[..len].to_vec();
            cut[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
            sum_ipv4(&mut cut);
            assert_eq!(far.pass(&cut), None, "{algorithm}, {len} bytes");
        }
        let counts = far.counts();
        assert_eq!(counts.bad_length + counts.bad_icv, (packet.len() - 34) as u64);
        assert!(counts.bad_length > counts.bad_icv);
    }
}

/// A packet that a holder of the keys sealed: `text` in place of a packet and its trailer.
fn forged(algorithm: Algorithm, number: u32, text: &[u8]) -> Vec<u8> {
    let mut cipher = IpsecMb::open().expect("apt-get install libipsec-mb1");
    let [key, auth] = ends::key(algorithm, 0);
    let key = cipher.expand(&Secret::new(algorithm, &key, &auth).expect("these keys will do"));
    let mut esp = [0x1001u32.to_be_bytes(), number.to_be_bytes()].concat();
    esp.extend(vec![number as u8; algorithm.iv_bytes()]);
    esp.extend(text);
    esp.extend(vec![0; algorithm.icv_bytes()]);
    let mut jobs = [Job { packet: &mut esp, key: &key, sequence_high: None, is_good: false }];
    cipher.seal(&mut jobs);
    assert!(jobs[0].is_good);
    let mut frame = udp("192.0.2.1:1", "192.0.2.2:2", &[]);
    frame.truncate(34);
    frame[23] = 50;
    frame[16..18].copy_from_slice(&(20 + esp.len() as u16).to_be_bytes());
    sum_ipv4(&mut frame);
    frame.extend(esp);
    frame
}

/// A text whose trailer is right: padded, and `next` what it says it is.
fn text(packet: &[u8], next: u8) -> Vec<u8> {
    let mut text = packet.to_vec();
    let padding = (16 - (packet.len() + 2) % 16) % 16;
    text.extend((1..=padding).map(|number| number as u8));
    text.extend([padding as u8, next]);
    text
}

#[test]
fn who_has_the_keys_may_still_not_send_everything() {
    for algorithm in Algorithm::ALL {
        let mut far = Plan::new(algorithm).end(1);
        let good = ipv4(100).split_off(14);
        let mut wrong_pad = text(&good, 4);
        let last = wrong_pad.len() - 3;
        wrong_pad[last] ^= 1;
        let mut long_pad = text(&good, 4);
        let at = long_pad.len() - 2;
        long_pad[at] = 200;
        far.drops(&forged(algorithm, 1, &wrong_pad), |counters| &mut counters.bad_padding);
        far.drops(&forged(algorithm, 2, &long_pad), |counters| &mut counters.bad_padding);
        far.drops(&forged(algorithm, 3, &text(&[0; 30], 59)), |counters| &mut counters.dummy);
        far.drops(&forged(algorithm, 4, &text(&good, 6)), |counters| &mut counters.bad_payload);
        far.drops(&forged(algorithm, 5, &text(&good, 41)), |counters| &mut counters.bad_payload);
        let cut = &good[..good.len() - 1];
        far.drops(&forged(algorithm, 6, &text(cut, 4)), |counters| &mut counters.bad_payload);
        for (source, destination) in [
            ("10.9.0.1:1", "10.2.0.1:1"),
            ("10.1.0.1:1", "10.9.0.1:1"),
            ("10.2.0.1:1", "10.1.0.1:1"),
        ] {
            let spoofed = udp(source, destination, b"x").split_off(14);
            let frame = forged(algorithm, 7, &text(&spoofed, 4));
            far.drops(&frame, |counters| &mut counters.selector_mismatch);
            far = Plan::new(algorithm).end(1);
        }
        // Nobody speaks for our end, whatever networks the tunnel is for.
        let networks: [&'static [&'static str]; 2] = [&["192.0.2.2/31"], &["10.2.0.0/16"]];
        let mut wide = Plan { networks, ..Plan::new(algorithm) }.end(1);
        for (number, source, is_ours) in [(1, "192.0.2.2:1", true), (2, "192.0.2.3:1", false)] {
            let spoofed = udp(source, "10.2.0.1:1", b"x").split_off(14);
            let frame = forged(algorithm, number, &text(&spoofed, 4));
            match is_ours {
                true => wide.drops(&frame, |counters| &mut counters.selector_mismatch),
                false => assert!(wide.pass(&frame).is_some()),
            }
        }
        // Bytes behind the packet only hide its length (RFC 4303 section 2.7).
        let padded = [good.as_slice(), &[7; 40]].concat();
        let opened = far.pass(&forged(algorithm, 9, &text(&padded, 4)));
        assert_eq!(opened.map(|frame| frame[14..].to_vec()), Some(good));
    }
}

#[test]
fn tunnel_stops_when_its_numbers_end() {
    // Too many to send: a peer that has them all is told apart by its number alone.
    let mut far = Plan::new(Algorithm::Gcm).end(1);
    let good = text(&ipv4(100).split_off(14), 4);
    assert!(far.pass(&forged(Algorithm::Gcm, u32::MAX, &good)).is_some());
    far.drops(&forged(Algorithm::Gcm, 1, &good), |counters| &mut counters.too_old);
    far.drops(&forged(Algorithm::Gcm, 0, &good), |counters| &mut counters.too_old);
}

#[test]
fn malformed_headers_are_counted() {
    let mut near = Plan::new(Algorithm::Gcm).end(0);
    let mut sum = ipv4(100);
    sum[24] ^= 1;
    let mut total = ipv4(100);
    total[16] = 9;
    let mut routed = ipv4(100);
    routed[14] = 0x46;
    routed[34] = 131;
    let mut mapped = ipv6(100);
    mapped[22..34].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    for packet in [sum, total, routed, mapped, vec![2; 13]] {
        near.drops(&packet, |counters| &mut counters.malformed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_input_panics_or_comes_out_of_the_tunnel(
        frames in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..200), any::<bool>(), 0..7usize), 1..64),
        algorithm in prop::sample::select(&Algorithm::ALL[..]),
    ) {
        let mut far = Plan { others: Others::Pass, ..Plan::new(algorithm) }.end(1);
        let frames: Vec<Vec<u8>> = frames.into_iter().map(|(bytes, is_esp, cut)| {
            if !is_esp {
                return bytes;
            }
            // A right outer header, so that what is random is the ESP.
            let mut frame = udp("192.0.2.1:1", "192.0.2.2:2", &[]);
            frame.truncate(34);
            frame[23] = 50;
            frame[16..18].copy_from_slice(&(20 + bytes.len() as u16).to_be_bytes());
            sum_ipv4(&mut frame);
            frame.extend(bytes);
            let end = frame.len();
            if let Some(spi) = frame.get_mut(34..38) {
                spi.copy_from_slice(&0x1001u32.to_be_bytes());
            }
            frame.truncate(end.saturating_sub(cut * 5));
            frame
        }).collect();
        far.process(&frames);
        prop_assert_eq!(far.counts().opened, 0);
    }
}

#[test]
fn restart_with_the_same_keys_does_not_repeat_an_iv() {
    let plan = Plan::new(Algorithm::Gcm);
    let mut ivs = std::collections::BTreeSet::new();
    for second in 0..3 {
        let started = Nanos::from_secs(1_700_000_000 + second);
        let gateway = Gateway::new(vec![plan.tunnel(0)], started).expect("the plan is right");
        let mut near = End::of(Arc::new(gateway), Others::Drop);
        for _ in 0..100 {
            ivs.insert(sealed(&mut near, &ipv4(60))[42..50].to_vec());
        }
    }
    assert_eq!(ivs.len(), 300);
}
