//! Where a router's routes come from.

/// A file of routes.
pub mod file;
/// The kernel's tables, followed as they change.
pub mod kernel;
/// What such a file is read by.
pub(crate) mod text;
