//! Keys as the library wants them: expanded once, aligned, wiped in the end.

use calisto_nf::esp::{Algorithm, Secret};
use zeroize::{Zeroize, Zeroizing};

use crate::layout::{AesKeys, GCM_KEY_BYTES, GcmKeys, HashBlock};
use crate::library::Instance;

/// An expanded key of one direction of a tunnel.
pub struct Key(pub(crate) Box<Expanded>);

/// By algorithm.
#[expect(clippy::large_enum_variant, reason = "each is in a box of its own")]
pub(crate) enum Expanded {
    Gcm { keys: GcmKeys, salt: [u8; 4] },
    Cbc { encrypt: AesKeys, decrypt: AesKeys, hmac: Hmac },
}

/// The states of the hash after the two padded keys (RFC 2104): what each packet begins with.
pub(crate) struct Hmac {
    pub(crate) algorithm: u32,
    pub(crate) icv_bytes: usize,
    pub(crate) inner: State,
    pub(crate) outer: State,
}

/// State of SHA-1 (20 bytes) or SHA-256 (32).
#[repr(align(16))]
pub(crate) struct State(pub(crate) [u8; 32]);

/// Bytes that both hashes take at once.
const BLOCK_BYTES: usize = 64;

impl Key {
    pub(crate) fn expand(instance: &mut Instance, secret: &Secret) -> Self {
        let algorithm = secret.algorithm();
        let mut key = Box::new(match algorithm {
            Algorithm::Gcm => {
                Expanded::Gcm { keys: GcmKeys([0; GCM_KEY_BYTES]), salt: secret.salt() }
            }
            Algorithm::CbcSha1 | Algorithm::CbcSha256 => Expanded::Cbc {
                encrypt: AesKeys([0; 176]),
                decrypt: AesKeys([0; 176]),
                hmac: Hmac::new(instance, algorithm, secret.auth()),
            },
        });
        // Expanded where it stays: what is moved leaves a copy behind.
        match &mut *key {
            // SAFETY: 16 bytes are read and `struct gcm_key_data` is written, which both are here.
            Expanded::Gcm { keys, .. } => unsafe {
                (instance.expand_gcm)(secret.aes().as_ptr(), keys);
            },
            // SAFETY: 16 bytes are read and eleven round keys written to each of both.
            Expanded::Cbc { encrypt, decrypt, .. } => unsafe {
                (instance.expand_aes)(secret.aes().as_ptr(), encrypt, decrypt);
            },
        }
        Self(key)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        match &mut *self.0 {
            Expanded::Gcm { keys, salt } => {
                keys.0.zeroize();
                salt.zeroize();
            }
            Expanded::Cbc { encrypt, decrypt, hmac } => {
                encrypt.0.zeroize();
                decrypt.0.zeroize();
                hmac.inner.0.zeroize();
                hmac.outer.0.zeroize();
            }
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl Hmac {
    /// Of a key that is no longer than a block.
    pub(crate) fn new(instance: &Instance, algorithm: Algorithm, key: &[u8]) -> Self {
        let (number, hash) = match algorithm {
            Algorithm::CbcSha256 => (crate::layout::HMAC_SHA256, instance.sha256_block),
            Algorithm::CbcSha1 | Algorithm::Gcm => (crate::layout::HMAC_SHA1, instance.sha1_block),
        };
        let icv_bytes = algorithm.icv_bytes();
        let [inner, outer] = [0x36, 0x5c].map(|pad| State::after(hash, key, pad));
        Self { algorithm: number, icv_bytes, inner, outer }
    }
}

impl State {
    fn after(hash: HashBlock, key: &[u8], pad: u8) -> Self {
        let mut block = Zeroizing::new([pad; BLOCK_BYTES]);
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        let mut state = Self([0; 32]);
        // SAFETY: a block of 64 bytes is read, and 20 or 32 bytes of state are written.
        unsafe { hash(block.as_ptr(), state.0.as_mut_ptr()) };
        state
    }
}
