//! The members of a set that are the data plane's, and those of them that may have something to
//! tell.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use calisto_client::sockets::{Poller, RegionId, SlotId};
use libc::{c_int, epoll_event};

use super::rules::{Interest, Memory};
use crate::entry::Held;

type Key = (RegionId, SlotId);

/// Sockets whose bits are taken from the poller at once.
const TAKEN_MAX: usize = 256;

/// One descriptor in a set.
pub(super) struct Member {
    pub(super) held: Held,
    pub(super) fd: c_int,
    pub(super) interest: Interest,
    pub(super) data: u64,
    pub(super) memory: Memory,
    /// It waits in `ready`.
    is_queued: bool,
    /// Its kernel half is in the kernel's set.
    pub(super) has_kernel_half: bool,
    /// The next member of the same open file.
    next: Option<u32>,
}

/// The members of one set.
#[derive(Default)]
pub(super) struct Members {
    places: Vec<Option<Member>>,
    free: Vec<u32>,
    /// The first member of each open file.
    by_key: HashMap<Key, u32, BuildHasherDefault<KeyHasher>>,
    /// Those that may have something to tell, in the order in which it happened.
    ready: VecDeque<u32>,
    taken: Vec<Key>,
    /// Numbers whose connections were given to the kernel, and which are members of ours still.
    given: Vec<c_int>,
}

/// Regions and slots are small numbers that nobody outside chooses: spreading them is enough.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Member {
    pub(super) fn new(held: Held, fd: c_int, event: epoll_event, has_kernel_half: bool) -> Self {
        Self {
            held,
            fd,
            interest: Interest::new(event.events),
            data: event.u64,
            memory: Memory::anew(),
            is_queued: false,
            has_kernel_half,
            next: None,
        }
    }

    fn key(&self) -> Option<Key> {
        self.held.file().map(|file| file.socket.key())
    }
}

impl Members {
    /// The member that this descriptor is.
    pub(super) fn find(&self, held: &Held, fd: c_int) -> Option<u32> {
        let mut next = self.by_key.get(&held.file()?.socket.key()).copied();
        while let Some(index) = next {
            let member = self.get(index)?;
            if member.fd == fd && member.held.address() == held.address() {
                return Some(index);
            }
            next = member.next;
        }
        None
    }

    pub(super) fn get(&self, index: u32) -> Option<&Member> {
        self.places.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Member> {
        self.places.get_mut(index as usize)?.as_mut()
    }

    /// The number that the next added member will have.
    pub(super) fn next_index(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    pub(super) fn add(&mut self, mut member: Member) {
        let index = self.next_index();
        let Some(key) = member.key() else { return };
        member.next = self.by_key.insert(key, index);
        match self.free.pop() {
            Some(_) => self.places[index as usize] = Some(member),
            None => self.places.push(Some(member)),
        }
        self.queue(index);
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Member> {
        let member = self.places.get_mut(index as usize)?.take()?;
        if let Some(key) = member.key() {
            if self.by_key.get(&key) == Some(&index) {
                match member.next {
                    Some(next) => self.by_key.insert(key, next),
                    None => self.by_key.remove(&key),
                };
            } else {
                let mut next = self.by_key.get(&key).copied();
                while let Some(before) = next.and_then(|index| self.get_mut(index)) {
                    if before.next == Some(index) {
                        before.next = member.next;
                        break;
                    }
                    next = before.next;
                }
            }
        }
        if member.is_queued {
            // The place may get another member before the queue comes to it.
            self.ready.retain(|&queued| queued != index);
        }
        self.free.push(index);
        Some(member)
    }

    /// Those of an open file.
    pub(super) fn of_file(&self, held: &Held) -> Vec<u32> {
        let is_of = |member: &Member| member.held.address() == held.address();
        let all = self.places.iter().enumerate();
        let key = held.file().map(|file| file.socket.key());
        let Some(first) = key.and_then(|key| self.by_key.get(&key)).copied() else {
            return Vec::new();
        };
        if self.get(first).is_some_and(|member| member.next.is_none()) {
            return if self.get(first).is_some_and(is_of) { vec![first] } else { Vec::new() };
        }
        all.filter(|(_, place)| place.as_ref().is_some_and(is_of))
            .map(|(index, _)| index as u32)
            .collect()
    }

    /// Those whose files are closed.
    pub(super) fn closed(&self) -> Vec<u32> {
        let is_closed =
            |place: &Option<Member>| place.as_ref().is_some_and(|member| member.held.is_closed());
        let all = self.places.iter().enumerate().filter(|(_, place)| is_closed(place));
        all.map(|(index, _)| index as u32).collect()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.places.iter().flatten()
    }

    /// Looks at a member the next time.
    pub(super) fn queue(&mut self, index: u32) {
        if let Some(member) = self.get_mut(index)
            && !member.is_queued
        {
            member.is_queued = true;
            self.ready.push_back(index);
        }
    }

    /// Looks at all of them the next time: nobody hears what has news.
    pub(super) fn queue_all(&mut self) {
        for index in 0..self.places.len() {
            self.queue(index as u32);
        }
    }

    /// Queues those of whom the poller has heard.
    pub(super) fn hear(&mut self, poller: &Poller) {
        loop {
            let mut taken = std::mem::take(&mut self.taken);
            taken.clear();
            poller.take(&mut taken, TAKEN_MAX);
            for key in &taken {
                let mut next = self.by_key.get(key).copied();
                while let Some(index) = next {
                    self.queue(index);
                    let Some(member) = self.get_mut(index) else { break };
                    member.memory.note_event();
                    next = member.next;
                }
            }
            let were_all = taken.len() < TAKEN_MAX;
            self.taken = taken;
            if were_all {
                return;
            }
        }
    }

    /// Takes the numbers that are to leave for the kernel's set.
    pub(super) fn take_given(&mut self) -> Vec<c_int> {
        std::mem::take(&mut self.given)
    }

    /// Whether any member may have something to tell.
    pub(super) fn has_queued(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether any would tell something, if it were asked.
    pub(super) fn is_any_ready(&self) -> bool {
        let mut queued = self.ready.iter().filter_map(|&index| self.get(index));
        queued.any(|member| {
            let ready = member.held.file().map(|file| file.readiness());
            // A copy: what it remembers stays.
            let mut memory = member.memory;
            ready.is_some_and(|ready| memory.decide(member.interest, ready, false).events != 0)
        })
    }

    /// Asks the queued members in turn until `out` is full; how many told something. Those that
    /// have more to tell go to the end, so that none waits for ever.
    pub(super) fn tell(&mut self, out: &mut [epoll_event]) -> usize {
        let mut count = 0;
        for _ in 0..self.ready.len() {
            if count == out.len() {
                break;
            }
            let Some(index) = self.ready.pop_front() else { break };
            let Some(member) = self.get_mut(index) else { continue };
            member.is_queued = false;
            let Some(file) = member.held.file() else { continue };
            if file.socket.is_kernels() {
                let fd = member.fd;
                self.given.push(fd);
                continue;
            }
            let ready = file.readiness();
            let lacked_room = file.took_no_room();
            let verdict = member.memory.decide(member.interest, ready, lacked_room);
            if verdict.events != 0 {
                out[count] = epoll_event { events: verdict.events, u64: member.data };
                count += 1;
            }
            if verdict.look_again {
                self.queue(index);
            }
        }
        count
    }
}
