//! Instructions by callgrind: this program starts itself once more, under valgrind.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use testbed::ScratchDir;

use super::rpc::RpcKind;
use crate::error::{Error, OrNeeds};
use crate::helper::Kind;
use crate::programs;

/// Instructions that `function`, and what it calls, takes of a helper with `requests` requests. The
/// function's name must be part of no other's.
pub(super) fn instructions(kind: RpcKind, requests: u64, function: &str) -> Result<u64, Error> {
    let scratch = ScratchDir::new("callgrind").or_needs("place for callgrind's output")?;
    let output = scratch.path().join("callgrind.out");
    let mut command = callgrind(&output, function)?;
    command.args(Kind::Rpc { kind, requests }.words());
    let ended = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::needs("valgrind")(&"install it to count instructions"),
        _ => Error::needs("valgrind")(&error),
    })?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let last = said.lines().last().unwrap_or("nothing").to_owned();
        return Err(format!("it ended with {} and said {last}", ended.status)).or_needs("valgrind");
    }
    let text = std::fs::read_to_string(&output).or_needs("callgrind's output")?;
    match total(&text) {
        Some(0) => Err(format!("no {function} was called")).or_needs("count by callgrind"),
        Some(total) => Ok(total),
        None => Err("there is no line of totals").or_needs("callgrind's output"),
    }
}

fn callgrind(output: &Path, function: &str) -> Result<Command, Error> {
    let program = programs::ourselves()?;
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(program)
        .stdin(Stdio::null());
    Ok(command)
}

/// The sum of all that was collected.
fn total(text: &str) -> Option<u64> {
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "))?;
    totals.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_first_event_of_the_line_of_totals() {
        let text = "version: 1\nevents: Ir Dr\nfn=(1) main\n7 12 3\ntotals: 4711 12\n";
        assert_eq!(total(text), Some(4711));
        assert_eq!(total("version: 1\n"), None);
    }
}
