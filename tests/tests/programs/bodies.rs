//! Large bodies, and what they must hash to on the other side.

use std::path::Path;
use std::process::Command;

/// Bytes of a large body.
pub(crate) const BODY_BYTES: u64 = 100 << 20;

/// Writes a body that repeats nowhere; its SHA-256.
pub(crate) fn write_body(path: &Path) -> String {
    // The length of the stream is known, so that head(1) ends it.
    let script = "head -c \"$2\" /dev/urandom > \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(path).arg(BODY_BYTES.to_string());
    assert!(command.status().expect("a shell is there").success(), "there is room for a body");
    sha256(path)
}

/// The SHA-256 of a file, in hex.
pub(crate) fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().expect("coreutils are there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (sum, _) =
        text.split_once(' ').unwrap_or_else(|| panic!("{path:?} is not there: {output:?}"));
    sum.to_owned()
}
