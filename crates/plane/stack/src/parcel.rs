//! A connection on its way to the kernel: what a worker has let go of, and the bytes that nobody
//! has read, or acknowledged.

use std::sync::Arc;

use base::{Generation, SlotId};
use piece::ReadPiece;
use tcp::{NoRepair, Repair, Span};

use crate::app_sockets::AppSockets;
use crate::heritage::Inherited;
use crate::rings::{Pair, Ring};

/// The answer to [`Command::HandOver`](crate::Command::HandOver), and to that about all orphans.
#[derive(Debug)]
pub struct Parcel {
    /// Whose it was.
    pub app: Arc<AppSockets>,
    /// Its slot, which nobody gives back; of an orphan that was opened here, the one that it had.
    pub slot: SlotId,
    /// The slot's, since this socket has it.
    pub generation: Generation,
    /// The connection; or why it is still the worker's.
    pub connection: Result<LetGo, NoRepair>,
}

/// A connection that no engine has any more.
#[derive(Debug)]
pub struct LetGo {
    /// What it was.
    pub repair: Repair,
    /// It was opened here.
    pub was_opened: bool,
    /// Bytes behind [`Repair::queued`] that the application had written too.
    pub(crate) more_bytes: u32,
    pub(crate) pair: Pair,
}

impl LetGo {
    /// All that is needed to go on with it.
    pub fn inherited(&self) -> Inherited {
        let Self { repair, was_opened, .. } = *self;
        Inherited { repair, was_opened, unread: self.unread(), queued: self.queued() }
    }

    /// The bytes that were received and not read.
    fn unread(&self) -> Vec<u8> {
        copy(&self.pair.receive, self.repair.unread)
    }

    /// The bytes that the peer has not acknowledged, those that were never sent included.
    fn queued(&self) -> Vec<u8> {
        let Span { at, bytes } = self.repair.queued;
        copy(&self.pair.send, Span { at, bytes: bytes + self.more_bytes })
    }

    /// Its rings go back to whom they belong.
    pub fn give_back(self) {
        let Pair { receive, send, home, .. } = self.pair;
        for ring in [receive, send] {
            if let (Ring::Shared(ring), Some(app)) = (ring, &home) {
                app.server.heap().take_back(ring);
            }
        }
    }
}

/// The bytes of a stretch that may go around the end of its ring.
fn copy(ring: &Ring, span: Span) -> Vec<u8> {
    let whole = ring.read_piece();
    let bytes = (span.bytes as usize).min(whole.len());
    let first = bytes.min(whole.len().saturating_sub(span.at));
    let part = |at, bytes| whole.get(at, bytes).unwrap_or(ReadPiece::EMPTY).to_vec();
    let mut copied = part(span.at, first);
    copied.extend(part(0, bytes - first));
    copied
}
