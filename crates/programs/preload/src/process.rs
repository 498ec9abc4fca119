//! The process and the daemon: the attachment, what came with the program, and what goes to the
//! next one.

/// When the daemon has ended, and there is another one.
pub(crate) mod again;
/// The environment of a new program.
pub(crate) mod environment;
/// Sockets that came from elsewhere.
pub(crate) mod inherited;
/// What runs before the program, and around its forks.
mod load;
/// What the descriptor of a call is.
pub(crate) mod lookup;
/// What the user is told.
pub(crate) mod say;
/// The attachment.
pub(crate) mod session;
/// By what a new program goes on with sockets of this one.
pub(crate) mod ticket;
