//! Prints what each function costs by itself: nanoseconds a packet, over frames that lie in the
//! cache.
//!
//! `cargo run --release -p calisto-nf --example capacity -- [ROUNDS]`
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what measures reads the clock, in a crate that else does not"
)]

use std::time::Instant;

use base::{BURST, Nanos};
use calisto_nf::Verdicts;
use calisto_nf::capacity::{IN, PASSES, Subject, subjects};
use shm::{Batch, FramePool, PoolConfig};

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    for bytes in [64, 1514] {
        let mut subjects = subjects(bytes);
        let mut samples = vec![Vec::new(); subjects.len()];
        for _ in 0..rounds {
            for (subject, samples) in subjects.iter_mut().zip(&mut samples) {
                samples.push(nanos_per_packet(subject));
            }
        }
        for (subject, samples) in subjects.iter().zip(&mut samples) {
            samples.sort_by(f64::total_cmp);
            let (min, median) = (samples[0], samples[samples.len() / 2]);
            let max = samples[samples.len() - 1];
            println!("{:18} {bytes:4} B  {median:6.1} ns/packet ({min:.1}-{max:.1})", subject.name);
        }
    }
}

/// Full batches, again and again; that packets are written anew is not counted.
fn nanos_per_packet(subject: &mut Subject) -> f64 {
    let config = PoolConfig { frames: 256, chunk_bytes: 2048, ..PoolConfig::default() };
    let mut pool = FramePool::new(config).expect("a small pool");
    let (mut nanos, mut packets) = (0, 0);
    for chunk in subject.packets.chunks(BURST) {
        let mut batch = Batch::new();
        for packet in chunk {
            let mut frame = pool.take().expect("one for each packet");
            assert!(frame.fill(packet), "a packet fits into a frame");
            frame.meta_mut().port = IN;
            batch.push(frame);
        }
        let mut verdicts = Verdicts::new();
        let begun = Instant::now();
        for _ in 0..PASSES {
            verdicts.reset();
            subject.function.process(&mut batch, &mut verdicts, Nanos::ZERO);
        }
        nanos += begun.elapsed().as_nanos();
        packets += PASSES * batch.len();
        for frame in batch {
            pool.give(frame);
        }
    }
    nanos as f64 / packets as f64
}
