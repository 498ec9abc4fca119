//! What a reader must know to change the daemon from the page.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sys::regular_file::{self, FileError};

use crate::failure::Failure;

/// A shorter token could be guessed.
const LEN_MIN: usize = 16;

/// Bytes of the file, at most.
const LEN_MAX: u64 = 1024;

/// The token.
pub(super) struct Token(String);

impl Token {
    /// Reads it from a file that others have no access to.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let cannot =
            |error: FileError| Failure::new(format!("cannot read the token in {shown}: {error}"));
        let file = regular_file::open(path).map_err(cannot)?;
        let mode = file.metadata().map_err(|error| cannot(error.into()))?.mode();
        if mode & 0o077 != 0 {
            return Err(Failure::new(format!(
                "{shown} may be used by others than its owner (mode {:04o}): chmod 600 {shown}",
                mode & 0o7777
            )));
        }
        let mut text = String::new();
        file.take(LEN_MAX).read_to_string(&mut text).map_err(|error| cannot(error.into()))?;
        let token = text.trim();
        if token.len() < LEN_MIN || token.contains(char::is_whitespace) {
            return Err(Failure::new(format!(
                "{shown} holds no token: one line of at least {LEN_MIN} characters without spaces, \
                 for example from `head -c 24 /dev/urandom | base64`"
            )));
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether the value of an Authorization header (RFC 6750 section 2.1) has it. Takes the same
    /// time wherever the first wrong character is.
    pub(super) fn is_in(&self, authorization: &str) -> bool {
        let given = authorization.strip_prefix("Bearer ").unwrap_or_default().as_bytes();
        let own = self.0.as_bytes();
        let differences = own.iter().zip(given).fold(0, |all, (own, given)| all | (own ^ given));
        own.len() == given.len() && differences == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token("0123456789abcdef".to_owned());
        assert!(token.is_in("Bearer 0123456789abcdef"));
        for wrong in ["", "Bearer ", "0123456789abcdef", "Bearer 0123456789abcdee"] {
            assert!(!token.is_in(wrong), "{wrong}");
        }
        assert!(!token.is_in("Bearer 0123456789abcdef0"));
    }
}
