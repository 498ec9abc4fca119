//! All tests of captures but one as one program: it is built and linked once.

mod against_oracle;
mod behaviour;
mod common;
mod hostile;
mod requests;
mod tshark;
