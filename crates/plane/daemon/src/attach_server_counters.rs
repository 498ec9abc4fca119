//! What the thread at the attach server has refused and ended, by reason: shown by `calisto stats`.

use std::sync::atomic::{AtomicU64, Ordering};

use admin::{DescriptorStatus, RingMemoryStatus};
use shm::sockets::Budget;

use crate::guardian::GuardianState;

/// Builds the enum, names and sentences of help from one table.
macro_rules! events {
    ($($name:ident $word:literal $help:literal;)*) => {
        /// Something that an operator may want to know the number of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum AttachServerEvent {
            $(#[doc = $help] $name,)*
        }

        const EVENTS: &[(&str, &str)] = &[$(($word, $help)),*];
    };
}

events! {
    RightsLost "attach_rights_lost" "listeners and UDP sockets that were ended because the kernel gives their port to them no more";
    FirewallAppeared "attach_firewall_appeared" "times that packet filter rules came while sockets were served, which were put out then";
    ControlGroupFilterAppeared "attach_control_group_filter_appeared" "times that BPF programs over the control group of served programs came, which were put out then";
    ProgramsPutOut "attach_programs_put_out" "programs whose sockets were served and that were put out while they lived: for what they did, by an operator, or because of filters";
    PlaceShareUsedUp "attach_place_share_used_up" "applications that were refused because their user has as many places as a user may";
    HandshakesDelayed "attach_handshakes_delayed" "applications that had to wait because their user begins with more of them than a user may at once";
    StrangersEvicted "attach_strangers_evicted" "connections that were closed because they did not say what they want and others waited";
    PortShareUsedUp "attach_port_share_used_up" "connections that were left to the kernel because their user holds as many ports that the kernel chooses as a user may";
    FlowShareUsedUp "attach_flow_share_used_up" "connections that were left to the kernel because their user has as many as a user may have on the interfaces";
    DescriptorShareUsedUp "attach_descriptor_share_used_up" "requests that were refused because they need a descriptor of the daemon and their user has as many as a user may";
    NextHopShareUsedUp "attach_next_hop_share_used_up" "questions for the next hop of datagrams that were not asked because their user has as many open as a user may, or asks too often";
    NamesGivenEarly "attach_names_given_early" "ports of ended connections that were given up before their time (TIME-WAIT) because the daemon had no descriptor left";
    ClaimShareUsedUp "attach_claim_share_used_up" "listeners and UDP sockets that were left to the kernel because their user has as many addresses as a user may";
    InterfacesGone "attach_interfaces_gone" "times that the interface of a port was found to be gone";
    LookerEnded "attach_looker_ended" "times that the process that looks for open sockets was found to have ended";
    GuardianEnded "attach_guardian_ended" "times that the guardian was found to have ended, which would have the kernel go on with connections if the daemon died";
    GuardianStarted "attach_guardian_started" "times that another guardian was started because the one before had ended";
    SourcesUnchecked "attach_sources_unchecked" "times that the routes were found to be too many or too special to check where first packets come from";
    PortsYielded "attach_ports_yielded" "ports of ended listeners that were given to the kernel while connections of theirs lived, because another user has them now";
    ErrorsGiven "attach_errors_given" "ICMP errors about datagrams that were given to the kernel, which has the other half of the socket";
    ErrorsNotGiven "attach_errors_not_given" "ICMP errors about datagrams that the kernel did not get because there were too many at once, of one user's sockets or in all";
    HandedOver "attach_handed_over" "connections that the kernel goes on with since the daemon was told to end";
    HandOverLibrary "attach_hand_over_library" "connections that the kernel could not go on with because their program's library does not follow them there";
    HandOverState "attach_hand_over_state" "connections that the kernel could not go on with because they did not stand yet, were over, or had urgent data under way";
    HandOverDescriptor "attach_hand_over_descriptor" "connections that the kernel could not go on with because their descriptor was found in no process";
    HandOverBusy "attach_hand_over_busy" "connections that the kernel could not go on with because their program was in the middle of a call, or the time was over";
    HandOverRefused "attach_hand_over_refused" "connections that the kernel refused to go on with";
    HandOverPort "attach_hand_over_port" "connections of other users than root at a port below 1024 on which their program does not listen itself: the kernel's socket would give it a right to that port";
    HandOverLocal "attach_hand_over_local" "connections between programs of this host, which the kernel cannot go on with";
    DescriptorsSilent "attach_descriptors_silent" "times that a thread was left with a socket which its program keeps from being asked or closed, or that its user had no time left for that; a call is left to the kernel then";
}

/// All counts, since the start, and the memory of rings as it is.
#[derive(Debug)]
pub(crate) struct AttachServerCounters {
    counts: [AtomicU64; EVENTS.len()],
    memory: [AtomicU64; MEMORY.len()],
    descriptors: [AtomicU64; DESCRIPTORS.len()],
    programs: AtomicU64,
    /// Zero: there is none. Else [`GuardianState`], from 1 on.
    guardian: AtomicU64,
}

/// What is told about the memory of rings.
const MEMORY: [(&str, &str); 5] = [
    ("ring_memory_bytes", "bytes of programs' rings that are in memory now"),
    ("ring_memory_limit_bytes", "bytes that they may have together (sockets.memory_mib)"),
    (
        "ring_memory_refused",
        "rings that were not lent because of that limit, or of a program's or user's part of it",
    ),
    (
        "ring_memory_discarded_bytes",
        "bytes of rings that were given back to the system: nobody had had them for some time, or memory was short and nobody had or read them",
    ),
    (
        "ring_memory_evicted",
        "connections that were reset because nobody read from them and memory was short",
    ),
];

/// What is told about the daemon's descriptors.
const DESCRIPTORS: [(&str, &str); 2] = [
    ("descriptors", "descriptors that the daemon has for programs now"),
    ("descriptors_limit", "descriptors that it may have for them (sockets.descriptors)"),
];

impl Default for AttachServerCounters {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            counts: std::array::from_fn(|_| zero()),
            memory: std::array::from_fn(|_| zero()),
            descriptors: std::array::from_fn(|_| zero()),
            programs: zero(),
            guardian: zero(),
        }
    }
}

impl AttachServerCounters {
    /// It has happened once more.
    pub(crate) fn count(&self, event: AttachServerEvent) {
        self.counts[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds `count` to the counter of `event`.
    pub(crate) fn add(&self, event: AttachServerEvent, count: u64) {
        self.counts[event as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// How often it has happened.
    fn get(&self, event: AttachServerEvent) -> u64 {
        self.counts[event as usize].load(Ordering::Relaxed)
    }

    /// Notes how many descriptors there are for programs, and how many of them are taken.
    pub(crate) fn note_descriptors(&self, (limit, taken): (usize, usize)) {
        for (place, value) in self.descriptors.iter().zip([taken, limit]) {
            place.store(value as u64, Ordering::Relaxed);
        }
    }

    /// The sockets of that many programs are served now.
    pub(crate) fn note_programs(&self, count: usize) {
        self.programs.store(count as u64, Ordering::Relaxed);
    }

    /// The same, as it was noted last.
    pub(crate) fn programs(&self) -> u32 {
        self.programs.load(Ordering::Relaxed) as u32
    }

    /// The guardian is like this now.
    pub(crate) fn note_guardian(&self, state: GuardianState) {
        self.guardian.store(1 + state as u64, Ordering::Relaxed);
    }

    /// How the guardian is, in the word that operators are told.
    pub(crate) fn guardian(&self) -> &'static str {
        const STATES: [(GuardianState, &str); 3] = [
            (GuardianState::Well, "well"),
            (GuardianState::Ended, "ended"),
            (GuardianState::GivenUp, "given_up"),
        ];
        let noted = self.guardian.load(Ordering::Relaxed);
        let state = STATES.iter().find(|(state, _)| 1 + *state as u64 == noted);
        state.map_or("off", |(_, word)| word)
    }

    /// The descriptors for programs, as they were noted last; nothing before the first time.
    pub(crate) fn descriptors(&self) -> Option<DescriptorStatus> {
        let [taken, limit] = self.descriptors.each_ref().map(|of| of.load(Ordering::Relaxed));
        let status = DescriptorStatus {
            taken,
            limit,
            given_early: self.get(AttachServerEvent::NamesGivenEarly),
            refused: self.get(AttachServerEvent::DescriptorShareUsedUp),
        };
        (limit > 0).then_some(status)
    }

    /// The memory of rings is like this now.
    pub(crate) fn note_memory(&self, budget: &Budget) {
        let told = [budget.bytes(), budget.bytes_max(), budget.refused()];
        for (place, value) in self.memory.iter().zip(told) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Counts bytes that were given back because memory was short.
    pub(crate) fn add_discarded(&self, bytes: u64) {
        self.memory[3].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts connections that were reset because memory was short.
    pub(crate) fn add_evicted(&self, count: u64) {
        self.memory[4].fetch_add(count, Ordering::Relaxed);
    }

    /// The memory of rings, as it was noted last; nothing before the first time.
    pub(crate) fn memory(&self) -> Option<RingMemoryStatus> {
        let [bytes, limit_bytes, refused, discarded_bytes, evicted] =
            self.memory.each_ref().map(|place| place.load(Ordering::Relaxed));
        let status = RingMemoryStatus { bytes, limit_bytes, refused, discarded_bytes, evicted };
        (limit_bytes > 0).then_some(status)
    }

    /// Name, help and value of each.
    pub(crate) fn each(&self) -> impl Iterator<Item = (String, &'static str, u64)> {
        let memory = MEMORY.iter().zip(&self.memory);
        let descriptors = DESCRIPTORS.iter().zip(&self.descriptors);
        let named = EVENTS.iter().zip(&self.counts).chain(memory).chain(descriptors);
        named
            .map(|((name, help), count)| ((*name).to_owned(), *help, count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_a_count_of_its_own() {
        let counters = AttachServerCounters::default();
        counters.count(AttachServerEvent::RightsLost);
        counters.count(AttachServerEvent::RightsLost);
        let counted: Vec<_> = counters.each().filter(|(.., value)| *value > 0).collect();
        assert_eq!(counted.len(), 1);
        assert_eq!((counted[0].0.as_str(), counted[0].2), ("attach_rights_lost", 2));
        let mut names: Vec<_> = counters.each().map(|(name, ..)| name).collect();
        names.dedup();
        assert_eq!(names.len(), EVENTS.len() + MEMORY.len() + DESCRIPTORS.len());
    }
}
