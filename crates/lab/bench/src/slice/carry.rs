//! One turn of a slice with its functions: read, decide, write.

use base::Nanos;
use calisto_nf::{Function, Verdict, Verdicts};
use calisto_slice::Slice;
use port::Port;
use shm::Batch;

/// Functions, in order, and what a turn needs again and again.
pub(super) struct Carrier {
    functions: Vec<Box<dyn Function>>,
    batch: Batch,
    verdicts: Verdicts,
}

impl Carrier {
    pub(super) fn new(functions: Vec<Box<dyn Function>>) -> Self {
        Self { functions, batch: Batch::new(), verdicts: Verdicts::new() }
    }

    /// Reads a batch, lets the functions decide, and sends what is to leave; how many were read.
    /// What the ports have no room for is dropped, as a wire would.
    #[inline]
    pub(super) fn turn<P: Port>(&mut self, slice: &mut Slice<P>, now: Nanos) -> usize {
        let Self { functions, batch, verdicts } = self;
        let read = slice.read_multi(batch, now);
        if read == 0 {
            return 0;
        }
        verdicts.reset();
        for function in functions {
            function.process(batch, verdicts, now);
        }
        for (frame, verdict) in batch.iter_mut().zip(verdicts.of(read)) {
            let meta = frame.meta_mut();
            meta.transmit = false;
            if let Verdict::Out(port) = verdict {
                (meta.port, meta.transmit) = (*port, true);
            }
        }
        slice.write_multi(batch, now);
        if !batch.is_empty() {
            slice.give_back(batch);
        }
        read
    }
}
