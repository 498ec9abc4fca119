//! What a worker keeps to itself about one socket.

use base::{Generation, Nanos};
use shm::sockets::RingDesc;
use tcp::{CloseReason, FlowId};

use crate::app_sockets::AppSockets;
use crate::rings::{Pair, Ring, Rings};

/// One socket. Its positions are the worker's own: those in shared memory are copies.
#[derive(Debug)]
pub(crate) struct Conn {
    /// Its flow; none: it is over.
    pub(super) flow: Option<FlowId>,
    /// The slot's, since this socket has it.
    pub(super) generation: Generation,
    /// Bytes that the application has read, and that were shown to it.
    pub(super) rx_head: u64,
    pub(super) rx_tail: u64,
    /// Bytes that were taken from it, and of those what was shown to be acknowledged.
    pub(super) tx_tail: u64,
    pub(super) tx_head: u64,
    /// The receive ring that it was shown.
    pub(super) rx_desc: RingDesc,
    /// A smaller one that it may still read, up to a position.
    pub(super) outgrown: Option<(Ring, u64)>,
    /// A larger send ring that it was offered.
    pub(super) offered: Option<Ring>,
    /// Rings of a flow that is over.
    pub(super) kept: Option<Pair>,
    /// Why it is over.
    pub(super) reason: Option<CloseReason>,
    pub(super) options_version: u32,
    /// [`SlotOption::QuickAck`](shm::sockets::SlotOption::QuickAck) as it was heeded last.
    pub(super) quick_ack: u32,
    /// [`SlotOption::More`](shm::sockets::SlotOption::More) as it was heeded last.
    pub(super) more: u32,
    /// The sample that a request of it is; 0: none.
    pub(super) trace: u32,
    /// It was opened here, and the slow side has not heard of its end.
    pub(super) was_opened: bool,
    /// Bytes read since a moment: whether a larger window would be used.
    pub(super) read_bytes: u32,
    pub(super) read_since: Nanos,
    /// When it was read from last, or got the receive ring that it has.
    pub(super) idle_since: Nanos,
    /// It stands, or stood.
    pub(super) is_connected: bool,
    pub(super) is_shut: bool,
    /// Its last descriptor is closed: it ends when what was written has been taken.
    pub(super) is_closing: bool,
    /// It ends with a reset, whatever was written.
    pub(super) must_abort: bool,
    /// It was shown that nothing more comes.
    pub(super) is_at_end: bool,
    /// It is to be shown at the end of the turn.
    pub(super) is_touched: bool,
    /// It found its send ring full, and was not told of room since.
    pub(super) was_full: bool,
    /// It was shown to stand.
    pub(super) was_shown: bool,
    /// It is over, and was shown to be.
    pub(super) is_finished: bool,
    /// It was shut both ways: nobody reads what comes after this position.
    pub(super) deaf_from: Option<u64>,
    /// Something came after that, and was answered by a reset.
    pub(super) was_deaf: bool,
    /// What nobody read was taken from it, because memory is short: its program hears of a reset.
    pub(super) is_evicted: bool,
    /// How often its record was written since it is valid; 0: it is not.
    pub(super) turns_written: u64,
}

impl Conn {
    pub(super) fn new(flow: Option<FlowId>, generation: Generation) -> Self {
        Self {
            flow,
            generation,
            rx_head: 0,
            rx_tail: 0,
            tx_tail: 0,
            tx_head: 0,
            rx_desc: RingDesc::NONE,
            outgrown: None,
            offered: None,
            kept: None,
            reason: None,
            options_version: 0,
            quick_ack: 0,
            more: 0,
            trace: 0,
            was_opened: false,
            read_bytes: 0,
            read_since: Nanos::ZERO,
            idle_since: Nanos::ZERO,
            is_connected: false,
            is_shut: false,
            is_closing: false,
            must_abort: false,
            is_at_end: false,
            is_touched: false,
            was_full: false,
            was_shown: false,
            is_finished: false,
            deaf_from: None,
            was_deaf: false,
            is_evicted: false,
            turns_written: 0,
        }
    }

    /// How far it is read now that its flow is over: that says only that somebody still reads.
    pub(super) fn note_read(&mut self, head: u64, now: Nanos) {
        if std::mem::replace(&mut self.rx_head, head) != head {
            self.idle_since = now;
        }
    }

    /// Its rings go back; those of a living flow stay with that.
    pub(super) fn give_back(self, app: &AppSockets, rings: &mut Rings) {
        let spare = [self.outgrown.map(|(ring, _)| ring), self.offered];
        for ring in spare.into_iter().flatten() {
            if let Ring::Shared(ring) = ring {
                app.server.heap().take_back(ring);
            }
        }
        if let Some(pair) = self.kept {
            rings.adopt(pair);
        }
    }
}
