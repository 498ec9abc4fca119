//! Functions of a chain that were compiled elsewhere: shared objects with a versioned interface.
//!
//! The interface in C is `include/calisto_function.h`; `layout.rs` says the same in Rust, and a
//! test compiles a program that compares the two. An object runs in our process with all our
//! rights: it is trusted as the program itself is, and only what it says of packets is checked.

mod error;
mod foreign;
mod layout;
mod object;

pub use error::NotLoaded;
pub use foreign::Foreign;
