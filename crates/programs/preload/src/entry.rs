//! What stands behind a descriptor of ours: one entry per open file, however many numbers it has.
//!
//! Entries are never freed, only used again: so a thread that has read a number's word may always
//! look at the entry that it names, and finds out by a second look whether it still is that one.
//! Nothing here takes a lock or memory, but for the first use of an entry: calls may come from
//! signal handlers, and from a child whose parent's threads were anywhere.

/// What each descriptor number is.
pub(crate) mod descriptors;
/// A socket of the data plane.
pub(crate) mod file;
/// The sets of epoll that a socket is a member of.
pub(crate) mod memberships;
/// Code of our own libraries.
pub(crate) mod own_code;

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use calisto_client::sockets::SocketOption;

use crate::entry::file::{File, Kind};
use crate::entry::memberships::ClosedMembers;

/// What an entry can be.
pub(crate) enum Body {
    /// A socket that the data plane serves.
    Socket(File),
    /// A set of epoll(7) with members of ours.
    Set(Box<dyn EventSet>),
}

/// A set of epoll(7), as far as its entry must know it; the code of its calls makes it, and has the
/// rest.
pub(crate) trait EventSet: Any {
    /// Members that were closed since the set looked last.
    fn closed_members(&self) -> &ClosedMembers;

    /// The set has lost its last number: it lets its members and its poller go. May be called from
    /// a signal handler.
    fn end(&self);
}

/// One open file.
#[repr(align(64))]
pub(crate) struct Entry {
    /// Calls under way and descriptor numbers that hold it; zero: it waits for its next use.
    users: AtomicU32,
    /// Descriptor numbers of this process that name it; zero: it is closed.
    numbers: AtomicU32,
    /// The next one that waits, as a word of [`FREE`].
    next: AtomicUsize,
    /// Written only while there are no users. It is dropped when the entry is used again, not when
    /// the last user leaves, who may be a signal handler and must not free memory.
    body: UnsafeCell<Option<Body>>,
}

// SAFETY: the body is written only by the one thread that has taken the entry from the free list,
// before it is published by `users`; after that it is only read.
unsafe impl Sync for Entry {}

/// The entries that wait: the first one's address, with a counter in the low bits, which are zero
/// in every entry's address, and in the high ones, so that a list that changed and changed back is
/// told apart.
static FREE: AtomicUsize = AtomicUsize::new(0);

/// The bits of an address of user space that an entry's has.
const ADDRESS: usize = 0x0000_ffff_ffff_ffc0;

/// Bits of the counter below the address.
const LOW: u32 = 6;

/// A call's or a number's share in an entry.
pub(crate) struct Held(&'static Entry);

impl Held {
    /// A new entry with one number, which the caller gives it.
    pub(crate) fn new(body: Body) -> Self {
        let entry = take_free().unwrap_or_else(|| {
            Box::leak(Box::new(Entry {
                users: AtomicU32::new(0),
                numbers: AtomicU32::new(0),
                next: AtomicUsize::new(0),
                body: UnsafeCell::new(None),
            }))
        });
        // SAFETY: nobody else has it: it was in the list once, and has no users.
        let place = unsafe { &mut *entry.body.get() };
        // What was in it may have been the last to hold descriptors of ours.
        let old = place.replace(body);
        own_code::run(|| drop(old));
        entry.numbers.store(1, Ordering::Relaxed);
        entry.users.store(1, Ordering::Release);
        Self(entry)
    }

    /// A share in the entry at `address`, which a number's word has named; nothing if it has none
    /// left to share.
    pub(crate) fn of_address(address: usize) -> Option<Self> {
        // SAFETY: words name only entries, and entries live for ever.
        let entry = unsafe { &*std::ptr::with_exposed_provenance::<Entry>(address) };
        let mut users = entry.users.load(Ordering::Relaxed);
        while users != 0 {
            match entry.users.compare_exchange_weak(
                users,
                users + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Self(entry)),
                Err(now) => users = now,
            }
        }
        None
    }

    /// The share that a number's word stood for; the number names it no more. Whether it was the
    /// last number.
    pub(crate) fn of_number(address: usize) -> (Self, bool) {
        // SAFETY: as in `of_address`; the word's own share keeps it in use.
        let entry = unsafe { &*std::ptr::with_exposed_provenance::<Entry>(address) };
        let was_last = entry.numbers.fetch_sub(1, Ordering::AcqRel) == 1;
        (Self(entry), was_last)
    }

    /// Gives the share to a number's word.
    pub(crate) fn into_address(self) -> usize {
        let address = std::ptr::from_ref(self.0).expose_provenance();
        std::mem::forget(self);
        address
    }

    /// One more number will name it.
    pub(crate) fn add_number(&self) {
        self.0.numbers.fetch_add(1, Ordering::AcqRel);
    }

    /// Its address, which no other open file has at the same time.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }

    /// Whether no number of this process names it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.numbers.load(Ordering::Acquire) == 0
    }

    /// The socket, if it is one.
    pub(crate) fn file(&self) -> Option<&File> {
        match &**self {
            Body::Socket(file) => Some(file),
            Body::Set(_) => None,
        }
    }

    /// Whether it is a set.
    pub(crate) fn is_set(&self) -> bool {
        matches!(**self, Body::Set(_))
    }

    /// The open file has no number in this process any more. May be called from a signal handler.
    pub(crate) fn end(&self) {
        match &**self {
            Body::Socket(file) => {
                file.memberships.end(|set| {
                    if let Some(held) = Self::of_address(set)
                        && let Body::Set(set) = &*held
                    {
                        set.closed_members().add(self.address());
                    }
                });
                // Of a socket that others may have, the kernel knows the last close.
                if !file.is_shared() {
                    // SO_LINGER without any time: the peer is told by a reset. That of a connection
                    // which leads through a worker is the worker's to send.
                    let is_reset = file.socket.option(SocketOption::Linger) == 1;
                    match file.kind == Kind::Stream && is_reset && file.socket.is_local() {
                        true => file.socket.abort(),
                        false => file.socket.close(),
                    }
                }
            }
            Body::Set(set) => set.end(),
        }
    }
}

impl Deref for Held {
    type Target = Body;

    fn deref(&self) -> &Body {
        // SAFETY: this share keeps the body from being written.
        let body = unsafe { &*self.0.body.get() };
        body.as_ref().expect("an entry in use has been given a body")
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.0.users.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            give_free(self.0);
        }
    }
}

fn counted(address: usize, before: usize) -> usize {
    let low = (1 << LOW) - 1;
    let count = ((before >> 48) << LOW | before & low) + 1;
    address | count & low | (count >> LOW) << 48
}

fn take_free() -> Option<&'static Entry> {
    let mut first = FREE.load(Ordering::Acquire);
    loop {
        let address = first & ADDRESS;
        if address == 0 {
            return None;
        }
        // SAFETY: the list names only entries, which live for ever; should another thread have
        // taken this one, its `next` is stale and the exchange fails.
        let entry = unsafe { &*std::ptr::with_exposed_provenance::<Entry>(address) };
        let next = entry.next.load(Ordering::Relaxed);
        match FREE.compare_exchange_weak(
            first,
            counted(next, first),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => return Some(entry),
            Err(now) => first = now,
        }
    }
}

fn give_free(entry: &'static Entry) {
    let address = std::ptr::from_ref(entry).expose_provenance();
    let mut first = FREE.load(Ordering::Relaxed);
    loop {
        entry.next.store(first & ADDRESS, Ordering::Relaxed);
        match FREE.compare_exchange_weak(
            first,
            counted(address, first),
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}
