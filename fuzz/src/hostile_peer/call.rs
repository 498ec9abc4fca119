//! What an application does with one flow: the engine's calls, and its own books beside them.

use base::Nanos;
use tcp::Engine;

use super::application::Record;
use super::sink::{Rings, Sink};

/// What an application may do with one flow.
pub(super) struct Call<'a> {
    pub(super) now: Nanos,
    pub(super) engine: &'a mut Engine,
    pub(super) rings: &'a mut Rings,
    pub(super) record: &'a mut Record,
    pub(super) sink: &'a mut Sink,
}

impl Call<'_> {
    pub(super) fn write(&mut self, count: u32) {
        self.record.write(self.engine, self.rings, &mut self.sink.sides, count);
    }

    pub(super) fn read(&mut self, limit: u32) {
        self.record.read(self.engine, self.rings, &mut self.sink.sides, limit);
    }

    pub(super) fn shutdown(&mut self) {
        self.record.shut(&mut self.sink.sides);
        let _ = self.engine.shutdown(self.record.id);
    }

    /// Ends a flow, if it is not over.
    pub(super) fn abort(&mut self) {
        let _ = self.engine.abort(self.record.id);
    }

    pub(super) fn close(&mut self) {
        self.record.shut(&mut self.sink.sides);
        let _ = self.engine.close(self.record.id, self.sink);
    }

    /// The receive ring becomes twice as large, if it may.
    pub(super) fn grow(&mut self, log2: u8) {
        let id = self.record.id;
        let old = std::mem::take(&mut self.rings.receive[id.index()]);
        let Some(regrow) = self.engine.grow_receive_ring(id, log2) else {
            self.rings.receive[id.index()] = old;
            return;
        };
        let mut new = vec![0; 1 << log2];
        let is_copied = old.is_empty() || regrow.copy((&old).into(), (&mut new).into());
        assert!(is_copied, "{regrow:?} of {} bytes to {}", old.len(), new.len());
        self.rings.receive[id.index()] = new;
        self.record.grown(&mut self.sink.sides, 1 << log2);
    }
}
