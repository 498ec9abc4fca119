//! Programs of this workspace: where they are, how they end, and how to wait for what they do.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Long enough for any machine; a test that waits for this has failed.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Names a folder whose programs are tested instead of those beside the tests: `cargo xtask ci` has
/// optimized ones there.
const TESTED: &str = "TESTED_PROGRAMS";

/// A program of this workspace: in the folder that TESTED_PROGRAMS names, if it is there, else
/// built beside the tests.
///
/// # Panics
/// It is not there: `cargo build --workspace --bins` makes it, as `cargo xtask ci` does.
pub fn binary(name: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os(TESTED) {
        let path = PathBuf::from(folder).join(name);
        if path.exists() {
            return path;
        }
    }
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps/TEST");
    let path = folder.join(name);
    assert!(path.exists(), "{} is missing: run cargo build --workspace --bins", path.display());
    path
}

/// Waits until `look` has found what it is after; `Err` is what it sees instead.
///
/// # Panics
/// It does not find it.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    wait_within(TIMEOUT, what, look)
}

/// The same with more patience, or less.
///
/// # Panics
/// It does not find it in time.
pub fn wait_within<T>(
    timeout: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T, String>,
) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) => {
                assert!(began.elapsed() < timeout, "{what} does not come true: {instead}");
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn wait_for_end(who: &str, child: &mut Child) -> ExitStatus {
    wait_for(&format!("the end of {who}"), || {
        child.try_wait().expect("it is our child").ok_or_else(|| "it runs".to_owned())
    })
}

pub(crate) fn signal_to(child: &Child, signal: rustix::process::Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.expect("a child has a process id");
    rustix::process::kill_process(pid, signal).expect("it is our child");
}

/// Runs a program of this workspace to its end.
///
/// # Panics
/// It cannot be started.
pub fn run(command: &mut Command) -> (ExitStatus, String, String) {
    let output = command.output().expect("the program is there");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status, text(output.stdout), text(output.stderr))
}
