//! Marks in the stream, gigabytes later: numbers go around, and what was true of one long ago must
//! not seem true of another.

use base::Nanos;
use wire::tcp::{ACK, PSH, URG};

use super::{Acked, Agreed, Arrival, PEER_START, Said, Side, header};
use crate::Algorithm;
use crate::io::Event;

/// A quarter of the circle.
const GIB: u32 = 1 << 30;

fn standing(now: Nanos) -> Side {
    let agreed = Agreed {
        timestamps: false,
        sack: true,
        ecn: false,
        pacing: false,
        congestion: Algorithm::NewReno,
    };
    let mut side = Side::new(&agreed, now, true);
    side.said.clear();
    side
}

impl Side {
    /// Lets that many bytes have come and been read.
    fn have_received(&mut self, bytes: u32) {
        let flow = &mut self.engine.flows[0];
        for number in [
            &mut flow.rcv_nxt,
            &mut flow.rcv_adv,
            &mut flow.rcv_read,
            &mut flow.rcv_acked,
            &mut flow.snd_wl1,
        ] {
            *number += bytes;
        }
    }

    /// Sends a full segment, which is acknowledged, and lets almost a gibibyte more have been sent
    /// before it.
    fn have_sent_a_gib(&mut self, now: Nanos) {
        let flow = &mut self.engine.flows[0];
        assert!(flow.sent.is_empty(), "nothing is on its way");
        let mss = u32::from(flow.mss);
        for number in [&mut flow.snd_una, &mut flow.snd_nxt, &mut flow.snd_end] {
            *number += GIB - mss;
        }
        self.write(mss);
        self.turn(now);
        self.hear(now, Acked::All);
    }

    fn write(&mut self, bytes: u32) {
        let flow = self.flow();
        self.engine.send(flow, bytes).expect("there is room");
    }

    fn hear(&mut self, now: Nanos, acked: Acked) {
        let bytes = Arrival { acked, ..Arrival::of(ACK) }.bytes(self, now);
        self.receive(now, &bytes, 0);
        self.turn(now);
    }

    /// Payload bytes of what was sent since the last call.
    fn sent(&mut self) -> Vec<usize> {
        let said = std::mem::take(&mut self.said);
        let payload = |said| match said {
            Said::Segment { bytes, .. } => Some(bytes.len() - usize::from(bytes[12] >> 4) * 4),
            Said::Event(_) => None,
        };
        said.into_iter().filter_map(payload).collect()
    }
}

#[test]
fn an_urgent_byte_that_was_read_is_none_gigabytes_later() {
    let now = Nanos::from_secs(1000);
    let mut side = standing(now);
    let flow = side.flow();
    let mut segment = header(ACK | PSH | URG, PEER_START + 1, 0, 1000, &[]);
    let una = side.engine.flows[0].snd_una;
    segment[8..12].copy_from_slice(&una.0.to_be_bytes());
    segment[18..20].copy_from_slice(&3_u16.to_be_bytes());
    segment.extend([1, 2, 3]);
    side.receive(now, &segment, 0);
    assert!(side.said.contains(&Said::Event(Event::Urgent { flow })));
    assert_eq!(side.engine.urgent(flow), Some(2), "two bytes come before it");
    side.engine.consume(flow, 2).expect("they have come");
    assert_eq!(side.engine.urgent(flow), Some(0), "it is next");
    side.engine.consume(flow, 1).expect("it has come");
    for gib in 0..4 {
        assert_eq!(side.engine.urgent(flow), None, "after {gib} GiB");
        side.have_received(GIB);
    }
}

#[test]
fn a_small_segment_that_was_acknowledged_holds_nothing_back_gigabytes_later() {
    // RFC 9293 section 3.7.4, as Minshall has it: one small segment on its way, and no other.
    let now = Nanos::from_secs(1000);
    let mut side = standing(now);
    side.write(10);
    side.turn(now);
    side.hear(now, Acked::All);
    let mss = u32::from(side.engine.flows[0].mss);
    for gibs in 1..=4 {
        (0..gibs).for_each(|_| side.have_sent_a_gib(now));
        side.sent();
        side.write(mss);
        side.turn(now);
        side.write(5);
        side.turn(now);
        assert_eq!(side.sent(), [mss as usize, 5], "after {gibs} GiB");
        side.hear(now, Acked::All);
    }
}

#[test]
fn a_report_of_what_came_twice_is_heeded_gigabytes_after_the_last() {
    // RFC 8985 section 6.2 step 4: once a round trip.
    let now = Nanos::from_secs(1000);
    let mut side = standing(now);
    let mss = u32::from(side.engine.flows[0].mss);
    let report = |side: &mut Side| {
        side.write(2 * mss);
        side.turn(now);
        let una = side.engine.flows[0].snd_una;
        let first = [una.0.to_be_bytes(), (una + mss).0.to_be_bytes()].concat();
        let options = [&[1, 1, 5, 10], &first[..]].concat();
        let next = side.engine.flows[0].rcv_nxt;
        let segment = header(ACK, next.0, (una + mss).0, u16::MAX, &options);
        side.receive(now, &segment, 0);
        side.turn(now);
        side.hear(now, Acked::All);
    };
    let window = |side: &Side| {
        let (shortest, smoothed) = (Some(Nanos(4)), Some(Nanos(1000)));
        side.engine.cold[0].board.reordering_window(false, shortest, smoothed)
    };
    let mut last = window(&side);
    for gibs in 0..4 {
        (0..gibs).for_each(|_| side.have_sent_a_gib(now));
        report(&mut side);
        let next = window(&side);
        assert!(next > last, "after {gibs} GiB");
        last = next;
    }
}
