//! What a worker on granted cores knows of its core.

use std::thread::ThreadId;

/// Where it stands with the core control.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GrantSide {
    /// The core that it has said it runs on.
    pub(super) core: Option<u16>,
    /// It has said that it parked, and has not been granted a core since.
    pub(super) is_parked: bool,
    /// Tasks waited for it when it told last.
    pub(super) has_backlog: bool,
    /// The thread that it has told the daemon of.
    pub(super) thread: Option<ThreadId>,
}
