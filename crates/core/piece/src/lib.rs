//! Bytes that another process may write at the same moment.
//!
//! A Rust reference promises that nobody writes what it points to, and no library can promise that
//! of memory which a hostile process maps as well. So such memory has no references here: a
//! [`Piece`] or a [`ReadPiece`] is an address and a length, and its bytes are only ever copied, out
//! of it or into it. What a copy brings that raced with a writer is some mix of bytes; whoever
//! copies looks only at the copy, once.
//!
//! One of the crates that may use `unsafe`.

mod copy;
mod read;
mod write;

pub use read::ReadPiece;
pub use write::Piece;

#[cfg(test)]
mod tests;
