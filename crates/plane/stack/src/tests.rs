//! Services and sockets behind a whole dispatcher, from an engine at the other end of a wire.

mod connections;
mod sockets;
