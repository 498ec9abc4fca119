//! Any bytes as the region that an application maps: opening it, and reading its rings, gives
//! packets inside it or an error.
#![no_main]

use std::os::fd::OwnedFd;

use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, SealFlags};
use shm::packets::{Next, PacketMemory};

/// Longer ones say nothing new.
const BYTES_MAX: usize = 1 << 20;

/// Messages that a ring of nonsense may give before it is certain to end.
const MESSAGES_MAX: usize = 1 << 15;

/// A header of the right kind, so that what follows it is read: the input is the rest.
const HEADER: [u64; 5] = [u64::from_le_bytes(*b"CALISTO1"), 1 | 3 << 32, 0, 40, 0];

fuzz_target!(|input: (bool, u32, &[u8])| {
    let (with_header, more_bytes, bytes) = input;
    let mut content = Vec::new();
    if with_header {
        content.extend(HEADER.iter().flat_map(|word| word.to_le_bytes()));
    }
    content.extend(bytes);
    // Zeros behind it make regions possible that the input alone is too short for.
    content.resize((content.len() + more_bytes as usize % BYTES_MAX).min(BYTES_MAX), 0);
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
