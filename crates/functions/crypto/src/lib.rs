//! Encryption for network functions: Debian's libipsec-mb behind [`calisto_nf::esp::Cipher`].
//!
//! One of the crates that may use `unsafe`. The library encrypts several packets interleaved, which
//! is what makes CBC and HMAC fast: neither can be cut in pieces within a packet. It is opened when
//! it is needed and never linked, so that a program without tunnels runs where it is not installed.
//! What must hold: no job outlives the call that makes it, so that the library keeps no pointer
//! into a packet or a key. Read `ipsec_mb.rs` first.

mod error;
/// The library as a cipher.
mod ipsec_mb;
mod key;
mod layout;
mod library;

pub use error::CryptoError;
pub use ipsec_mb::IpsecMb;
pub use key::Key;
