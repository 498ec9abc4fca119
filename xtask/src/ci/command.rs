//! Running a command with its output passed on line by line, and ending one that hangs.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::stats::Outcome;

/// How long tests may print nothing before one of them counts as hanging. The longest silence of
/// right ones is the building of models or of documentation tests, some minutes on a slow machine;
/// CI ends the whole run after 90 minutes, and would then say of no test how it ended.
pub(super) const SILENCE: Duration = Duration::from_mins(20);

/// For what builds: it may take its time.
pub(super) const ANY_TIME: Duration = Duration::MAX;

/// Runs `command` with its output passed on to `out` as it comes, each line also to `read`. One
/// that prints nothing for as long as `silence` is ended with all its children, and has failed.
pub(super) fn stream(
    mut command: Command,
    silence: Duration,
    out: &mut impl Write,
    mut read: impl FnMut(&str),
) -> Outcome {
    let name = text_of(&command);
    say(out, &format!("$ {name}"));
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = match command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            say(out, &format!("cannot run `{name}`: {error}"));
            return Outcome::Failure;
        }
    };
    let (lines, printed) = channel();
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || output.map(|output| send_lines(output, &lines)));
    let hangs = loop {
        match printed.recv_timeout(silence) {
            Ok(line) => {
                pass_on(out, &line);
                read(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => break true,
        }
    };
    if hangs {
        let seconds = silence.as_secs_f64();
        say(out, &format!("`{name}` has printed nothing for {seconds} s and is ended:"));
        end_with_children(&mut child, out);
    }
    // What it printed last is in the pipe, which closes with the last of its children.
    let _ended = reader.join();
    match child.wait() {
        Ok(status) if status.success() && !hangs => Outcome::Success,
        Ok(status) => {
            say(out, &format!("`{name}`: {status}"));
            Outcome::Failure
        }
        Err(error) => {
            say(out, &format!("cannot wait for `{name}`: {error}"));
            Outcome::Failure
        }
    }
}

fn send_lines(output: impl std::io::Read, lines: &Sender<Vec<u8>>) {
    let mut output = BufReader::new(output);
    loop {
        // Bytes, not text: a test may print anything.
        let mut line = Vec::new();
        if !output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            return;
        }
        if lines.send(line).is_err() {
            return;
        }
    }
}

/// Kills a child and whatever descends from it, and says what that was: parents first, so that none
/// of them starts more.
fn end_with_children(child: &mut Child, out: &mut impl Write) {
    let mut doomed = vec![child.id()];
    let mut next = 0;
    while let Some(&pid) = doomed.get(next) {
        next += 1;
        say(out, &format!("  {pid} {}", words_of(pid)));
        let children = children_of(pid);
        // The child itself is not reaped yet, so nobody else has its number.
        let killed = if pid == child.id() {
            child.kill().is_ok()
        } else {
            let kill = Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).status();
            kill.is_ok_and(|status| status.success())
        };
        if !killed {
            say(out, &format!("  {pid} cannot be killed, or has just ended"));
        }
        doomed.extend(children);
    }
}

/// The children of all its threads.
fn children_of(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().map(|thread| thread.path().join("children"));
    let lists = lists.filter_map(|list| std::fs::read_to_string(list).ok());
    lists.flat_map(|list| list.split(' ').flat_map(str::parse).collect::<Vec<u32>>()).collect()
}

fn words_of(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

pub(super) fn say(out: &mut impl Write, line: &str) {
    pass_on(out, format!("{line}\n").as_bytes());
}

fn pass_on(out: &mut impl Write, bytes: &[u8]) {
    // A reader that has gone away must not stop the run: the exit code still tells.
    let _gone = out.write_all(bytes).and_then(|()| out.flush());
}

/// The command as a person would type it, to run it again alone.
pub(super) fn text_of(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().to_string_lossy();
        words.push(format!("{}='{value}'", name.to_string_lossy()));
    }
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    words.push(program.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}
