//! Why there is no encryption here, and what mends it.

use std::fmt;

/// Why the library cannot be used.
#[derive(Debug)]
pub enum CryptoError {
    /// It is not installed, or cannot be loaded: what the loader says.
    Missing(String),
    /// It is there, but without a function that we call.
    Symbol(&'static str),
    /// Its version, as `0xMMmmpp`, is one whose memory layout is not known to be ours.
    Version(u32),
    /// The processor has not what the library needs: AES instructions above all.
    Processor(String),
    /// The library computes something else than the standards say.
    SelfTest(&'static str),
}

impl fmt::Display for CryptoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(says) => write!(
                f,
                "ESP is encrypted by libipsec-mb, which cannot be loaded here ({says}): install it by \
                 `apt-get install libipsec-mb1` (there is one for x86-64 only)"
            ),
            Self::Symbol(name) => write!(
                f,
                "libIPSec_MB.so.1 has no function `{name}`: install Debian's package libipsec-mb1, version 1.3"
            ),
            Self::Version(version) => write!(
                f,
                "libipsec-mb is version {}.{}.{}, and this program knows the layout of 1.3 to 1.5: install \
                 Debian's package libipsec-mb1",
                version >> 16,
                version >> 8 & 0xff,
                version & 0xff
            ),
            Self::Processor(says) => write!(
                f,
                "libipsec-mb does not run on this processor ({says}): it needs AES-NI, PCLMULQDQ and SSE4.2, \
                 which a virtual machine may hide; give it the host's processor model"
            ),
            Self::SelfTest(name) => write!(
                f,
                "libipsec-mb computes {name} wrongly on this machine, so nothing is encrypted with it: \
                 reinstall libipsec-mb1, and suspect the processor"
            ),
        }
    }
}

impl std::error::Error for CryptoError {}
