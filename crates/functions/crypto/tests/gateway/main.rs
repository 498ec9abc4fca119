//! The ESP gateway with its real cipher: what goes in at one end comes out at the other, and
//! nothing else.

mod ends;
mod errors;
mod hostile;
mod rekey;
mod scapy;
mod shared;
mod through;
