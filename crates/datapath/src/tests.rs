//! The whole of steering and hand-over, deterministic, without ports or threads.

mod packets;
mod schedules;
mod world;
