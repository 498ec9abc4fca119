//! What is copied, what is lost, and what is drawn.

use super::*;
use crate::samples::{Frames, tcp, udp};
use crate::{Verdict, Verdicts};

const TO: PortId = PortId(2);

fn settings() -> MirrorSettings {
    MirrorSettings { to: TO, every: 1, bytes: 100, selector: Selector::default(), seed: 7 }
}

/// The copies that leave of what comes by port 1, with what frames there are.
fn copies(mirror: &mut Mirror, packets: &[&[u8]], spare: usize) -> Vec<Vec<u8>> {
    let mut frames = Frames::new();
    let mut batch = frames.batch(packets);
    batch.iter_mut().for_each(|frame| frame.meta_mut().port = PortId(1));
    let mut verdicts = Verdicts::new();
    mirror.process(&mut batch, &mut verdicts, Nanos::ZERO);
    assert!(verdicts.of(packets.len()).iter().all(|verdict| *verdict == Verdict::Next));
    for (frame, packet) in batch.iter().zip(packets) {
        assert_eq!(frame.bytes(), *packet, "they go on as they were");
    }
    frames.give(batch);
    let mut out = Batch::new();
    let mut left = spare;
    mirror.release(&mut out, usize::MAX, &mut || {
        left = left.checked_sub(1)?;
        Some(frames.frame(&[]))
    });
    assert_eq!(mirror.copies_to(), None);
    let leaves = |frame: &Frame| frame.meta().port == TO && frame.meta().transmit;
    assert!(out.iter().all(leaves));
    let copies = out.iter().map(|frame| frame.bytes().to_vec()).collect();
    frames.give(out);
    copies
}

#[test]
fn what_is_chosen_is_copied_as_it_is_up_to_so_many_bytes_and_goes_on() {
    let selector = Selector { protocol: Some(17), ..Selector::default() };
    let mut mirror = Mirror::new(&MirrorSettings { selector, ..settings() }).expect("it can be");
    let (short, long) = (udp(["10.0.0.1:1", "10.0.0.2:2"], b"a"), [7; 200]);
    let long = udp(["10.0.0.1:1", "10.0.0.2:2"], &long);
    let other = tcp(["10.0.0.1:1", "10.0.0.2:2"], b"b");
    let all = copies(&mut mirror, &[&short, &other, &long, &[0; 5]], 9);
    assert_eq!(all, [short.clone(), long[..100].to_vec()]);
    let expected = MirrorCounters { mirrored: 2, ..MirrorCounters::default() };
    assert_eq!(*mirror.counts(), expected);
    // Without a choice even what is no packet is copied.
    let mut mirror = Mirror::new(&settings()).expect("it can be");
    assert_eq!(copies(&mut mirror, &[&short, &[0; 5]], 9), [short, vec![0; 5]]);
}

#[test]
fn copies_without_a_frame_are_lost_and_counted_and_no_packet_is() {
    let mut mirror = Mirror::new(&settings()).expect("it can be");
    let packet = udp(["10.0.0.1:1", "10.0.0.2:2"], b"a");
    assert_eq!(copies(&mut mirror, &[&packet, &packet, &packet], 2).len(), 2);
    let expected = MirrorCounters { mirrored: 2, no_room: 1, ..MirrorCounters::default() };
    assert_eq!(*mirror.counts(), expected);
    // Nobody takes those of the first batch.
    let mut frames = Frames::new();
    for _ in 0..2 {
        let mut batch = frames.batch(&[&packet[..]; BURST]);
        batch.iter_mut().for_each(|frame| frame.meta_mut().port = PortId(1));
        mirror.process(&mut batch, &mut Verdicts::new(), Nanos::ZERO);
        frames.give(batch);
    }
    assert_eq!(mirror.counts().no_room, 1 + BURST as u64);
    let mut next = Mirror::new(&settings()).expect("it can be");
    next.take_over(&mirror);
    let expected = MirrorCounters { mirrored: 2, no_room: 129, ..MirrorCounters::default() };
    assert_eq!(*next.counts(), expected);
}

#[test]
fn one_of_so_many_is_drawn_and_nothing_that_came_by_the_port_of_the_copies() {
    let every = 10;
    let mut mirror = Mirror::new(&MirrorSettings { every, ..settings() }).expect("it can be");
    let packet = udp(["10.0.0.1:1", "10.0.0.2:2"], b"a");
    for _ in 0..2000 {
        copies(&mut mirror, &[&packet[..]; 10], BURST);
    }
    let MirrorCounters { mirrored, unchosen, .. } = *mirror.counts();
    assert_eq!(mirrored + unchosen, 20_000);
    assert!((1700..2300).contains(&mirrored), "{mirrored}");
    let mut mirror = Mirror::new(&settings()).expect("it can be");
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[&packet[..]]);
    batch[0].meta_mut().port = TO;
    mirror.process(&mut batch, &mut Verdicts::new(), Nanos::ZERO);
    frames.give(batch);
    assert_eq!(mirror.copies_to(), None);
}

#[test]
fn the_copy_of_a_packet_whose_tag_the_port_took_off_has_its_tag_and_room_for_it() {
    let mut mirror = Mirror::new(&settings()).expect("it can be");
    let mut frames = Frames::new();
    let packet = udp(["10.0.0.1:1", "10.0.0.2:2"], &[7; 200]);
    let mut batch = frames.batch(&[&packet[..]; 2]);
    batch[0].meta_mut().vlan_tci = 0x6005;
    batch.iter_mut().for_each(|frame| frame.meta_mut().port = PortId(1));
    mirror.process(&mut batch, &mut Verdicts::new(), Nanos::ZERO);
    assert_eq!(mirror.copies_to(), Some(TO));
    frames.give(batch);
    let mut out = Batch::new();
    mirror.release(&mut out, 80, &mut || Some(frames.frame(&[])));
    let sent: Vec<_> = out.iter().map(|frame| (frame.meta().vlan_tci, frame.len())).collect();
    assert_eq!(sent, [(0x6005, 76), (0, 80)]);
    frames.give(out);
}
