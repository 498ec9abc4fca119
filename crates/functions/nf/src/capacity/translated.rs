//! A NAT whose packets are as before when it has translated them, so that they may come again.

use base::{BURST, Nanos, PortId};
use shm::{Batch, FramePool, PoolConfig};

use crate::{Function, Nat, Verdict, Verdicts};

/// Bytes that it changes something in: the headers up to UDP's.
const HEADERS: usize = 42;

/// The NAT, where its packets leave, and the headers of a batch.
pub(super) struct Translated {
    nat: Nat,
    to: PortId,
    headers: [[u8; HEADERS]; BURST],
}

impl Translated {
    /// Over one to which all of `packets` come by one port, and leave by another.
    pub(super) fn new(nat: Nat, [from, to]: [PortId; 2], packets: &[Vec<u8>]) -> Self {
        let mut translated = Self { nat, to, headers: [[0; HEADERS]; BURST] };
        let frames = BURST as u32;
        let config = PoolConfig { frames, chunk_bytes: 2048, ..PoolConfig::default() };
        let mut pool = FramePool::new(config).expect("a small pool");
        for packets in packets.chunks(BURST) {
            let mut batch = Batch::new();
            for packet in packets {
                let mut frame = pool.take().expect("one for each packet");
                assert!(frame.fill(packet), "a packet fits into a frame");
                frame.meta_mut().port = from;
                batch.push(frame);
            }
            translated.process(&mut batch, &mut Verdicts::new(), Nanos::ZERO);
            batch.drain(..).for_each(|frame| pool.give(frame));
        }
        translated
    }

    /// Connections that it has.
    pub(super) fn connections(&self) -> usize {
        self.nat.connections()
    }
}

impl Function for Translated {
    fn name(&self) -> &'static str {
        "nat"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        self.nat.process(batch, verdicts, now);
        for (index, frame, verdict) in verdicts.undecided(batch) {
            if let Some(headers) = frame.bytes().first_chunk() {
                self.headers[index] = *headers;
            }
            *verdict = Verdict::Out(self.to);
        }
        self.nat.leave(batch, verdicts, now);
        for (index, frame) in batch.iter_mut().enumerate() {
            if verdicts[index] != Verdict::Out(self.to) {
                continue;
            }
            if let Some(headers) = frame.bytes_mut().first_chunk_mut() {
                *headers = self.headers[index];
            }
            verdicts[index] = Verdict::Next;
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.nat.counters(each);
    }
}
