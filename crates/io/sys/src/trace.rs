//! Static trace points (USDT): one no-op instruction each, until a tracer puts a hook there.
//!
//! `bpftrace -l 'usdt:./calistod:calisto:*'` lists them. They are for what happens at control rate,
//! and for drops; a packet that is served passes none.

use probe::probe;

/// A table of this epoch is in force; its barriers are open.
#[inline]
pub fn epoch_published(epoch: u32) {
    probe!(calisto, epoch_published, epoch);
}

/// Every old owner has passed the mark of this epoch.
#[inline]
pub fn epoch_finished(epoch: u32) {
    probe!(calisto, epoch_finished, epoch);
}

/// The hand-over of a single group begins.
#[inline]
pub fn move_started(group: u32, from: u16, to: u16) {
    probe!(calisto, move_started, group, from, to);
}

/// The group is its new worker's.
#[inline]
pub fn move_released(group: u32, from: u16, to: u16) {
    probe!(calisto, move_released, group, from, to);
}

/// A hand-over was taken back at its deadline: the worker has not answered.
#[inline]
pub fn handover_aborted(from: u16) {
    probe!(calisto, handover_aborted, from);
}

/// A worker is there.
#[inline]
pub fn worker_added(worker: u16) {
    probe!(calisto, worker_added, worker);
}

/// A worker has ended as asked.
#[inline]
pub fn worker_retired(worker: u16) {
    probe!(calisto, worker_retired, worker);
}

/// A worker has ended without being asked to.
#[inline]
pub fn worker_died(worker: u16) {
    probe!(calisto, worker_died, worker);
}

/// A packet goes no further; `counter` is the position of the counter that says why.
#[inline]
pub fn packet_dropped(counter: usize) {
    probe!(calisto, packet_dropped, counter);
}
