//! What this crate asks of a library that encrypts: a whole batch at once, in place.

use super::Secret;

/// Encrypts and decrypts packets of ESP, several of them interleaved.
///
/// A job's `packet` begins with the SPI and ends with the ICV: it has `8 + iv + n * block + icv`
/// bytes, `n >= 1`, in the sizes of the key's [`super::Algorithm`]; whoever makes jobs has seen to
/// that.
pub trait Cipher {
    /// An expanded key of one association.
    type Key;

    /// Expands a key, once for each association.
    fn expand(&mut self, secret: &Secret) -> Self::Key;

    /// Encrypts and signs. Of CBC the field of the IV holds a block that is unique under this key:
    /// what it is encrypted to becomes the IV, which so nobody can foresee (NIST SP 800-38A,
    /// appendix C). Of GCM it holds the IV itself, as unique.
    fn seal(&mut self, jobs: &mut [Job<'_, Self::Key>]);

    /// Verifies and decrypts. Of a job that comes back not good nothing in the packet means
    /// anything.
    fn open(&mut self, jobs: &mut [Job<'_, Self::Key>]);
}

/// One packet to be encrypted or decrypted.
#[derive(Debug)]
pub struct Job<'a, K> {
    /// From the SPI to the ICV.
    pub packet: &'a mut [u8],
    /// Of its association.
    pub key: &'a K,
    /// Upper half of an extended sequence number, which is signed but not sent (RFC 4303 section
    /// 2.2.1); nothing: the association has short ones.
    pub sequence_high: Option<u32>,
    /// Set by the cipher: sealed, or verified and decrypted.
    pub is_good: bool,
}
