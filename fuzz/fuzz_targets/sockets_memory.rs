//! Any words in the memory of sockets, read as an application reads what its daemon has written, as
//! one of a local pair reads what the other one has, and as the daemon does: what is read lies
//! inside, and every loop ends.
#![no_main]

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use base::SlotId;
use libfuzzer_sys::fuzz_target;
use shm::sockets::{
    Backlog, Quota, RingDesc, Side, SlotWords, SocketMemory, SocketServer, SocketSizes,
};

/// Where the sizes stand, which nobody believes twice, and the first byte behind the header.
const SIZES_AT: u64 = 64;
/// Bytes of a ring that are looked at: more says nothing new.
const READ_MAX: usize = 1 << 14;
/// Words that are written.
const WORDS_MAX: usize = 64;

/// A word, somewhere: near the start, in a slot, or anywhere.
type Word = (u8, u16, u64);

fuzz_target!(|input: (u8, Vec<Word>)| {
    let (shape, words) = input;
    let sides = 1 + u32::from(shape & 1);
    let sizes = SocketSizes {
        slots: 2 + u32::from(shape >> 1 & 7) * 13,
        pollers: 1 + u32::from(shape >> 4 & 1),
        sides,
        workers: if sides == 1 { 1 } else { 0 },
        ring_bytes: 1 << 16,
    };
    let quota = std::sync::Arc::new(Quota::new(sizes.slots, 1 << 16));
    let server = SocketServer::within("fuzz", sizes, quota).expect("addresses are left");
    let file = || server.memory().descriptor().as_fd().try_clone_to_owned().expect("fds are left");
    let memory = SocketMemory::open(file()).expect("it was just made");
    let file_bytes = rustix::fs::fstat(file()).expect("it is a file").st_size as u64;
    for (what, at, value) in words.iter().take(WORDS_MAX) {
        let at = match what % 4 {
            0 => SIZES_AT + u64::from(*at) % 4096,
            1 => u64::from(*at) * 8,
            // A slot's words, by the place that the library finds it at.
            2 => slot_at(&memory, u32::from(*what >> 2)) + u64::from(*at) % 1024,
            _ => u64::from(*at) * 997,
        };
        // Ring words name a length and a place inside the heap now and then.
        let value = if what & 0x80 != 0 { value % (1 << 24) } else { *value };
        let at = at.min(file_bytes - 8) & !7;
        let _ = rustix::io::pwrite(file(), &value.to_le_bytes(), at);
    }
    look(&memory, sizes);
    // Who opens it now reads the sizes as they are now.
    if let Ok(memory) = SocketMemory::open(file()) {
        let sizes = *memory.sizes();
        assert!(sizes.is_possible());
        look(&memory, SocketSizes { slots: sizes.slots.min(128), ..sizes });
    }
});

fn slot_at(memory: &SocketMemory, slot: u32) -> u64 {
    let first = memory.slot(SlotId(0)).map_or(0, |words| std::ptr::from_ref(words) as u64);
    let at = memory.slot(SlotId(slot % memory.sizes().slots)).expect("it is there");
    let state = std::ptr::from_ref(memory.state()) as u64 - 128;
    std::ptr::from_ref(at) as u64 - first + (first - state)
}

fn look(memory: &SocketMemory, sizes: SocketSizes) {
    let _ = memory.state().load(Ordering::Acquire);
    let _ = memory.is_host_address([10, 0, 0, 1].into());
    for side in [Side::Zero, Side::One] {
        for poller in 0..=sizes.pollers {
            let Some(bits) = memory.poller(side, poller) else { continue };
            let (mut cursor, mut heard) = (0, 0);
            bits.take(&mut cursor, 64, |slot| {
                heard += 1;
                // It may be beyond all slots: then there is none.
                if let Some(words) = memory.slot(slot) {
                    look_at(memory, words);
                }
            });
            assert!(heard <= 64, "{heard} of at most 64");
        }
    }
    for slot in (0..sizes.slots).map(SlotId) {
        look_at(memory, memory.slot(slot).expect("it is there"));
    }
    assert!(memory.slot(SlotId(memory.sizes().slots)).is_none());
}

fn look_at(memory: &SocketMemory, words: &SlotWords) {
    let _ = (words.state(), words.asks(), words.local.get(), words.remote.get());
    let _ = Backlog::has_any(memory, words);
    let _ = Backlog::oldest(memory, words);
    let _ = Backlog::take(memory, words);
    let load = |word: &std::sync::atomic::AtomicU64| word.load(Ordering::Acquire);
    for (ring, head, tail) in [
        (&words.rx_ring, &words.rx_head, &words.rx_tail),
        (&words.tx_ring, &words.tx_head, &words.tx_tail),
        (&words.tx_ring_used, &words.tx_head, &words.tx_tail),
    ] {
        let (desc, head) = (RingDesc::of_word(load(ring)), load(head));
        let bytes = (load(tail).wrapping_sub(head) as usize).min(READ_MAX);
        let Some(pieces) = memory.pieces(desc, head, bytes) else { continue };
        assert!(bytes as u64 <= desc.bytes());
        let mut read = vec![0; bytes];
        let first = pieces[0].copy_out(&mut read);
        let second = pieces[1].copy_out(&mut read[first..]);
        assert_eq!(first + second, bytes, "all of it is there");
        pieces[0].copy_in(&read[..first]);
    }
}
