//! All tests of the C interface as one program: it is built and linked once.

#[path = "../../client/tests/common/mod.rs"]
mod common;
mod header;
#[path = "../../../functions/slice/tests/common/mod.rs"]
mod middle;
mod misuse;
mod programs;
mod slices;
mod sockets;
#[path = "../../client/tests/common/streams.rs"]
mod streams;
