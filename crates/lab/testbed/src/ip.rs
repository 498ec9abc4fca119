//! Runs ip(8), and says what went wrong in its own words.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::TestbedError;

/// Runs `ip WORDS` and returns what it prints.
pub(crate) fn ip<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<String, TestbedError> {
    let words: Vec<&str> = words.into_iter().collect();
    run(Command::new("ip"), &words)
}

/// Runs `ip -n NAMESPACE LINE`; the words of `line` are separated by blanks.
pub(crate) fn ip_in(namespace: &str, line: &str) -> Result<String, TestbedError> {
    ip(["-n", namespace].into_iter().chain(line.split_whitespace()))
}

fn run(mut ip: Command, words: &[&str]) -> Result<String, TestbedError> {
    // A group of its own: Ctrl-C reaches the whole foreground group and would otherwise end the
    // very commands that clean up after it.
    ip.args(words).stdin(Stdio::null()).process_group(0);
    let command = || format!("ip {}", words.join(" "));
    let output = ip.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TestbedError::NoIpCommand,
        _ => TestbedError::CannotRun { command: command(), error },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() {
        said = output.status.to_string();
    }
    Err(TestbedError::CommandFailed { command: command(), output: said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_ip_command_says_what_to_install() {
        let error = run(Command::new("ip-that-is-not-installed"), &["link"]).expect_err("absent");
        assert!(error.to_string().contains("apt-get install iproute2"), "{error}");
    }

    #[test]
    fn a_failed_command_is_named_with_what_it_said() {
        let error = ip(["netns", "delete", "calisto-nobody-made-it"]).expect_err("not there");
        let error = error.to_string();
        assert!(error.starts_with("`ip netns delete calisto-nobody-made-it` failed: "), "{error}");
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_command_that_fails_silently_is_reported_by_its_status() {
        let error = run(Command::new("false"), &[]).expect_err("that is what it does");
        assert!(error.to_string().contains("exit status: 1"), "{error}");
    }
}
