//! The keys of one association: checked when they come, never printed, and wiped when they go.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Algorithm;

/// Keys of one direction of a tunnel.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Secret {
    #[zeroize(skip)]
    algorithm: Algorithm,
    /// The first `algorithm.key_bytes()` count.
    key: [u8; KEY_MAX],
    /// The first `algorithm.auth_bytes()` count.
    auth: [u8; AUTH_MAX],
}

const KEY_MAX: usize = 20;
const AUTH_MAX: usize = 32;
const AES_BYTES: usize = 16;

impl Secret {
    /// Takes a copy of the keys; wiping what they were read from is the caller's.
    ///
    /// # Errors
    /// Keys of the wrong length, and keys that nobody drew at random.
    pub fn new(algorithm: Algorithm, key: &[u8], auth: &[u8]) -> Result<Self, WeakKey> {
        check("key", key, algorithm.key_bytes())?;
        check("auth", auth, algorithm.auth_bytes())?;
        if !auth.is_empty() && auth.starts_with(&key[..AES_BYTES]) {
            return Err(WeakKey::SameTwice);
        }
        let mut secret = Self { algorithm, key: [0; KEY_MAX], auth: [0; AUTH_MAX] };
        secret.key[..key.len()].copy_from_slice(key);
        secret.auth[..auth.len()].copy_from_slice(auth);
        Ok(secret)
    }

    /// What they are for.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The key of AES.
    pub fn aes(&self) -> &[u8; AES_BYTES] {
        self.key.first_chunk().expect("the array is longer than that")
    }

    /// The first four bytes of GCM's nonce (RFC 4106 section 4).
    pub const fn salt(&self) -> [u8; 4] {
        let [.., a, b, c, d] = self.key;
        [a, b, c, d]
    }

    /// The key of HMAC; empty where there is none.
    pub fn auth(&self) -> &[u8] {
        &self.auth[..self.algorithm.auth_bytes()]
    }

    /// Whether both are for the same algorithm and all their keys are the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && self.key == other.key && self.auth == other.auth
    }

    /// Whether both encrypt with the same key.
    pub fn encrypts_like(&self, other: &Self) -> bool {
        self.aes() == other.aes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Why keys are refused. Says nothing of what is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeakKey {
    /// It has not the length that the algorithm wants.
    Length {
        /// `key` or `auth`.
        what: &'static str,
        /// Bytes that it has.
        is: usize,
        /// Bytes that it should have.
        wants: usize,
    },
    /// All its bytes are zero.
    Zero(&'static str),
    /// Each byte is as far from the last as that was from the one before: the same one again and
    /// again, or counted.
    Counted(&'static str),
    /// A shorter pattern again and again.
    Repeated(&'static str),
    /// The key that signs begins with the one that encrypts.
    SameTwice,
}

impl fmt::Display for WeakKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { what, is, wants: 0 } => {
                write!(f, "this algorithm has no `{what}`, and it has {is} bytes: leave it out")
            }
            Self::Length { what, is, wants } => {
                write!(f, "`{what}` has {is} bytes, and must have {wants}")
            }
            Self::Zero(what) => write!(f, "`{what}` is all zero, which everybody tries first"),
            Self::Counted(what) => {
                write!(f, "the bytes of `{what}` are all the same or counted, not random")
            }
            Self::Repeated(what) => write!(f, "`{what}` is a shorter pattern again and again"),
            Self::SameTwice => f.write_str("`auth` begins with the bytes of `key`"),
        }?;
        f.write_str(": draw one at random, for example by `openssl rand -hex 32`")
    }
}

impl std::error::Error for WeakKey {}

fn check(what: &'static str, bytes: &[u8], wants: usize) -> Result<(), WeakKey> {
    if bytes.len() != wants {
        return Err(WeakKey::Length { what, is: bytes.len(), wants });
    }
    // The salt of GCM is no secret and may be anything.
    let bytes = if what == "key" { &bytes[..AES_BYTES] } else { bytes };
    let Some((&first, rest)) = bytes.split_first() else {
        return Ok(());
    };
    if first == 0 && rest.iter().all(|&byte| byte == 0) {
        return Err(WeakKey::Zero(what));
    }
    let mut steps = bytes.windows(2).map(|two| two[1].wrapping_sub(two[0]));
    let step = steps.next();
    if steps.all(|next| Some(next) == step) {
        return Err(WeakKey::Counted(what));
    }
    let is_repeated =
        |period: usize| bytes.iter().zip(&bytes[period..]).all(|(one, other)| one == other);
    if (2..=bytes.len() / 2).any(is_repeated) {
        return Err(WeakKey::Repeated(what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [u8; 16] = *b"\x06\xa9\x21\x40\x36\xb8\xa1\x5b\x51\x2e\x03\xd5\x34\x12\x00\x06";
    const AUTH: [u8; 20] =
        *b"\x90\xd3\x82\xb4\x10\xee\xba\x7a\xd9\x38\xc4\x6c\xec\x1a\x82\xbf\x01\x02\x03\x07";

    #[test]
    fn key_that_was_not_drawn_at_random_is_refused_with_a_sentence() {
        let counted: [u8; 16] = std::array::from_fn(|at| at as u8);
        let pattern: [u8; 16] = std::array::from_fn(|at| b"\xde\xad\xbe\xef"[at % 4]);
        for (key, why) in [
            ([0; 16], WeakKey::Zero("key")),
            ([0x55; 16], WeakKey::Counted("key")),
            (counted, WeakKey::Counted("key")),
            (pattern, WeakKey::Repeated("key")),
        ] {
            let refused = Secret::new(Algorithm::CbcSha1, &key, &AUTH).err();
            assert_eq!(refused, Some(why));
            assert!(why.to_string().contains("openssl rand"), "{why}");
        }
        let same = [GOOD.as_slice(), &[1, 2, 4, 8]].concat();
        assert_eq!(Secret::new(Algorithm::CbcSha1, &GOOD, &same).err(), Some(WeakKey::SameTwice));
        assert_eq!(
            Secret::new(Algorithm::CbcSha1, &GOOD, &[7; 20]).err(),
            Some(WeakKey::Counted("auth"))
        );
    }

    #[test]
    fn key_of_another_length_is_refused() {
        let wrong = |algorithm, key: &[u8], auth: &[u8]| Secret::new(algorithm, key, auth).err();
        let length = |what, is, wants| Some(WeakKey::Length { what, is, wants });
        assert_eq!(wrong(Algorithm::CbcSha1, &GOOD[1..], &AUTH), length("key", 15, 16));
        assert_eq!(wrong(Algorithm::CbcSha256, &GOOD, &AUTH), length("auth", 20, 32));
        assert_eq!(wrong(Algorithm::Gcm, &GOOD, &[]), length("key", 16, 20));
        assert_eq!(wrong(Algorithm::Gcm, &AUTH, &AUTH), length("auth", 20, 0));
    }

    #[test]
    fn salt_of_gcm_may_be_anything() {
        let key = [GOOD.as_slice(), &[0; 4]].concat();
        let secret = Secret::new(Algorithm::Gcm, &key, &[]).expect("the key itself is good");
        assert_eq!((secret.aes(), secret.salt(), secret.auth()), (&GOOD, [0; 4], [].as_slice()));
    }

    #[test]
    fn keys_are_never_printed() {
        let secret = Secret::new(Algorithm::CbcSha1, &GOOD, &AUTH).expect("both are good");
        let shown = format!("{secret:?}");
        assert!(!shown.contains("169") && !shown.contains("a9"), "{shown}");
    }
}
