//! Clients that are programs of others: run to their end, and never longer than they may.

use std::path::Path;
use std::process::{Command, Stdio};

use super::tested_stack::TestedStack;
use super::turns::{Strangers, quietly};
use crate::cases::Plan;
use crate::error::{Error, OrNeeds};
use crate::place::on_cpu;
use crate::running::Running;

/// Seconds after which a client is ended: its server does not answer.
const LIMIT: &str = "60";

/// Has a client ask `server`, on the client's CPU and with every byte carried by whom the stack is
/// named after: what `figures` finds in that which it printed, and who else had the CPUs.
pub(super) fn ask<T: Send>(
    plan: &Plan,
    tested_stack: &TestedStack,
    server: &Running,
    program: &Path,
    words: &[&str],
    figures: fn(&str) -> Option<T>,
) -> Result<(T, Strangers), Error> {
    tested_stack.witnessed(|| {
        on_cpu(plan.cpus.client, || {
            quietly(plan, tested_stack, server, || {
                let text = from_client(tested_stack, program, words)?;
                figures(&text).ok_or(text).or_needs("report of a client without errors")
            })
        })
    })
}

/// Runs a client in the client's namespace, on the CPU of the calling thread: what it printed.
fn from_client(
    tested_stack: &TestedStack,
    program: &Path,
    words: &[&str],
) -> Result<String, Error> {
    let mut command = tested_stack.client().command(program);
    command.args(words);
    to_its_end(&command)
}

/// Runs a command on the CPU of the calling thread: what it printed.
pub(super) fn to_its_end(command: &Command) -> Result<String, Error> {
    let mut bounded = Command::new("timeout");
    bounded.args(["--foreground", "--kill-after=2", LIMIT]);
    bounded.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    let output = bounded.output().or_needs("run of a client")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = text(&output.stderr) + &text(&output.stdout);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    // What timeout(1) ends with when it had to.
    let why = match output.status.code() {
        Some(124 | 137) => format!("it did not end within {LIMIT} s and said: {last}"),
        _ => format!("it ended ({}) and said: {last}", output.status),
    };
    Err(why).or_needs("run of a client")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_heard_and_one_that_fails_is_quoted() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).env("WORD", "heard");
            to_its_end(&command)
        };
        assert_eq!(shell("echo $WORD").expect("it succeeds"), "heard\n");
        let told = shell("echo no server >&2; exit 4").expect_err("it fails").to_string();
        assert!(told.contains("no server"), "{told}");
    }
}
