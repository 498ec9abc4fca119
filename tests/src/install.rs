//! Programs of Debian that a test runs.

use std::process::Command;

use crate::fixture::project;
use crate::process::run;

/// Installs what is missing of `packages`, each a command or file, `=`, and Debian's package.
///
/// # Panics
/// That cannot be done: such a machine is to fail here and not later.
pub fn install(packages: &[&str]) {
    let script = project().join("script/install-missing");
    let (status, _, said) = run(Command::new(script).args(packages));
    assert!(status.success(), "the programs of this test cannot be installed: {said}");
}
