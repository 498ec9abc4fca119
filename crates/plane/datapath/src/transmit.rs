//! The way back: what workers have done is collected and leaves by its port.

use base::{BURST, Nanos, WorkerId};
use port::Port;
use port::xdp::PIECES_MAX;
use shm::Frame;

use crate::apps::Apps;
use crate::counters::DispatchEvent;
use crate::dispatch_context::DispatchContext;
use crate::dispatcher::{Dispatcher, DispatcherPort};
use crate::message::FromWorker;

impl<P: Port> Dispatcher<P> {
    /// Takes messages of workers while every port has room for one more packet. A port that
    /// takes nothing so holds the workers back, and they their rings: nothing is lost silently.
    /// Everybody gets a fair part of the room first, and whoever has more to say the rest.
    #[inline]
    pub(crate) fn collect(&mut self, now: Nanos) -> usize {
        let Self { pool, apps, ports, .. } = self;
        let room = ports.iter().map(|dispatcher_port| room_of(dispatcher_port)).min();
        let room = room.unwrap_or(BURST);
        let alone = apps.is_alone();
        let mut left = room;
        let mut share = if alone { room } else { (room / 4).max(1) };
        for _ in 0..2 {
            let mut was_cut_short = false;
            apps.each_in_turn(pool, now, |steering, context| {
                let budget = share.min(left);
                let taken = steering.drain(context, budget, |message, context| {
                    take(ports, message, context);
                });
                was_cut_short |= taken >= budget;
                left -= taken.min(left);
                left > 0
            });
            if alone || left == 0 || !was_cut_short {
                break;
            }
            share = left;
        }
        room - left
    }

    /// The same for one of the own workers.
    pub(crate) fn collect_worker_queue(&mut self, worker: WorkerId, now: Nanos) -> usize {
        let Self { pool, apps, ports, .. } = self;
        let room = ports.iter().map(|dispatcher_port| room_of(dispatcher_port)).min();
        let Apps { own, counters, .. } = apps;
        let mut context = DispatchContext { pool, counters, now };
        let room = room.unwrap_or(BURST).max(1);
        own.drain_worker_queue(worker.index(), &mut context, room, &mut |message, context| {
            take(ports, message, context);
        })
    }

    /// Gives every port what waits for it.
    #[inline]
    pub(crate) fn send(&mut self, now: Nanos) -> usize {
        let mut sent = 0;
        let is_captured = !self.captures.is_empty();
        for (index, dispatcher_port) in self.ports.iter_mut().enumerate() {
            if dispatcher_port.backlog.is_empty() {
                continue;
            }
            if is_captured {
                let new =
                    dispatcher_port.backlog.get(dispatcher_port.captured..).unwrap_or_default();
                self.captures.sent(index, new, &self.listeners, now);
            }
            sent += dispatcher_port.port.tx(&mut self.pool, &mut dispatcher_port.backlog, now);
            // What is left was seen, and is seen once.
            dispatcher_port.captured = dispatcher_port.backlog.len();
            if !dispatcher_port.backlog.is_empty() && dispatcher_port.port.fault().is_some() {
                let Self { pool, apps, .. } = self;
                let mut context = DispatchContext { pool, counters: &mut apps.counters, now };
                for frame in dispatcher_port.backlog.drain(..) {
                    context.drop(frame, DispatchEvent::TransmitFault);
                }
                dispatcher_port.captured = 0;
            }
        }
        if is_captured {
            self.captures.hand_over_due(now);
        }
        if sent > 0 {
            self.apps.counters.add(DispatchEvent::Transmitted, sent as u64);
        }
        sent
    }
}

/// Messages that may be taken for a port: what is left of its backlog, less what a packet of
/// several frames may come with after the last of them was counted.
#[inline]
fn room_of<P: Port>(dispatcher_port: &DispatcherPort<P>) -> usize {
    let reserve = if dispatcher_port.gets_pieces { PIECES_MAX - 1 } else { 0 };
    dispatcher_port.backlog.remaining_capacity().saturating_sub(reserve)
}

#[inline]
fn take<P>(
    ports: &mut [DispatcherPort<P>],
    message: FromWorker,
    context: &mut DispatchContext<'_>,
) {
    match message {
        FromWorker::Packet(frame) if frame.meta().transmit => enqueue(ports, frame, context),
        FromWorker::Packet(frame) => context.drop(frame, DispatchEvent::Consumed),
        FromWorker::Passed(_) | FromWorker::Wants(_) | FromWorker::Retired => {
            unreachable!("the steering keeps these messages to itself")
        }
    }
}

#[inline]
fn enqueue<P>(ports: &mut [DispatcherPort<P>], frame: Frame, context: &mut DispatchContext<'_>) {
    match ports.get_mut(usize::from(frame.meta().port.0)) {
        Some(dispatcher_port) if !dispatcher_port.backlog.is_full() => {
            dispatcher_port.backlog.push(frame)
        }
        _ => context.drop(frame, DispatchEvent::TransmitFault),
    }
}
