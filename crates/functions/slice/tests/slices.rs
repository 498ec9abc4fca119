//! All tests of slices as one program: it is built and linked once.

mod common;
mod veth;
mod wires;
