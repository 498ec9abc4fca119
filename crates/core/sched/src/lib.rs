//! Which ready queue a consumer serves next, and whether it spins or sleeps when none is ready.
//!
//! Decisions only: queues are numbers, and time is an argument. Which queues are ready, how a CPU
//! pauses and how a thread sleeps is memory and system calls, in `shm` and above.
#![forbid(unsafe_code)]

mod drr_scheduler;
mod spin_budget;
mod wait_strategy;

pub use drr_scheduler::{After, CLASSES, DrrScheduler, Turn};
pub use spin_budget::{SpinBudget, WaitConfig};
pub use wait_strategy::{Step, WaitStrategy};
