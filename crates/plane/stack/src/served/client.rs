//! A program with sockets, as one worker knows it.

use std::sync::Arc;

use base::Nanos;
use shm::sockets::ReadyBits;

use super::Conn;
use crate::app_sockets::AppSockets;

/// Looks in a row at a program's marked slots that may find nothing new before it is looked at
/// less often. A mark may come twice for one byte, or too late: that is no reason.
const BARREN_LOOKS: u32 = 4;

/// The longest time between two looks at a program whose marks bring nothing: its own sockets wait
/// that long when there is something after all.
const LEAST_OFTEN: Nanos = Nanos::from_millis(10);

/// A program, as this worker knows it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(super) streams: Arc<AppSockets>,
    /// By slot: those that this worker serves.
    pub(super) conns: Vec<Option<Conn>>,
    /// Where the next look at its ready bits begins.
    pub(super) cursor: u32,
    /// Where the next look for connections that nobody reads begins.
    pub(super) evict_cursor: usize,
    /// Pollers to be rung at the end of the turn.
    pub(super) pollers: [u64; 4],
    pub(super) has_rung: bool,
    /// It waits for its turn.
    pub(super) is_queued: bool,
    /// Looks in a row that have found nothing new.
    barren: u32,
    /// Its marks are not looked at before then.
    look_at: Nanos,
}

impl Client {
    pub(super) fn new(streams: Arc<AppSockets>) -> Self {
        Self {
            streams,
            conns: Vec::new(),
            cursor: 0,
            evict_cursor: 0,
            pollers: [0; 4],
            has_rung: false,
            is_queued: false,
            barren: 0,
            look_at: Nanos::ZERO,
        }
    }

    /// Its marks for a worker.
    pub(super) fn ready_bits(&self, worker: u32) -> Option<ReadyBits<'_>> {
        self.streams.server.memory().worker(worker)
    }

    /// Until when its marks are not looked at, if that is so.
    pub(super) fn rests_until(&self, now: Nanos) -> Option<Nanos> {
        (self.look_at > now).then_some(self.look_at)
    }

    /// Its marks have been looked at, and there was something new, or not. A program whose marks
    /// bring nothing is looked at half as often with every look, down to a floor, and as often as
    /// ever from its first news on.
    pub(super) fn has_looked(&mut self, is_news: bool, now: Nanos) {
        self.barren = if is_news { 0 } else { self.barren.saturating_add(1) };
        let beyond = self.barren.saturating_sub(BARREN_LOOKS).min(14);
        let rest = if beyond == 0 { 0 } else { 1000 << beyond };
        self.look_at = now + Nanos(rest).min(LEAST_OFTEN);
    }
}
