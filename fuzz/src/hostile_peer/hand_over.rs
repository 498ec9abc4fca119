//! What another TCP would be told of each connection, after every step: it holds every byte, and
//! Linux would take it.

use tcp::{Engine, NoRepair, Repair, State};

use super::application::{Applications, Record};
use super::harness::Harness;
use super::sink::Rings;
use super::wire_side::{HOSTILE, ORIGIN, Side, content, streams};

/// Of TCP's window scale option (RFC 7323 section 2.3).
const SHIFT_MAX: u8 = 14;

impl Harness {
    /// The flow that `side` had last goes on elsewhere: nothing is said of it any more.
    pub(super) fn hand_over(&mut self, side: usize) {
        self.turn();
        let Some(record) = self.applications.of(side).copied() else { return };
        let Some(host) = &mut self.hosts[record.host] else { return };
        if host.engine.repair(record.id, self.now).is_err() {
            return;
        }
        assert!(host.engine.let_go(record.id) && !host.engine.let_go(record.id));
        assert_eq!(host.engine.state(record.id), None);
        assert_eq!(host.engine.repair(record.id, self.now), Err(NoRepair::Gone));
        host.rings.clear(record.id);
        let Applications { records, .. } = &mut self.applications;
        records.retain(|other| (other.host, other.id) != (record.host, record.id));
        self.turn();
    }

    /// What is true of what is told of every flow.
    pub(super) fn check_repairs(&self) {
        for record in &self.applications.records {
            let Some(host) = &self.hosts[record.host] else { continue };
            let state = host.engine.state(record.id);
            let half = [State::SynSent, State::SynReceived];
            match host.engine.repair(record.id, self.now) {
                Ok(repair) => {
                    check_kernel(&repair);
                    let Some(side) = record.side else { continue };
                    let side = (side, &self.sink.sides[side]);
                    if side.1.number == record.number {
                        check_bytes(&host.engine, &host.rings, record, side, &repair);
                    }
                }
                Err(NoRepair::Gone) => {
                    assert!(
                        matches!(state, None | Some(State::TimeWait | State::Closed)),
                        "{state:?}"
                    );
                }
                Err(NoRepair::NotEstablished | NoRepair::Urgent) => {}
            }
            assert!(
                state.is_none_or(|state| !half.contains(&state))
                    || host.engine.repair(record.id, self.now) == Err(NoRepair::NotEstablished)
            );
        }
    }
}

/// As `tcp_repair_set_window` and `tcp_repair_options_est` of Linux look at it.
fn check_kernel(repair: &Repair) {
    let window = &repair.window;
    let rcv_nxt = repair.receive_first + repair.unread.bytes;
    assert!(window.snd_wnd_max >= window.snd_wnd, "{repair:?}");
    assert!(!window.snd_wl1.is_after(rcv_nxt + window.rcv_wnd), "{repair:?}");
    assert!(!window.rcv_wup.is_after(rcv_nxt), "{repair:?}");
    assert!(repair.shifts.iter().all(|shift| *shift <= SHIFT_MAX), "{repair:?}");
    assert!(repair.sent_bytes <= repair.queued.bytes && repair.mss > 0, "{repair:?}");
}

fn check_bytes(
    engine: &Engine,
    rings: &Rings,
    record: &Record,
    (number, side): (usize, &Side),
    repair: &Repair,
) {
    let (incoming, outgoing) = streams(number);
    let ring = &rings.send[record.id.index()];
    let queued = repair.queued;
    assert!(queued.bytes <= record.written, "{repair:?}");
    let from = record.written - queued.bytes;
    for offset in 0..queued.bytes {
        let at = (queued.at + offset as usize) % ring.len();
        assert_eq!(ring[at], content(outgoing, from + offset), "the end of what was written");
    }
    if let Some(iss) = side.iss {
        assert_eq!(repair.send_first, iss + 1 + from, "its place among the numbers");
        assert!(!(repair.send_first + repair.sent_bytes).is_after(side.nxt), "what has left");
    }
    let ring = &rings.receive[record.id.index()];
    let unread = repair.unread;
    assert_eq!(
        unread.bytes,
        engine.readable(record.id).bytes,
        "{repair:?} {:?}",
        engine.state(record.id)
    );
    let is_misled = record.is_misled || side.is_misled;
    for offset in 0..unread.bytes {
        let at = (unread.at + offset as usize) % ring.len();
        let expected = content(incoming, record.read + offset);
        assert!(is_misled || ring[at] == expected, "what was sent and not read");
    }
    if number < HOSTILE && !is_misled {
        let place = repair.receive_first.since(ORIGIN + 1) as u16;
        assert_eq!(place, record.read as u16, "its place among the peer's numbers");
    }
    // What was promised is kept, and no more is than the ring takes.
    if let Some(acked) = side.acked {
        let edge = repair.window.rcv_wup + repair.window.rcv_wnd;
        assert!(!edge.is_before(acked), "{repair:?}");
        let room = ring.len().max(rings.receive_bytes) as u32;
        assert!(edge.since(repair.receive_first) <= room + 1, "{room}: {repair:?}");
    }
}
