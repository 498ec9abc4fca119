//! libipsec-mb as a cipher of ESP.

mod cbc;
mod gcm;
mod known;

use calisto_nf::esp::{Cipher, Job, Secret};

use crate::key::Expanded;
use crate::library::Instance;
use crate::{CryptoError, Key};

/// A manager of the library: one for each thread that encrypts.
pub struct IpsecMb {
    instance: Instance,
}

impl IpsecMb {
    /// Opens the library, and sees that it computes what the standards say.
    ///
    /// # Errors
    /// The library is not installed, is another version, does not run on this processor, or is
    /// wrong.
    pub fn open() -> Result<Self, CryptoError> {
        let mut opened = Self { instance: Instance::open()? };
        known::check(&mut opened)?;
        Ok(opened)
    }

    /// The library's version and the instructions that it uses, for people.
    pub fn describe(&self) -> String {
        self.instance.describe()
    }
}

impl std::fmt::Debug for IpsecMb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("IpsecMb").field(&self.describe()).finish()
    }
}

/// Bytes of SPI and sequence number.
const ESP_BYTES: usize = 8;
/// The longest ICV.
const ICV_MAX: usize = 16;
/// What is encrypted at once at least, by algorithm: a job with less is none.
const CBC_FIXED: usize = ESP_BYTES + 16;
const GCM_FIXED: usize = ESP_BYTES + 8;

impl Cipher for IpsecMb {
    type Key = Key;

    fn expand(&mut self, secret: &Secret) -> Key {
        Key::expand(&mut self.instance, secret)
    }

    fn seal(&mut self, jobs: &mut [Job<'_, Key>]) {
        // GCM is fast one by one, and done at once; what is chained goes through the manager
        // together.
        let mut has_cbc = false;
        for job in &mut *jobs {
            match &*job.key.0 {
                Expanded::Gcm { keys, salt } => gcm::seal(&self.instance, job, keys, *salt),
                Expanded::Cbc { .. } => has_cbc = true,
            }
        }
        if has_cbc {
            cbc::seal(&mut self.instance, jobs);
        }
    }

    fn open(&mut self, jobs: &mut [Job<'_, Key>]) {
        let mut has_cbc = false;
        for job in &mut *jobs {
            match &*job.key.0 {
                Expanded::Gcm { keys, salt } => gcm::open(&self.instance, job, keys, *salt),
                Expanded::Cbc { .. } => has_cbc = true,
            }
        }
        if has_cbc {
            cbc::open(&mut self.instance, jobs);
        }
    }
}

/// Whether both are the same, in a time that does not tell where they differ.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests;
