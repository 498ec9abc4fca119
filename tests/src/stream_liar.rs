//! An application with a socket that writes into its shared memory what no honest one does.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use attach::{Call, Link, Reply, SocketsRequest};
use base::SlotId;
use rustix::fs::{SeekFrom, seek};
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
use shm::sockets::{SlotWords, SocketMemory};

use crate::accelerated::Accelerated;

/// A word of a slot, and how it is overwritten.
type Field = (&'static str, fn(&SlotWords, u64));

/// Every word that a slot has.
pub const FIELDS: &[Field] = &[
    ("state", |words, value| words.state.store(value as u32, Relaxed)),
    ("generation", |words, value| words.generation.store(value as u32, Relaxed)),
    ("rx_tail", |words, value| words.rx_tail.store(value, Relaxed)),
    ("rx_ring", |words, value| words.rx_ring.store(value, Relaxed)),
    ("tx_head", |words, value| words.tx_head.store(value, Relaxed)),
    ("tx_ring", |words, value| words.tx_ring.store(value, Relaxed)),
    ("rx_base", |words, value| words.rx_base.store(value as u32, Relaxed)),
    ("tx_base", |words, value| words.tx_base.store(value as u32, Relaxed)),
    ("rx_urgent", |words, value| words.rx_urgent.store(value, Relaxed)),
    ("worker", |words, value| words.worker.store(value as u32, Relaxed)),
    ("error", |words, value| words.error.store(value as u32, Relaxed)),
    ("notify_word", |words, value| words.notify_word.store(value as u32, Relaxed)),
    ("info_version", |words, value| words.info_version.store(value as u32, Relaxed)),
    ("tx_log2_max", |words, value| words.tx_log2_max.store(value as u32, Relaxed)),
    ("payload_max", |words, value| words.payload_max.store(value as u32, Relaxed)),
    ("local", |words, _| words.local.set(None)),
    ("remote", |words, _| words.remote.set(None)),
    ("rx_head", |words, value| words.rx_head.store(value, Relaxed)),
    ("tx_tail", |words, value| words.tx_tail.store(value, Relaxed)),
    ("tx_ring_used", |words, value| words.tx_ring_used.store(value, Relaxed)),
    ("tx_urgent", |words, value| words.tx_urgent.store(value, Relaxed)),
    ("asks", |words, value| words.asks.store(value as u32, Relaxed)),
    ("sleepers", |words, value| words.sleepers.store(value as u32, Relaxed)),
    ("ears", |words, value| words.pollers.iter().for_each(|word| word.store(value, Relaxed))),
    ("cookie", |words, value| words.cookie.store(value, Relaxed)),
    ("options_version", |words, value| words.options_version.store(value as u32, Relaxed)),
    ("file_flags", |words, value| words.file_flags.store(value as u32, Relaxed)),
    ("is_shared", |words, value| words.is_shared.store(value as u32, Relaxed)),
    ("rx_lock", |words, value| words.rx_lock.store(value as u32, Relaxed)),
    ("tx_lock", |words, value| words.tx_lock.store(value as u32, Relaxed)),
    ("options", |words, value| {
        words.options.iter().for_each(|word| word.store(value as u32, Relaxed));
        words.options_version.fetch_add(1, Relaxed);
    }),
    ("info", |words, value| words.info.iter().for_each(|word| word.store(value, Relaxed))),
];

/// An application in stream mode with one socket, and no program around it.
#[derive(Debug)]
pub struct StreamLiar {
    _link: Link,
    file: OwnedFd,
    memory: SocketMemory,
    doorbell: OwnedFd,
    slot: SlotId,
    _socket: OwnedFd,
}

impl StreamLiar {
    /// Attaches, and asks for a connection.
    ///
    /// # Panics
    /// The daemon refuses.
    pub fn connect(accelerated: &Accelerated, remote: SocketAddr) -> Self {
        Self::with(accelerated, SocketType::STREAM, None, &Call::Connect { remote })
    }

    /// Attaches, and asks for a listener at an address.
    ///
    /// # Panics
    /// The daemon refuses.
    pub fn listen(accelerated: &Accelerated, at: SocketAddr) -> Self {
        Self::with(accelerated, SocketType::STREAM, Some(at), &Call::Listen { backlog: 16 })
    }

    /// Attaches, and asks for datagrams to an address.
    ///
    /// # Panics
    /// The daemon refuses.
    pub fn datagrams(accelerated: &Accelerated, at: SocketAddr) -> Self {
        Self::with(accelerated, SocketType::DGRAM, Some(at), &Call::Udp { remote: None })
    }

    fn with(
        accelerated: &Accelerated,
        kind: SocketType,
        at: Option<SocketAddr>,
        call: &Call,
    ) -> Self {
        let link = Link::connect(&accelerated.daemon().apps_socket()).expect("the daemon listens");
        let request = SocketsRequest {
            name: "liar".to_owned(),
            profile: Default::default(),
            features: 0,
            token_before: None,
        };
        let (_, descriptors) = link.stream(&request).expect("it looks honest");
        let mut descriptors = descriptors.into_iter();
        let (Some(file), Some(doorbell)) = (descriptors.next(), descriptors.next()) else {
            panic!("a welcome comes with memory and an eventfd")
        };
        let copy = file.try_clone().expect("descriptors are left");
        let memory = SocketMemory::open(copy).expect("the daemon sends a region");
        let make = || socket(AddressFamily::INET, kind, None);
        let socket = accelerated.here().enter(make).expect("the namespace is there");
        let socket = socket.expect("descriptors are left");
        if kind == SocketType::DGRAM {
            // So that others may have its port, too.
            sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
        }
        if let Some(at) = at {
            bind(&socket, &at).expect("the port is free");
        }
        let slot = match link.call(call, Some(socket.as_fd()), drop) {
            Ok((Reply::Slot { slot, .. }, _)) => SlotId(slot),
            other => panic!("no slot but {other:?}"),
        };
        Self { _link: link, file, memory, doorbell, slot, _socket: socket }
    }

    /// The words of its socket.
    ///
    /// # Panics
    /// Never: the daemon has named the slot.
    pub fn words(&self) -> &SlotWords {
        self.memory.slot(self.slot).expect("the daemon has lent it")
    }

    /// Overwrites all of its memory that anybody has used so far, rings and what is in them
    /// included.
    ///
    /// # Panics
    /// The memory is gone.
    pub fn overwrite(&self, mut word: impl FnMut() -> u64) {
        let mut at = 0;
        // Until there is nothing but holes.
        while let Ok(begin) = seek(&self.file, SeekFrom::Data(at)) {
            at = seek(&self.file, SeekFrom::Hole(begin)).expect("every file ends in a hole");
            let bytes: Vec<u8> =
                (begin..at).step_by(8).flat_map(|_| word().to_ne_bytes()).collect();
            let written = rustix::io::pwrite(&self.file, &bytes, begin);
            assert_eq!(written, Ok(bytes.len()), "it is its own memory");
        }
    }

    /// Has every worker look at the slot, and at some that are not its own.
    ///
    /// # Panics
    /// The eventfd refuses.
    pub fn ring(&self) {
        for worker in 0.. {
            let Some(ready_bits) = self.memory.worker(worker) else { break };
            for slot in [self.slot.0, 0, 1, 33, self.memory.sizes().slots - 1] {
                let _ = ready_bits.set(SlotId(slot));
            }
        }
        rustix::io::write(&self.doorbell, &1_u64.to_ne_bytes()).expect("it is far from full");
    }
}
