//! How packets of a security association are encrypted and signed, and what sizes follow from that.

use std::fmt;

/// Encryption and integrity of one association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// AES-128-CBC (RFC 3602) with HMAC-SHA1-96 (RFC 2404).
    CbcSha1,
    /// AES-128-CBC (RFC 3602) with HMAC-SHA-256-128 (RFC 4868).
    CbcSha256,
    /// AES-128-GCM with an ICV of 16 bytes (RFC 4106).
    Gcm,
}

impl Algorithm {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::CbcSha1, Self::CbcSha256, Self::Gcm];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CbcSha1 => "aes-128-cbc-hmac-sha1",
            Self::CbcSha256 => "aes-128-cbc-hmac-sha256",
            Self::Gcm => "aes-128-gcm",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Bytes of the initialisation vector in each packet.
    #[inline]
    pub const fn iv_bytes(self) -> usize {
        match self {
            Self::CbcSha1 | Self::CbcSha256 => 16,
            Self::Gcm => 8,
        }
    }

    /// What payload and trailer together are a multiple of, in bytes: the cipher's block, or the
    /// four that RFC 4303 section 2.4 asks for.
    #[inline]
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::CbcSha1 | Self::CbcSha256 => 16,
            Self::Gcm => 4,
        }
    }

    /// Bytes of the integrity check value at the packet's end.
    #[inline]
    pub const fn icv_bytes(self) -> usize {
        match self {
            Self::CbcSha1 => 12,
            Self::CbcSha256 | Self::Gcm => 16,
        }
    }

    /// Bytes of the encryption key; for GCM with the four bytes of salt at its end (RFC 4106
    /// section 8.1).
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::CbcSha1 | Self::CbcSha256 => 16,
            Self::Gcm => 20,
        }
    }

    /// Bytes of the key that signs; zero where one key does both.
    pub const fn auth_bytes(self) -> usize {
        match self {
            Self::CbcSha1 => 20,
            Self::CbcSha256 => 32,
            Self::Gcm => 0,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
