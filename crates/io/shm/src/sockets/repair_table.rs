//! Records of connections that outlive whoever writes them: for each slot of an application what
//! is to be known to go on with its connection.
//!
//! The daemon writes, at the end of each turn, before anybody outside it can see what the turn has
//! done. A process that was made for the case of the daemon's death maps the same memory, and
//! reads when the daemon is dead: there are never two at once. No program has it.
//!
//! A record has two copies that are written in turns. A copy is void while it is written, so a
//! death in the middle of that leaves the one before.
//!
//! ```text
//! 0       region header
//! 64      slots
//! 128     ports below 1024 at which the application listens, 64 of them
//! page    for each slot 320 bytes
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use base::SlotId;

use super::layout::SLOTS_MAX;
use crate::region::{MapError, Region, RegionError, RegionKind};

/// Words of a record that are the same for as long as the connection lives.
pub const LASTING_WORDS: usize = 8;

/// Words of a record that change.
pub const CHANGING_WORDS: usize = 13;

/// Records of an application, at most: of its slots, and of what has none any more.
pub const RECORDS_MAX: u32 = SLOTS_MAX + 1024;

/// Ports that are told, at most.
pub const LOW_PORTS_MAX: usize = 64;

const SLOTS_AT: usize = 64;
const LOW_PORTS_AT: usize = 128;
const RECORDS_AT: usize = 4096;

/// One of the two copies.
#[derive(Debug)]
#[repr(C)]
struct RecordCopy {
    /// Zero: void. The higher one counts.
    turn: AtomicU64,
    words: [AtomicU64; CHANGING_WORDS],
}

/// The record of one slot.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RepairRecord {
    lasting: [AtomicU64; LASTING_WORDS],
    copies: [RecordCopy; 2],
}

const _: () = assert!(size_of::<RepairRecord>() == 320, "five lines");

impl RepairRecord {
    /// A new connection has the slot. The first [`Self::write`] makes the record valid.
    pub fn begin(&self, lasting: &[u64; LASTING_WORDS]) {
        self.clear();
        for (word, value) in self.lasting.iter().zip(lasting) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Writes down what is true from now on. `turn` counts from 1 and grows by 1 with each call.
    #[inline]
    pub fn write(&self, turn: u64, words: &[u64; CHANGING_WORDS]) {
        let copy = &self.copies[(turn & 1) as usize];
        copy.turn.store(0, Ordering::Relaxed);
        // Death comes between two instructions of this thread, and nobody reads before it: only
        // the compiler could change the order.
        compiler_fence(Ordering::SeqCst);
        for (word, value) in copy.words.iter().zip(words) {
            word.store(*value, Ordering::Relaxed);
        }
        compiler_fence(Ordering::SeqCst);
        copy.turn.store(turn, Ordering::Relaxed);
    }

    /// Nobody is to go on with it.
    pub fn clear(&self) {
        for copy in &self.copies {
            copy.turn.store(0, Ordering::Relaxed);
        }
        compiler_fence(Ordering::SeqCst);
    }

    /// What was written last; nothing: there is no connection.
    pub fn read(&self) -> Option<([u64; LASTING_WORDS], [u64; CHANGING_WORDS])> {
        let turn = |copy: &&RecordCopy| copy.turn.load(Ordering::Acquire);
        let copy = self.copies.iter().filter(|copy| turn(copy) != 0).max_by_key(turn)?;
        let lasting = std::array::from_fn(|at| self.lasting[at].load(Ordering::Relaxed));
        Some((lasting, std::array::from_fn(|at| copy.words[at].load(Ordering::Relaxed))))
    }
}

/// The records of an application.
#[derive(Clone, Debug)]
pub struct RepairTable {
    region: Arc<Region>,
    slots: u32,
}

impl RepairTable {
    /// A table of `slots` records: pages come with their first touch.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn create(name: &str, slots: u32) -> Result<Self, RegionError> {
        let slots = slots.min(RECORDS_MAX);
        let bytes = slots as usize * size_of::<RepairRecord>();
        let region = Region::create(name, RegionKind::Repair, RECORDS_AT, bytes)?;
        // SAFETY: inside the mapping, aligned, and nobody else has the fresh region yet.
        unsafe { region.base().add(SLOTS_AT).cast().write(slots) };
        Ok(Self { region: Arc::new(region), slots })
    }

    /// Maps the one of a process that has died.
    ///
    /// # Errors
    /// It is none, or not as long as it says.
    pub fn open(file: OwnedFd) -> Result<Self, MapError> {
        let region = Region::map(file, RegionKind::Repair)?;
        if region.len_bytes() < RECORDS_AT {
            return Err(MapError::Sizes);
        }
        // SAFETY: inside the mapping and aligned; any bits are a number.
        let slots = unsafe { region.base().add(SLOTS_AT).cast::<u32>().read_volatile() };
        let end = RECORDS_AT as u64 + u64::from(slots) * size_of::<RepairRecord>() as u64;
        if slots > RECORDS_MAX || end > region.len_bytes() as u64 {
            return Err(MapError::Sizes);
        }
        Ok(Self { region: Arc::new(region), slots })
    }

    /// Slots that have a record.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The memfd, of whoever made it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.region.as_fd()
    }

    /// The record of a slot; nothing when there is no such slot.
    #[inline]
    pub fn get(&self, slot: SlotId) -> Option<&RepairRecord> {
        if slot.0 >= self.slots {
            return None;
        }
        let at = RECORDS_AT + slot.index() * size_of::<RepairRecord>();
        // SAFETY: that record lies inside the mapping, aligned, and is mapped as long as `self` is
        // borrowed; all of it is atomics.
        Some(unsafe { self.region.base().add(at).cast::<RepairRecord>().as_ref() })
    }

    fn low_ports_words(&self) -> &[AtomicU32; LOW_PORTS_MAX] {
        // SAFETY: 64 words lie there before the first record, aligned; as for `get`.
        unsafe { self.region.base().add(LOW_PORTS_AT).cast().as_ref() }
    }

    /// Says at which ports below 1024 the application listens.
    pub fn set_low_ports(&self, ports: impl Iterator<Item = u16>) {
        let words = self.low_ports_words();
        let mut ports = ports;
        words.iter().for_each(|word| {
            word.store(u32::from(ports.next().unwrap_or(0)), Ordering::Relaxed);
        });
    }

    /// Whether it listens at that port, as was said last.
    pub fn has_low_port(&self, port: u16) -> bool {
        let words = self.low_ports_words();
        port != 0 && words.iter().any(|word| word.load(Ordering::Relaxed) == u32::from(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(of: u64) -> [u64; CHANGING_WORDS] {
        std::array::from_fn(|at| of + at as u64)
    }

    #[test]
    fn what_was_written_last_is_read_by_whoever_maps_it() {
        let own = RepairTable::create("test", 100).expect("memory is left");
        let fd = own.descriptor().try_clone_to_owned().expect("descriptors are left");
        let other = RepairTable::open(fd).expect("it is one");
        assert_eq!(other.slots(), 100);
        assert!(
            own.get(SlotId(100)).is_none()
                && other.get(SlotId(7)).expect("a slot").read().is_none()
        );
        let record = own.get(SlotId(7)).expect("a slot");
        record.begin(&[3; LASTING_WORDS]);
        assert!(other.get(SlotId(7)).expect("a slot").read().is_none(), "it is not written yet");
        for turn in 1..5 {
            record.write(turn, &words(turn * 100));
            let read = other.get(SlotId(7)).expect("a slot").read().expect("it is written");
            assert_eq!(read, ([3; LASTING_WORDS], words(turn * 100)));
        }
        record.clear();
        assert!(other.get(SlotId(7)).expect("a slot").read().is_none());
    }

    #[test]
    fn a_death_in_the_middle_of_a_write_leaves_what_was_written_before() {
        let own = RepairTable::create("test", 1).expect("memory is left");
        let record = own.get(SlotId(0)).expect("a slot");
        record.begin(&[9; LASTING_WORDS]);
        record.write(1, &words(10));
        record.write(2, &words(20));
        // As far as a third write comes that ends after a few words.
        let copy = &record.copies[1];
        copy.turn.store(0, Ordering::Relaxed);
        copy.words[0].store(777, Ordering::Relaxed);
        assert_eq!(record.read().expect("there is one").1, words(20));
    }

    #[test]
    fn low_ports_are_those_that_were_said_last() {
        let own = RepairTable::create("test", 1).expect("memory is left");
        own.set_low_ports([80, 443].into_iter());
        assert!(own.has_low_port(80) && own.has_low_port(443) && !own.has_low_port(0));
        own.set_low_ports(std::iter::once(22));
        assert!(!own.has_low_port(80) && own.has_low_port(22));
    }
}
