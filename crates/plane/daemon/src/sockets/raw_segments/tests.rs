//! Segments as their receivers read them.

use tcp::{RepairWindow, Seq, Span};
use wire::tcp::{Header, TcpOption};
use wire::{FlowKey, Outcome, Protocol, checksum, classify};

use super::*;

/// A connection whose peer has window for 25,000 bytes from the first that it has not acknowledged.
fn repair(peer: &str, own: &str, timestamp: Option<u32>) -> Repair {
    let [peer, own] = [peer, own].map(|end| end.parse().expect("an address"));
    let nothing = Span { at: 0, bytes: 0 };
    Repair {
        key: FlowKey::new(Protocol::Tcp, peer, own).expect("of one family"),
        send_first: Seq(u32::MAX - 2000),
        queued: nothing,
        sent_bytes: 0,
        receive_first: Seq(700),
        unread: Span { at: 0, bytes: 50 },
        has_peer_closed: false,
        is_shut: false,
        window: RepairWindow {
            snd_wl1: Seq(749),
            snd_wnd: 25_000,
            snd_wnd_max: 25_000,
            rcv_wnd: 6400,
            rcv_wup: Seq(750),
        },
        mss: 1460,
        shifts: [7, 6],
        timestamp,
        sack: true,
    }
}

#[test]
fn a_segment_that_is_sent_again_is_whole_and_says_what_it_said() {
    for (peer, own) in [("10.0.0.1:9", "10.0.0.2:80"), ("[fd00::1]:9", "[fd00::2]:80")] {
        for timestamp in [None, Some(4001)] {
            let repair = repair(peer, own, timestamp);
            for part in [&b"odd"[..], b"even", &[0xff; 1448]] {
                let frame = frame_of(&repair, 77, part).expect("it fits");
                let Outcome::Flow(flow) = classify(&frame) else { panic!("{frame:?}") };
                assert!(checksum::verify(&frame, &flow), "{frame:?}");
                assert_eq!(
                    (flow.key.source(), flow.key.destination()),
                    (repair.key.destination(), repair.key.source(),)
                );
                assert_eq!(&frame[flow.payload_offset.into()..], part);
                let segment = &frame[flow.l4_offset.into()..];
                let header = Header::parse(segment).expect("it is a segment");
                assert_eq!((header.sequence, header.acknowledgement), (77, 750));
                assert_eq!((header.flags, header.window), (header::PSH | header::ACK, 100));
                let options: Vec<TcpOption<'_>> = header.options(segment).collect();
                // Never an odd time: the kernel's clock begins with an even one.
                let now = timestamp.map(|_| TcpOption::Timestamps { value: 4002, echo: 0 });
                assert_eq!(options, now.into_iter().collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn no_more_is_sent_again_than_a_connection_may_begin_with_nor_than_its_peer_has_room_for() {
    let sizes = |repair: &Repair, bytes: usize| {
        let sent = vec![7; bytes];
        segments(repair, &sent).map(|(sequence, part)| (sequence, part.len())).collect::<Vec<_>>()
    };
    let plain = repair("10.0.0.1:9", "10.0.0.2:80", None);
    assert_eq!(sizes(&plain, 0), []);
    // Numbers go round.
    assert_eq!(sizes(&plain, 3000), [(u32::MAX - 2000, 1460), (u32::MAX - 540, 1460), (919, 80)]);
    assert_eq!(sizes(&plain, 100_000).len(), 10);
    let stamped = Repair { timestamp: Some(1), ..plain };
    assert_eq!(sizes(&stamped, 1449)[0].1, 1448);
    let narrow = RepairWindow { snd_wnd: 100, ..plain.window };
    assert_eq!(sizes(&Repair { window: narrow, ..plain }, 3000), [(u32::MAX - 2000, 100)]);
    let shut = RepairWindow { snd_wnd: 0, ..plain.window };
    assert_eq!(sizes(&Repair { window: shut, ..plain }, 3000), []);
}
