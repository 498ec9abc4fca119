//! The end of a process that a bench has started: asked for first, and then made.

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// It is killed when it has not ended by then.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Ends it, and waits until it has.
pub(crate) fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
    let began = Instant::now();
    while began.elapsed() < TIMEOUT && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(2));
    }
    // Without effect on one that has ended.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn one_that_hears_is_asked_and_one_that_does_not_is_killed() {
        for (script, code) in [
            ("trap 'exit 7' TERM; echo; while :; do sleep 0.01; done", Some(7)),
            ("trap '' TERM; echo; while :; do sleep 0.01; done", None),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(std::process::Stdio::piped());
            let mut child = command.spawn().expect("there is a shell");
            let mut byte = [0];
            let output = child.stdout.as_mut().expect("it is piped");
            std::io::Read::read_exact(output, &mut byte).expect("its trap is set");
            end(&mut child);
            let status = child.wait().expect("it is our child");
            assert_eq!(status.code(), code, "{script}");
        }
    }
}
