//! What has become of a call that moves bytes.

use libc::ssize_t;
use rustix::io::Errno;

use crate::system::outcome;

/// How a call on a socket of ours ended.
pub(crate) enum Served<T> {
    /// So.
    Done(Result<T, Errno>),
    /// The number was not ours when the call began: it is to be made of the kernel. Never an answer
    /// once the call has looked at a socket of ours: see [`Ended::Replaced`].
    Elsewhere,
}

impl Served<usize> {
    /// What the call returns to the program: made of the kernel if it is to be made elsewhere.
    #[inline]
    pub(crate) fn otherwise(self, of_kernel: impl FnOnce() -> ssize_t) -> ssize_t {
        match self {
            Self::Done(result) => outcome::bytes(result),
            Self::Elsewhere => of_kernel(),
        }
    }
}
