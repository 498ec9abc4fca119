//! The tunnels of a chain: read from a file that is nobody else's, and wiped from memory behind.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base::Nanos;
use calisto_nf::esp::{Gateway, keys};
use sys::regular_file;
use zeroize::Zeroizing;

use crate::error::ChainError;
use crate::file::{EspPart, FileError};

/// Reads the file of keys that a function names, and puts its tunnels together, which take the
/// place of those of `before`.
///
/// # Errors
/// It cannot be read, others may read it, or it is wrong; no sentence repeats what stands in it.
pub(crate) fn read(
    part: &EspPart,
    folder: &Path,
    before: Option<&Gateway>,
    now: Nanos,
) -> Result<Gateway, ChainError> {
    let path = folder.join(&part.keys);
    let shown = path.display().to_string();
    let text = read_private(&path)?;
    let wrong = |line, says: String| ChainError::File(FileError::new(&shown, line, "", says));
    let tunnels = keys::parse(&text).map_err(|error| {
        // The line stands in front of the sentence already.
        let says = error.to_string();
        let prefix = error.line().map_or(String::new(), |line| format!("line {line}: "));
        wrong(error.line(), says.strip_prefix(&prefix).unwrap_or(&says).to_owned())
    })?;
    let started = Nanos::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let gateway = match before {
        Some(before) => Gateway::after(before, tunnels, started, now),
        None => Gateway::new(tunnels, started),
    };
    gateway.map_err(|bad| wrong(None, bad.to_string()))
}

/// The text of a file whose owner alone may read it.
fn read_private(path: &Path) -> Result<Zeroizing<String>, ChainError> {
    let failed = |why: String| ChainError::Unreadable { path: path.display().to_string(), why };
    let broken = |error: std::io::Error| failed(error.to_string());
    let file = regular_file::open(path).map_err(|error| failed(error.to_string()))?;
    // Of the file that is open: the name may be another's by now.
    let metadata = file.metadata().map_err(broken)?;
    if metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(failed(format!(
            "it holds keys, and others may read or change it (mode {mode:03o}): chmod 600 {}",
            path.display()
        )));
    }
    let most = keys::FILE_BYTES_MAX as u64;
    if metadata.len() > most {
        return Err(failed(format!("it is longer than the {most} bytes that are allowed")));
    }
    // Room for all at once: what a string leaves behind when it grows would not be wiped.
    let mut text = Zeroizing::new(String::with_capacity(keys::FILE_BYTES_MAX + 1));
    file.take(most).read_to_string(&mut text).map_err(broken)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use calisto_nf::esp::Others;

    use super::*;

    /// What is said of a file of keys with this text and mode.
    fn said(test: &str, text: &str, mode: u32) -> String {
        let name = format!("calisto-keys-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("the temporary folder is ours");
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, permissions).expect("the file is ours");
        let part = EspPart { keys: path.display().to_string(), others: Others::Drop };
        let read = read(&part, Path::new("/"), None, Nanos::ZERO);
        let _ = std::fs::remove_file(&path);
        read.err().map_or("it is fine".to_owned(), |error| error.to_string())
    }

    fn example() -> String {
        let mut drawn = [
            "9f3c517e1bad4c6a80e1f27304c5b697a2d95e1f",
            "8f1e62d03c4b9a5967e8b1c70d2fa35e4419c6d0",
        ]
        .into_iter();
        let zeros = "0".repeat(40);
        let mut text = keys::EXAMPLE.to_owned();
        while text.contains(&zeros) {
            text = text.replacen(&zeros, drawn.next().expect("two keys"), 1);
        }
        text
    }

    #[test]
    fn keys_that_only_their_owner_may_read_make_a_gateway() {
        assert_eq!(said("fine", &example(), 0o600), "it is fine");
    }

    #[test]
    fn keys_that_others_may_read_or_change_are_refused() {
        for mode in [0o604, 0o640, 0o620, 0o602] {
            let said = said("open", &example(), mode);
            assert!(said.contains("chmod 600"), "{mode:o}: {said}");
        }
    }

    #[test]
    fn wrong_keys_are_said_with_their_line_and_never_repeated() {
        let weak = said("weak", keys::EXAMPLE, 0o600);
        assert!(weak.contains(", line ") && !weak.contains("0000"), "{weak}");
        let secret = example().replace("in_key", "in_kee");
        let misspelt = said("misspelt", &secret, 0o600);
        assert!(misspelt.contains(", line ") && !misspelt.contains("8f1e"), "{misspelt}");
        assert!(said("nothing", "", 0o600).contains("[[tunnel]]"));
    }
}
