//! Sets of epoll(7): what they hold of ours, and how threads wait for it.

pub(crate) mod early;
pub(crate) mod kernel_set;
mod members;
mod rules;
mod set;
pub(crate) mod sets;
pub(crate) mod sleep;

pub(crate) use early::{moves, moves_back, moves_from};
pub(crate) use set::Set;
