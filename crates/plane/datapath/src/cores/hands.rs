//! What only the process around the loop can do: move threads, and interrupt them.

use super::slot::CoreSlot;

/// Moves and interrupts the threads of kept workers. A thread is known by the number that its
/// worker claims, which for an application is input: it is proven before anything is done to it.
pub trait Hands {
    /// Lets the thread run on this core only, with its own rights again. Called before the worker
    /// is woken there.
    ///
    /// # Errors
    /// It is no thread of the worker's process, or has ended.
    fn place(&mut self, slot: CoreSlot, thread: u32, core: u16) -> Result<(), Strayed>;

    /// Lets the thread run on no managed core, and only when nobody else wants to.
    ///
    /// # Errors
    /// As [`Self::place`].
    fn evict(&mut self, slot: CoreSlot, thread: u32) -> Result<(), Strayed>;

    /// Interrupts the thread's system call, if it is in one.
    ///
    /// # Errors
    /// As [`Self::place`].
    fn nudge(&mut self, slot: CoreSlot, thread: u32) -> Result<(), Strayed>;

    /// The worker is not kept any more: its thread may run where it could before.
    fn release(&mut self, slot: CoreSlot);
}

/// The thread is not one of the worker's process, or is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strayed;
