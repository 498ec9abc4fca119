//! Any bytes as the region that an application maps: opening it, and reading its rings, gives
//! packets inside it or an error.
#![no_main]

use std::os::fd::OwnedFd;

use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, SealFlags};
use shm::packets::{Next, PacketMemory, PacketSizes};

/// Longer ones say nothing new.
const BYTES_MAX: usize = 1 << 20;

/// Messages that a ring of nonsense may give before it is certain to end.
const MESSAGES_MAX: usize = 1 << 15;

/// A header of the right kind, so that what follows it is read.
const HEADER: [u64; 5] = [u64::from_le_bytes(*b"CALISTO1"), 1 | 3 << 32, 0, 40, 0];
/// Where the sizes stand.
const SIZES_AT: usize = 64;

/// Words that are written into a region that could be one, or bytes that are the whole of it.
type Input<'a> = (Option<([u8; 6], Vec<(u16, u32)>)>, u32, &'a [u8]);

fuzz_target!(|input: Input<'_>| {
    let (possible, more_bytes, bytes) = input;
    let mut content = Vec::new();
    match possible {
        Some((sizes, words)) => {
            let [workers, slots, chunk, receive, send, handovers] = sizes.map(u32::from);
            let sizes = [1 + workers % 3, 2 << (slots % 4), 2048 << (chunk % 2), 1 + receive % 4];
            let [workers, ring_slots, chunk_bytes, receive_chunks] = sizes;
            let (send_chunks, handovers) = (1 + send % 3, 1 + handovers % 4);
            content.extend(HEADER.iter().flat_map(|word| word.to_le_bytes()));
            content.resize(SIZES_AT, 0);
            let all = [workers, ring_slots, chunk_bytes, receive_chunks, send_chunks, handovers];
            content.extend(all.iter().flat_map(|word| word.to_le_bytes()));
            let sizes = PacketSizes {
                workers,
                ring_slots,
                chunk_bytes,
                receive_chunks,
                send_chunks,
                handovers,
            };
            content.resize(sizes.region_bytes(), 0);
            for (at, word) in words {
                let at = usize::from(at) * 4 % content.len();
                if let Some(place) = content.get_mut(at..at + 4) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        None => {
            content.extend(bytes);
            // Zeros behind it make regions possible that the input alone is too short for.
            let len = content.len() + more_bytes as usize % BYTES_MAX;
            content.resize(len.min(BYTES_MAX), 0);
        }
    }
    let Ok(mut memory) = PacketMemory::open(region(&content)) else { return };
    let sizes = *memory.sizes();
    assert_eq!(sizes.checked(), Ok(sizes), "what is opened is possible");
    assert!(sizes.region_bytes() <= content.len());
    let _ = memory.state();
    for worker in 0..sizes.workers {
        let mut end = memory.end(worker).expect("each is there once");
        for _ in 0..MESSAGES_MAX {
            match end.receive() {
                Ok(Next::Packet(mut frame)) => {
                    // The bytes are there, to be read and written.
                    let sum = frame.bytes().iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
                    frame.bytes_mut().fill(sum);
                    let _ = end.send(frame).or_else(|frame| end.done(frame));
                }
                Ok(Next::Detach(_) | Next::Attach(_)) => {}
                Ok(Next::FramesOut | Next::Empty | Next::Retired) | Err(_) => break,
            }
            let _ = end.publish();
        }
        if let Ok(Some(frame)) = end.take() {
            let _ = end.send(frame);
        }
        let _ = end.publish();
    }
});

fn region(content: &[u8]) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("fuzz", flags).expect("memory is left");
    let mut written = 0;
    while written < content.len() {
        written += rustix::io::write(&file, &content[written..]).expect("memory is left");
    }
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).expect("it is ours");
    file
}
