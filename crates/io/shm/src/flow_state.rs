//! Per-flow bytes that outlive a move from worker to worker.
//!
//! One slab for all workers, in a region, linked by index: a move hands over the *right* to touch
//! a flow, never the bytes. Every access claims its entry by an uncontended exchange; since a flow
//! is processed by one worker at a time, the claim never has to wait, and the day it fails it has
//! found a broken invariant, which [`StateMiss::InUse`] reports instead of corrupting memory.
//!
//! Entries are added, never removed: chains only grow at their head, so a reader needs no lock.

use std::ptr::NonNull;

use crate::region::{Region, RegionError, RegionKind};
use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// Why a flow's state cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateMiss {
    /// Every entry is taken: a new flow gets none.
    Full,
    /// Another worker is touching this flow at this moment: the one-owner invariant is broken.
    InUse,
}

/// `flows_max` entries of `state_bytes` each, found by a 64-bit flow id.
#[derive(Debug)]
pub struct FlowState {
    region: Region,
    state_bytes: usize,
    /// Newest entry of each chain, plus one; zero: empty. Indexed by bits of the mixed flow id.
    heads: Box<[AtomicU32]>,
    entries: Box<[Entry]>,
    /// Entries handed out; may run past the end, which means full.
    used: AtomicU32,
}

#[derive(Debug)]
struct Entry {
    flow_low: AtomicU32,
    flow_high: AtomicU32,
    /// The older neighbour in the chain, plus one; zero: none.
    next: AtomicU32,
    claimed: AtomicBool,
}

impl FlowState {
    /// A slab for `flows_max` flows.
    ///
    /// # Errors
    /// The memory could not be had.
    pub fn new(flows_max: u32, state_bytes: usize) -> Result<Self, RegionError> {
        let page = 4096;
        let bytes = (flows_max as usize).saturating_mul(state_bytes);
        let region = Region::create("calisto-flow-state", RegionKind::FlowState, page, bytes)?;
        let entry = |_| Entry {
            flow_low: AtomicU32::new(0),
            flow_high: AtomicU32::new(0),
            next: AtomicU32::new(0),
            claimed: AtomicBool::new(false),
        };
        Ok(Self {
            region,
            state_bytes,
            heads: (0..flows_max.next_power_of_two()).map(|_| AtomicU32::new(0)).collect(),
            entries: (0..flows_max).map(entry).collect(),
            used: AtomicU32::new(0),
        })
    }

    /// Bytes of each flow.
    pub fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    /// Flows that have an entry.
    pub fn flows(&self) -> usize {
        (self.used.load(Ordering::Relaxed) as usize).min(self.entries.len())
    }

    /// Lets `touch` work on the bytes of `flow`, which are zero the first time.
    ///
    /// # Errors
    /// The slab is full, or another worker holds the flow.
    #[inline]
    pub fn with<R>(&self, flow: u64, touch: impl FnOnce(&mut [u8]) -> R) -> Result<R, StateMiss> {
        let index = self.find_or_insert(flow)?;
        let entry = &self.entries[index];
        // Acquire pairs with the Release below in the worker that had the flow before.
        if entry.claimed.swap(true, Ordering::Acquire) {
            return Err(StateMiss::InUse);
        }
        let claim = Claim(entry);
        // SAFETY: `index < flows_max`, and the region holds `flows_max * state_bytes` content.
        let start: NonNull<u8> = unsafe { self.region.base().add(4096 + index * self.state_bytes) };
        // SAFETY: entries are disjoint, and the claim keeps every other caller out until it drops.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.state_bytes) };
        let result = touch(bytes);
        drop(claim);
        Ok(result)
    }

    #[inline]
    fn find_or_insert(&self, flow: u64) -> Result<usize, StateMiss> {
        let (low, high) = (flow as u32, (flow >> 32) as u32);
        // Mixed (Fibonacci hashing), since ids may differ in any of their bits: those of one
        // listener's flows all share a port.
        let mixed = flow.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let chain = &self.heads[mixed as usize & (self.heads.len() - 1)];
        // Acquire pairs with the AcqRel exchange that linked the entry: its id is visible.
        let mut link = chain.load(Ordering::Acquire);
        while let Some(index) = link.checked_sub(1) {
            let entry = &self.entries[index as usize];
            if entry.flow_low.load(Ordering::Relaxed) == low
                && entry.flow_high.load(Ordering::Relaxed) == high
            {
                return Ok(index as usize);
            }
            link = entry.next.load(Ordering::Relaxed);
        }
        self.insert(low, high, chain)
    }

    /// A flow's first packet. Only the flow's owner inserts it, so it cannot be inserted twice;
    /// other flows of the same chain may be inserted by other workers at the same time.
    #[cold]
    fn insert(&self, low: u32, high: u32, chain: &AtomicU32) -> Result<usize, StateMiss> {
        let full = self.used.load(Ordering::Relaxed) as usize >= self.entries.len();
        if full {
            return Err(StateMiss::Full);
        }
        let index = self.used.fetch_add(1, Ordering::Relaxed);
        let entry = self.entries.get(index as usize).ok_or(StateMiss::Full)?;
        entry.flow_low.store(low, Ordering::Relaxed);
        entry.flow_high.store(high, Ordering::Relaxed);
        let mut head = chain.load(Ordering::Acquire);
        loop {
            entry.next.store(head, Ordering::Relaxed);
            match chain.compare_exchange(head, index + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(index as usize),
                Err(newer) => head = newer,
            }
        }
    }
}

/// Gives the entry back even when `touch` panics.
struct Claim<'entry>(&'entry Entry);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.claimed.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_flow_finds_its_own_bytes_again() {
        let state = FlowState::new(100, 16).expect("a few KiB fit");
        // Ids that share their low bits land in one chain.
        for flow in 0..100_u64 {
            state
                .with((flow << 32) | (flow % 3), |bytes| bytes.fill(flow as u8))
                .expect("room for 100");
        }
        for flow in 0..100_u64 {
            let same = state.with((flow << 32) | (flow % 3), |bytes| {
                bytes.iter().all(|&byte| byte == flow as u8)
            });
            assert_eq!(same, Ok(true), "flow {flow}");
        }
        assert_eq!(state.flows(), 100);
    }

    #[test]
    fn ids_that_differ_in_their_upper_bits_only_are_spread_over_the_chains() {
        let flows = 1 << 12;
        let state = FlowState::new(flows, 8).expect("32 KiB fit");
        for flow in 0..u64::from(flows) {
            state.with((flow << 32) | 7, |_| ()).expect("room for all");
        }
        let used = state.heads.iter().filter(|head| head.load(Ordering::Relaxed) != 0).count();
        // Random ids would use 63 % of the chains; all in one would be a list.
        assert!(used > state.heads.len() / 3, "{used} of {} chains", state.heads.len());
    }

    #[test]
    fn a_full_slab_refuses_new_flows_and_keeps_the_old() {
        let state = FlowState::new(2, 8).expect("a few bytes fit");
        assert!(state.with(1, |_| ()).is_ok());
        assert!(state.with(2, |_| ()).is_ok());
        assert_eq!(state.with(3, |_| ()), Err(StateMiss::Full));
        assert!(state.with(1, |_| ()).is_ok());
    }

    #[test]
    fn a_flow_touched_by_two_workers_at_once_is_reported() {
        let state = FlowState::new(2, 8).expect("a few bytes fit");
        let inner = state.with(9, |_| state.with(9, |_| ()));
        assert_eq!(inner, Ok(Err(StateMiss::InUse)));
        assert!(state.with(9, |_| ()).is_ok(), "given back");
    }

    #[test]
    fn workers_insert_into_the_same_chains_without_losing_a_flow() {
        let state = FlowState::new(20_000, 8).expect("160 kB fit");
        std::thread::scope(|scope| {
            for worker in 0..2_u64 {
                let state = &state;
                scope.spawn(move || {
                    for flow in 0..10_000_u64 {
                        let id = ((flow * 2 + worker) << 32) | (flow % 7);
                        state
                            .with(id, |bytes| bytes.copy_from_slice(&id.to_le_bytes()))
                            .expect("room for all, and no flow is shared");
                    }
                });
            }
        });
        for flow in 0..20_000_u64 {
            let id = (flow << 32) | ((flow / 2) % 7);
            assert_eq!(state.with(id, |bytes| bytes == id.to_le_bytes()), Ok(true), "flow {flow}");
        }
    }
}
