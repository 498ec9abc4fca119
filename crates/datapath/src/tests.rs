//! The whole of steering and hand-over, deterministic, without ports or threads.

mod schedules;
mod world;
