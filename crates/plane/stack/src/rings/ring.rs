//! A ring of a flow, and the two that a flow has.

use std::sync::Arc;

use piece::{Piece, ReadPiece};
use shm::sockets::{RingDesc, RingMemory};

use crate::app_sockets::AppSockets;
use crate::flow_records::OrphanRecord;

/// A ring of a flow.
#[derive(Debug, Default)]
pub(crate) enum Ring {
    /// Not made yet.
    #[default]
    None,
    /// Memory of this process alone.
    Own(Box<[u8]>),
    /// Memory of an application: it reads or writes there itself.
    Shared(RingMemory),
}

impl Ring {
    pub(crate) fn len(&self) -> usize {
        self.read_piece().len()
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Where it lies in an application's memory.
    pub(crate) fn desc(&self) -> Option<RingDesc> {
        match self {
            Self::Shared(ring) => Some(ring.desc()),
            Self::None | Self::Own(_) => None,
        }
    }

    /// To copy from.
    #[inline]
    pub(crate) fn read_piece(&self) -> ReadPiece<'_> {
        match self {
            Self::None => ReadPiece::EMPTY,
            Self::Own(ring) => ring[..].into(),
            Self::Shared(ring) => ring.read_piece(),
        }
    }

    /// To copy into.
    #[inline]
    pub(super) fn piece(&mut self) -> Piece<'_> {
        match self {
            Self::None => Piece::EMPTY,
            Self::Own(ring) => (&mut ring[..]).into(),
            Self::Shared(ring) => ring.piece(),
        }
    }
}

/// The two rings of a flow.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    pub(crate) receive: Ring,
    pub(crate) send: Ring,
    /// The application in whose memory they lie; none: in ours.
    pub(crate) home: Option<Arc<AppSockets>>,
    /// Base-2 logarithm of the receive ring's length, once it has grown; 0: as all begin.
    pub(super) receive_log2: u8,
    /// Bytes came for which there was no ring, and have not come again since.
    pub(super) is_starved: bool,
    /// Its program has closed it, and somebody may have to go on with it.
    pub(super) orphan: Option<OrphanRecord>,
}

impl Pair {
    pub(super) fn bytes(&self) -> u64 {
        (self.receive.len() + self.send.len()) as u64
    }
}
