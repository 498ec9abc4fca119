//! Counters: one writer thread each, on cache lines of its own, read by anybody at any time.
//!
//! Ids are only ever appended, so that a recorded series keeps its meaning. A count is a plain
//! load and store by the one writer; readers see each value whole, and a moment old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::{Malformed, NotOurs};

/// Declares counters with a name and a sentence of help each.
macro_rules! counters {
    ($(#[$meta:meta])* $kind:ident { $($variant:ident $name:literal $help:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $kind { $(#[doc = $help] $variant,)* }

        impl $kind {
            /// All of them, in the order of their ids.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name under which it is shown.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it counts.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }
        }
    };
}
pub(crate) use counters;

counters! {
    /// What the dispatcher counts, besides one counter for every [`NotOurs`] and [`Malformed`].
    DispatchEvent {
        Received "rx_packets" "Packets received from all ports.",
        ReceivedBytes "rx_bytes" "Bytes received from all ports.",
        Dispatched "dispatched_packets" "Packets put into a worker's ring.",
        Transmitted "tx_packets" "Packets accepted by a port.",
        Consumed "consumed_packets" "Packets that a worker finished without an answer.",
        RingFull "drop_ring_full" "Packets dropped because their worker's ring was full.",
        HoldOverflow "drop_hold_overflow" "Packets dropped because too many were waiting for hand-overs.",
        NoWorker "drop_no_worker" "Packets dropped because no worker was there to take them.",
        NotListening "drop_not_listening" "Packets for an address and port that nobody here serves.",
        BadChecksum "drop_bad_checksum" "Packets whose IP or transport checksum is wrong.",
        TransmitFault "drop_tx_fault" "Packets dropped because their port is gone or refused them.",
        Held "held_packets" "Packets that waited for a hand-over before they were dispatched.",
        MovesStarted "moves_started" "Single-group hand-overs begun.",
        MovesReleased "moves_released" "Single-group hand-overs that gave the group to its new worker.",
        MovesAborted "moves_aborted" "Single-group hand-overs taken back at the deadline.",
        EpochsPublished "epochs_published" "Whole owner tables published.",
        EpochsFinished "epochs_finished" "Published tables whose every old owner has passed its barrier.",
        BarriersAborted "barriers_aborted" "Workers that missed the deadline of a published table and kept their groups.",
        WorkersDied "workers_died" "Workers that ended without being asked to.",
        Redispatched "redispatched_packets" "Packets that a dead worker had left undone, given to another.",
        ArpAnswered "arp_answered" "ARP requests and neighbour solicitations answered for our addresses.",
        StaleMessages "stale_messages" "Messages of workers about hand-overs that were over.",
        MovesRefused "moves_refused" "Moves of a plan that were out of date or for which no hand-over slot was free.",
        Steps "steps" "Turns of the dispatcher's loop.",
        IdleSteps "idle_steps" "Turns of the dispatcher's loop that found nothing to do.",
        AppNoBuffer "drop_app_no_buffer" "Packets dropped because the application had every buffer of its own.",
        AppTooLong "drop_app_too_long" "Packets dropped because they are longer than the application's buffers, or the other way round.",
        AppFault "drop_app_fault" "Packets dropped because the application is about to be detached.",
        Spoofed "drop_spoofed" "Packets of the application dropped because they name a sender that it did not register.",
        AppNotAFlow "drop_app_not_a_flow" "Packets of the application dropped because they are no whole TCP or UDP packets to one host.",
        AppHeldBack "app_held_back" "Times that the application had to wait because it exceeded its rate of sends or of forbidden packets.",
        AppSent "app_sent" "Packets of the application that were given to a port.",
        WakesDeferred "wakes_deferred" "Wake-ups of the application that came late because there were too many.",
        OtherHost "other_host" "Frames dropped because they are to a link address of another host, such as a promiscuous interface brings.",
    }
}

counters! {
    /// What a worker counts.
    WorkerEvent {
        Packets "packets" "Packets processed.",
        Transmitted "transmitted" "Packets answered or forwarded.",
        Consumed "consumed" "Packets finished without an answer.",
        RefusedNotUdp "refused_not_udp" "Packets refused: the job answers another protocol.",
        RefusedBadRequest "refused_bad_request" "Packets refused: the payload is not a request of this job.",
        RefusedStateFull "refused_state_full" "Packets refused: no room for the state of another flow.",
        FlowInTwoWorkers "flow_in_two_workers" "Packets refused: another worker touched the same flow; always zero unless there is a bug.",
        Barriers "barriers" "Hand-overs that gave groups away.",
        BarriersAborted "barriers_aborted" "Hand-overs found aborted.",
        Attaches "attaches" "Hand-overs that brought groups.",
        Steps "steps" "Turns of the worker's loop.",
        IdleSteps "idle_steps" "Turns of the worker's loop that found nothing to do.",
    }
}

/// A set of counters: the writing end. Not `Clone`: one thread writes.
#[derive(Debug)]
pub struct CounterWriter {
    values: Arc<Values>,
}

/// The reading end.
#[derive(Clone, Debug)]
pub struct CounterReader {
    values: Arc<Values>,
}

/// Aligned so that two threads' counters never share a line (or a prefetched pair of lines).
#[derive(Debug)]
#[repr(align(128))]
struct Values([AtomicU64; VALUES]);

/// Room for the dispatcher's events and every reason of `wire`.
const VALUES: usize = 128;
const NOT_OURS_AT: usize = 48;
const MALFORMED_AT: usize = 80;

const _: () = assert!(DispatchEvent::ALL.len() <= NOT_OURS_AT);
const _: () = assert!(WorkerEvent::ALL.len() <= VALUES);
const _: () = assert!(NOT_OURS_AT + NotOurs::ALL.len() <= MALFORMED_AT);
const _: () = assert!(MALFORMED_AT + Malformed::ALL.len() <= VALUES);

impl CounterWriter {
    /// All zero.
    pub fn new() -> Self {
        Self { values: Arc::new(Values(std::array::from_fn(|_| AtomicU64::new(0)))) }
    }

    /// An end to read from.
    pub fn reader(&self) -> CounterReader {
        CounterReader { values: Arc::clone(&self.values) }
    }

    /// Counts `n` events.
    #[inline]
    pub fn add(&mut self, event: impl Into<CounterId>, n: u64) {
        let value = &self.values.0[event.into().0];
        value.store(value.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self, event: impl Into<CounterId>) -> u64 {
        self.values.0[event.into().0].load(Ordering::Relaxed)
    }
}

impl Default for CounterWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl CounterReader {
    /// The value now.
    pub fn get(&self, event: impl Into<CounterId>) -> u64 {
        self.values.0[event.into().0].load(Ordering::Relaxed)
    }

    /// Every counter of a dispatcher: name, help, value.
    pub fn dispatch_events(&self) -> impl Iterator<Item = (String, &'static str, u64)> {
        let events = DispatchEvent::ALL
            .iter()
            .map(|&event| (event.name().to_owned(), event.help(), self.get(event)));
        let not_ours = NotOurs::ALL.iter().map(|&reason| {
            (format!("not_ours_{}", reason.name()), reason.help(), self.get(reason))
        });
        let malformed = Malformed::ALL.iter().map(|&reason| {
            (format!("malformed_{}", reason.name()), reason.help(), self.get(reason))
        });
        events.chain(not_ours).chain(malformed)
    }

    /// Every counter of a worker: name, help, value.
    pub fn worker_events(&self) -> impl Iterator<Item = (String, &'static str, u64)> {
        let value = |&event: &WorkerEvent| (event.name().to_owned(), event.help(), self.get(event));
        WorkerEvent::ALL.iter().map(value)
    }
}

/// The position of a counter in its set.
#[derive(Clone, Copy, Debug)]
pub struct CounterId(usize);

impl CounterId {
    /// The position: what a tracer sees of a drop.
    pub const fn index(self) -> usize {
        self.0
    }
}

impl From<DispatchEvent> for CounterId {
    fn from(event: DispatchEvent) -> Self {
        Self(event as usize)
    }
}

impl From<WorkerEvent> for CounterId {
    fn from(event: WorkerEvent) -> Self {
        Self(event as usize)
    }
}

impl From<NotOurs> for CounterId {
    fn from(reason: NotOurs) -> Self {
        Self(NOT_OURS_AT + reason as usize)
    }
}

impl From<Malformed> for CounterId {
    fn from(reason: Malformed) -> Self {
        Self(MALFORMED_AT + reason as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_counter_has_a_name_of_its_own_and_a_sentence() {
        let writer = CounterWriter::new();
        let reader = writer.reader();
        let mut names = BTreeSet::new();
        for (name, help, value) in reader.dispatch_events() {
            assert!(help.ends_with('.') && help.len() > 20, "{name}: {help}");
            assert_eq!(value, 0);
            assert!(names.insert(name.clone()), "{name} twice");
        }
        for (name, help, _) in reader.worker_events() {
            assert!(help.ends_with('.'), "{name}: {help}");
        }
    }

    #[test]
    fn reasons_and_events_are_counted_apart() {
        let mut writer = CounterWriter::new();
        let reader = writer.reader();
        writer.add(DispatchEvent::Received, 3);
        for (number, &reason) in Malformed::ALL.iter().enumerate() {
            writer.add(reason, number as u64 + 1);
        }
        writer.add(NotOurs::ALL[0], 9);
        assert_eq!(reader.get(DispatchEvent::Received), 3);
        assert_eq!(reader.get(NotOurs::ALL[0]), 9);
        for (number, &reason) in Malformed::ALL.iter().enumerate() {
            assert_eq!(reader.get(reason), number as u64 + 1);
        }
    }
}
