//! An application as the dispatcher sees it: what it may do, what it has done, and why it must go.
//!
//! Everything that it says passes through here and is checked: see [`egress`] for what it may send.
//! What it does wrong costs itself only: violations end its attachment, packets that it may not
//! send are dropped and counted, and an application that goes on with that is looked at less often.

mod app_dispatch;
mod egress;

use std::fmt;
use std::sync::Arc;

use base::{AppId, FrameMeta, NO_FRAGMENT, Nanos};
use port::Stations;
use shm::packets::{Delivery, FromApp, Packet, PacketQueue, PacketServer};
use shm::{Frame, FramePool, ProtocolViolation};

pub use app_dispatch::{AppDispatch, NewApp};
pub use egress::Egress;

use crate::counters::{CounterWriter, DispatchEvent};
use crate::message::FromWorker;
use crate::rate_limit::RateLimit;

/// Packets that it may not send, and answers without a question, at most this many a second: each
/// costs the dispatcher some 100 ns, and beyond this it waits for its next turn.
const OFFENCES_PER_SECOND: u32 = 16_000;
const OFFENCES_AT_ONCE: u32 = 64;

/// Wake-ups that pass at once.
const WAKES_AT_ONCE: u32 = 64;

/// Names one attachment of one application; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentId {
    /// The application's position in the dispatcher's table; zero is the dispatcher's own workers.
    pub(crate) app: AppId,
    /// Which use of that position.
    pub(crate) turn: u32,
}

impl AttachmentId {
    /// The dispatcher's own workers.
    pub const OWN: Self = Self { app: AppId(0), turn: 0 };

    /// The id as one number, for people and logs: which attachment it was since the start.
    pub const fn number(self) -> u32 {
        self.turn
    }
}

impl fmt::Display for AttachmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// What an application may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppLimits {
    /// Packets that it may send in a second; 0: any number.
    pub packets_per_s: u32,
    /// Times that its workers are woken in a second; 0: any number. Beyond it, wake-ups come late.
    pub wakes_per_s: u32,
    /// It is detached when a worker has left a packet in its ring for this long.
    pub stall: Nanos,
}

/// Why an application is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetachReason {
    /// It asked for it.
    Left,
    /// Its process ended.
    Died,
    /// It wrote into shared memory what no honest program writes.
    Violation(ProtocolViolation),
    /// It sent a message to the daemon that it must not send.
    Protocol,
    /// It left its packets alone for too long: stopped, or stuck.
    Stalled,
    /// A worker of it named a thread that is not its process's, or its thread has ended.
    StrayThread,
    /// An operator has thrown it out.
    Operator,
    /// The daemon ends.
    DaemonEnds,
}

impl DetachReason {
    /// The name under which it is counted and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Died => "died",
            Self::Violation(_) => "lied",
            Self::Protocol => "protocol",
            Self::Stalled => "stalled",
            Self::StrayThread => "stray_thread",
            Self::Operator => "operator",
            Self::DaemonEnds => "daemon_ends",
        }
    }

    /// The number that the application finds in its own memory (crate `attach` names it); never
    /// zero.
    pub const fn code(self) -> u32 {
        match self {
            Self::Stalled => 1,
            Self::Violation(_) => 2,
            Self::Protocol => 3,
            Self::Operator => 4,
            Self::DaemonEnds => 5,
            // The dead do not read it.
            Self::Left | Self::Died => 6,
            Self::StrayThread => 7,
        }
    }
}

impl fmt::Display for DetachReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("it left"),
            Self::Died => f.write_str("its process ended"),
            Self::Violation(violation) => {
                write!(f, "it broke the rules of the shared memory: {violation}")
            }
            Self::Protocol => f.write_str("it sent a message that it must not send"),
            Self::Stalled => f.write_str("it left packets in its rings for too long"),
            Self::StrayThread => {
                f.write_str("a worker named a thread that is not its own, or has lost its thread")
            }
            Self::Operator => f.write_str("an operator detached it"),
            Self::DaemonEnds => f.write_str("the daemon ends"),
        }
    }
}

/// The dispatcher's side of one application's memory, with its limits.
#[derive(Debug)]
pub(crate) struct AppSide {
    server: PacketServer,
    egress: Egress,
    stall: Nanos,
    sends: RateLimit,
    wakes: RateLimit,
    offences: RateLimit,
    fault: Option<DetachReason>,
    /// Since when it has had every buffer, as far as somebody wanted one.
    starved_since: Option<Nanos>,
    /// A wake-up that was too many waits for its time.
    pub(crate) wake_owed: bool,
    /// No worker of it has a core: what waits is not its fault.
    is_excused: bool,
}

/// What a look at a worker's ring gave.
#[derive(Debug)]
pub(crate) enum Taken {
    /// A message for the steering or the ports, and how many were taken with it.
    Message(FromWorker, usize),
    /// Messages that needed no more than that; how many.
    Handled(usize),
    /// Nothing.
    Nothing,
}

impl AppSide {
    pub(crate) fn new(server: PacketServer, egress: Egress, limits: &AppLimits) -> Self {
        Self {
            server,
            egress,
            stall: limits.stall,
            // A burst of a hundredth of a second passes at once.
            sends: RateLimit::new(limits.packets_per_s, (limits.packets_per_s / 100).max(64)),
            wakes: RateLimit::new(limits.wakes_per_s, WAKES_AT_ONCE),
            offences: RateLimit::new(OFFENCES_PER_SECOND, OFFENCES_AT_ONCE),
            fault: None,
            starved_since: None,
            wake_owed: false,
            is_excused: false,
        }
    }

    /// Its memory.
    pub(crate) fn server(&self) -> &PacketServer {
        &self.server
    }

    /// Whether a buffer is here for one more packet.
    pub(crate) fn has_buffer(&self) -> bool {
        self.server.held() < self.server.sizes().receive_chunks as usize
    }

    /// Why it must be detached, if it must.
    pub(crate) fn fault(&self) -> Option<DetachReason> {
        self.fault
    }

    /// The first fault is the one that is told.
    pub(crate) fn report_violation(&mut self, violation: ProtocolViolation) {
        self.fault.get_or_insert(DetachReason::Violation(violation));
    }

    /// Gives a packet to a worker. The event is why it cannot be.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        worker_queue: &mut PacketQueue,
        frame: &Frame,
        now: Nanos,
    ) -> Result<(), DispatchEvent> {
        match self.server.deliver(worker_queue, frame) {
            Ok(Delivery::Staged) => {
                if frame.meta().vlan_tci != 0
                    || frame.meta().l3_offset > wire::ethernet::HEADER_BYTES
                {
                    self.egress.saw_tag_of(frame);
                }
                Ok(())
            }
            Ok(Delivery::RingFull) => Err(DispatchEvent::RingFull),
            Ok(Delivery::NoBuffer) => {
                let since = *self.starved_since.get_or_insert(now);
                if now.since(since) >= self.stall && !self.is_excused {
                    self.fault.get_or_insert(DetachReason::Stalled);
                }
                Err(DispatchEvent::AppNoBuffer)
            }
            Ok(Delivery::TooLong) => Err(DispatchEvent::AppTooLong),
            Err(violation) => {
                self.report_violation(violation);
                Err(DispatchEvent::AppFault)
            }
        }
    }

    /// Takes what a worker says, up to the first message that others must see, `budget` messages
    /// at most.
    pub(crate) fn take(
        &mut self,
        worker_queue: &mut PacketQueue,
        pool: &mut FramePool,
        counters: &mut CounterWriter,
        budget: usize,
        now: Nanos,
    ) -> Taken {
        let mut handled = 0;
        while handled < budget && self.fault.is_none() {
            if !self.offences.allows(now) || !self.sends.allows(now) {
                counters.add(DispatchEvent::AppHeldBack, 1);
                break;
            }
            // An answer needs a frame of ours; without one it waits where it is.
            let Some(mut frame) = pool.take() else { break };
            let message = match self.server.collect(worker_queue) {
                Ok(message) => message,
                Err(violation) => {
                    self.report_violation(violation);
                    None
                }
            };
            let Some(message) = message else {
                pool.give(frame);
                break;
            };
            handled += 1;
            match message {
                FromApp::Passed(ticket) => {
                    pool.give(frame);
                    return Taken::Message(FromWorker::Passed(ticket), handled);
                }
                FromApp::Retired => {
                    pool.give(frame);
                    return Taken::Message(FromWorker::Retired, handled);
                }
                FromApp::Packet(packet) => {
                    self.starved_since = None;
                    if !packet.0.meta.transmit {
                        counters.add(DispatchEvent::Consumed, 1);
                        pool.give(frame);
                        continue;
                    }
                    match self.admit(&packet, &mut frame, now) {
                        Ok(()) => {
                            counters.add(DispatchEvent::AppSent, 1);
                            return Taken::Message(FromWorker::Packet(frame), handled);
                        }
                        Err(event) => {
                            counters.add(event, 1);
                            pool.give(frame);
                        }
                    }
                }
            }
        }
        if handled == 0 { Taken::Nothing } else { Taken::Handled(handled) }
    }

    /// See [`Egress::follow`].
    pub(crate) fn follow(&mut self, stations: Vec<Arc<Stations>>) {
        self.egress.follow(stations);
    }

    /// Copies a packet into `frame` and looks whether the application may send it: the copy is
    /// what was checked and what leaves.
    fn admit(
        &mut self,
        packet: &Packet,
        frame: &mut Frame,
        now: Nanos,
    ) -> Result<(), DispatchEvent> {
        let asked = packet.0.meta;
        let checked = if self.server.copy_out(packet, frame) {
            // Nothing else that it wrote into the descriptor is believed.
            *frame.meta_mut() = FrameMeta {
                port: asked.port,
                vlan_tci: asked.vlan_tci,
                tx_checksum: asked.tx_checksum,
                tx_checksum_start: asked.tx_checksum_start,
                tx_checksum_offset: asked.tx_checksum_offset,
                next_fragment: NO_FRAGMENT,
                transmit: true,
                ..FrameMeta::UNKNOWN
            };
            self.egress.check(frame)
        } else {
            Err(DispatchEvent::AppTooLong)
        };
        match checked {
            Ok(()) => {
                self.sends.take(now);
                Ok(())
            }
            Err(event) => {
                self.offended(now);
                Err(event)
            }
        }
    }

    /// Whether a sleeping worker may be woken now.
    pub(crate) fn may_wake(&mut self, now: Nanos) -> bool {
        let may = self.wakes.take(now);
        self.wake_owed |= !may;
        may
    }

    /// When a wake-up that waits for its time, or messages that were left, are due.
    pub(crate) fn next_deadline(&self) -> Nanos {
        if self.wake_owed { self.wakes.next() } else { Nanos::FAR_FUTURE }
    }

    /// It has made work that it had no right to make.
    pub(crate) fn offended(&mut self, now: Nanos) {
        self.offences.take(now);
    }

    /// Whether no worker of it has a core. When one has again, its time begins anew.
    pub(crate) fn excuse(&mut self, excused: bool) {
        if std::mem::replace(&mut self.is_excused, excused) && !excused {
            self.starved_since = None;
        }
    }

    /// A worker has left its oldest packet alone for `delay`.
    pub(crate) fn waited(&mut self, delay: Nanos) {
        if delay >= self.stall && !self.is_excused {
            self.fault.get_or_insert(DetachReason::Stalled);
        }
    }
}
