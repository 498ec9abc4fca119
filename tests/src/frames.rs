//! Frames of a test's own onto a wire, and what comes from there.

use calisto_slice::{Slice, SliceSpec};
use shm::Batch;
use sys::clock;

use crate::line::Host;

/// A packet socket on one interface of a host.
pub struct Frames {
    slice: Slice,
    batch: Batch,
}

impl Frames {
    /// On `interface` of `host`.
    ///
    /// # Panics
    /// There is none of that name, or this is not root.
    pub fn new(host: &Host, interface: &str) -> Self {
        let port = format!("af_packet:{interface}").parse().expect("it names a port");
        let spec = SliceSpec::new("frames", vec![port]);
        let slice = host.enter(|| Slice::open(&spec)).expect("this test needs root");
        Self { slice, batch: Batch::new() }
    }

    /// Sends them in order.
    ///
    /// # Panics
    /// A frame is longer than the link takes.
    pub fn send<'a>(&mut self, frames: impl Iterator<Item = &'a Vec<u8>>) {
        let Self { slice, batch } = self;
        for bytes in frames {
            let mut frame = slice.take().expect("there are more frames than a test sends");
            assert!(frame.fill(bytes), "a frame has room for {} bytes", bytes.len());
            frame.meta_mut().transmit = true;
            batch.push(frame);
            while !batch.is_empty() {
                slice.write_multi(batch, clock::now());
            }
        }
    }

    /// Frames that have come since the last call.
    pub fn come(&mut self) -> Vec<Vec<u8>> {
        let Self { slice, batch } = self;
        let mut all = Vec::new();
        while slice.read_multi(batch, clock::now()) > 0 {
            all.extend(batch.iter().map(|frame| frame.bytes().to_vec()));
            slice.give_back(batch);
        }
        all
    }
}
