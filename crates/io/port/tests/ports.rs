//! All tests of ports but one as one program: it is built and linked once.

mod af_packet;
mod common;
mod segments;
mod tap;
mod xdp;
mod xdp_sharing;
