//! What is kept, and how far that could be enforced.

use std::path::Path;

use sys::capability::Capability;

use crate::calls::Calls;

/// What a thread keeps.
#[derive(Clone, Copy, Debug)]
pub struct Rights<'a> {
    /// Capabilities, of those that it has now.
    pub capabilities: &'a [Capability],
    /// System calls, besides those that every thread makes ([`Calls::Basic`]).
    pub calls: &'a [Calls],
    /// Files and folders with all below them that it may open for reading. Those that do not exist
    /// are left out.
    pub reads: &'a [&'a str],
    /// Folders whose files it may remove, and in which it may make sockets.
    pub replaces: &'a [&'a Path],
    /// It may bind and connect TCP sockets, and send signals to processes outside the daemon, as
    /// far as its capabilities and calls let it.
    pub reaches_out: bool,
    /// Paths are not confined: landlock(7) would end all access to other processes, and its work is
    /// to look at them.
    pub traces: bool,
}

impl Rights<'_> {
    /// Of a thread that computes on memory and descriptors which it was given.
    pub const NOTHING: Self = Self {
        capabilities: &[],
        calls: &[],
        reads: &[],
        replaces: &[],
        reaches_out: false,
        traces: false,
    };
}

/// How far the kernel could follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confined {
    /// Capabilities, calls and paths.
    Whole,
    /// The kernel has no landlock(7), or an old one: some or all paths are not confined.
    WithoutPaths,
}
