//! `calisto up --replace`: another daemon in the place of the one that runs, whose connections the
//! kernel goes on with.
//!
//! Whatever can be wrong with the configuration is found while the old daemon serves. Then that
//! one is ended in order, which is waited for: once it was asked there is no way back. If the new
//! one does not come up, the old one is started once more: the same program, also when its file has
//! been replaced, with the same words, settings and environment.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use admin::ReplyBody;
use config::{Config, FILE_BYTES_MAX};
use rustix::process::{Pid, Signal};
use sys::pidfd::PidFd;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::program::ConfigFile;
use crate::turn::Turn;

/// A daemon that does not answer by then will not: it may have waited for a guardian for a minute.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// What an end takes besides the time that sockets have to close. One that takes longer is spoken
/// of; it is waited for all the same, because without the next daemon there is none.
const END_MAX: Duration = Duration::from_secs(10);

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(5);

/// Files of a process that say how it was started are no longer than this.
const WORDS_BYTES_MAX: u64 = 1 << 20;

/// A daemon that runs, as it can be started once more.
struct Before {
    process: PidFd,
    program: File,
    program_path: PathBuf,
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: PathBuf,
    /// What stands in a file that goes with it: its place among the words, and the settings.
    unnamed: Option<(usize, Config)>,
}

/// Ends the daemon at `config.admin_socket`, starts `command` in its place, and stays until that
/// ends. Without such a daemon it is started as ever.
pub(super) fn run(config: &Config, mut command: Command) -> Result<(), Failure> {
    let turn = Turn::to_replace(Path::new(&config.admin_socket))?;
    let daemon = Daemon::at(&config.admin_socket);
    let Ok(process) = daemon.process() else {
        let error = command.exec();
        return Err(Failure::new(format!("cannot start the daemon: {error}")));
    };
    let before = Before::of(process)?;
    sys::signal::install_stop_handler().map_err(Failure::new)?;
    // Ctrl-C is heard here, and passed on once.
    command.process_group(0).stdin(Stdio::null());
    before.end(&daemon)?;
    match start(&mut command, &daemon, sys::signal::stop_requested) {
        Ok(child) => {
            // From here on this one may be replaced.
            drop(turn);
            eprintln!(
                "calisto: process {} serves in place of {}",
                child.id(),
                before.process.pid()
            );
            stay(child)
        }
        Err(why) => Err(before.start_again(&daemon, &why)),
    }
}

impl Before {
    fn of(process: PidFd) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(format!(
                "it is not known how the daemon was started, so it is left alone: {error}"
            ))
        };
        let place = PathBuf::from(format!("/proc/{}", process.pid()));
        let list = |name: &str| {
            let mut bytes = Vec::new();
            File::open(place.join(name))?.take(WORDS_BYTES_MAX).read_to_end(&mut bytes)?;
            let parts = bytes.split(|&byte| byte == 0).filter(|part| !part.is_empty());
            Ok(parts.map(|part| OsString::from_vec(part.to_vec())).collect::<Vec<_>>())
        };
        // Whoever listens there could have any program be started again, with our rights.
        let status = std::fs::read_to_string(place.join("status")).map_err(failed)?;
        if !runs_as(&status, rustix::process::geteuid().as_raw()) {
            return Err(Failure::new(
                "the daemon runs as another user: replace it as that user, or by what has started \
                 it (`systemctl restart calisto`)",
            ));
        }
        let words: Vec<OsString> = list("cmdline").map_err(failed)?.into_iter().skip(1).collect();
        let pairs = list("environ").map_err(failed)?.into_iter().filter_map(|pair| {
            let (name, value) = pair.to_str()?.split_once('=')?;
            Some((name.into(), value.into()))
        });
        let mut unnamed = None;
        for (at, word) in words.iter().enumerate() {
            let file = word.to_str().and_then(|word| word.strip_prefix("/proc/self/"));
            let Some(file) = file else { continue };
            let mut text = String::new();
            let opened = File::open(place.join(file)).map_err(failed)?;
            opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
            unnamed = Some((at, Config::parse(&text).map_err(Failure::new)?));
        }
        let before = Self {
            program: File::open(place.join("exe")).map_err(failed)?,
            program_path: std::fs::read_link(place.join("exe")).map_err(failed)?,
            environment: pairs.collect(),
            folder: std::fs::read_link(place.join("cwd")).map_err(failed)?,
            words,
            unnamed,
            process,
        };
        // Else all of that may be another's, who got its number.
        match before.process.is_dead() {
            true => Err(Failure::new("the daemon has just ended: start one without --replace")),
            false => Ok(before),
        }
    }

    /// Ends it in order, and waits for that.
    fn end(&self, daemon: &Daemon) -> Result<(), Failure> {
        // One that was asked already would be hurried.
        if draining_ms(daemon)?.is_some() {
            return Err(Failure::new(
                "the daemon is ending already, by `calisto down` or a signal: when it has ended start \
                 one without --replace",
            ));
        }
        let asked = daemon.tell(admin::Command::Stop);
        // It answers in turn: one that has answered this question and does not end was not asked.
        let drain = match (asked, draining_ms(daemon)) {
            (Err(why), Ok(None)) => return Err(why),
            (_, Ok(Some(drain))) => drain,
            // It may be on its way out, or late with its answers.
            (_, Ok(None) | Err(_)) => 0,
        };
        let due = Duration::from_millis(drain) + END_MAX;
        let wants_no_more = || sys::signal::stop_requested();
        await_end(&self.process, due, wants_no_more, |line| eprintln!("calisto: {line}"))
    }

    /// Where its program is. By its path while that is the very file: of one that was opened in
    /// another mount namespace, as those of `ip netns exec`, a process cannot say where it is.
    fn program(&self) -> PathBuf {
        let opened = self.program.metadata().map(|data| (data.dev(), data.ino()));
        let named = std::fs::metadata(&self.program_path).map(|data| (data.dev(), data.ino()));
        match (opened, named) {
            (Ok(opened), Ok(named)) if opened == named => self.program_path.clone(),
            _ => format!("/proc/self/fd/{}", self.program.as_raw_fd()).into(),
        }
    }

    /// Starts it once more, because the next one has failed.
    fn start_again(&self, daemon: &Daemon, why: &Failure) -> Failure {
        // Somebody else was quicker, and two cannot serve.
        if let Ok(other) = daemon.process() {
            let pid = other.pid();
            return Failure::new(format!(
                "the new daemon did not come up ({why}); another one serves, process {pid}"
            ));
        }
        let started = self.unnamed.as_ref().map(|(_, config)| ConfigFile::new(config)).transpose();
        let started = started.and_then(|file| {
            let mut words = self.words.clone();
            if let (Some((at, _)), Some(file)) = (&self.unnamed, &file) {
                words[*at] = file.path().into();
            }
            let mut command = Command::new(self.program());
            command.args(words).env_clear().envs(self.environment.iter().cloned());
            command.current_dir(&self.folder).process_group(0).stdin(Stdio::null());
            // Whoever gave up on the next one wants this one.
            let heard = sys::signal::stop_count();
            start(&mut command, daemon, || sys::signal::stop_count() > heard)
        });
        match started {
            Ok(child) => Failure::new(format!(
                "the new daemon did not come up ({why}); the one before serves again, as process {}",
                child.id()
            )),
            Err(again) => Failure::new(format!(
                "the new daemon did not come up ({why}), nor the one before ({again}); connections \
                 go on in the kernel"
            )),
        }
    }
}

/// The time that a daemon that ends still has for sockets; nothing: it does not end.
fn draining_ms(daemon: &Daemon) -> Result<Option<u64>, Failure> {
    match daemon.ask(admin::Command::Status)? {
        ReplyBody::Status(status) => Ok(status.draining_ms),
        other => Err(daemon.unexpected(&other)),
    }
}

/// Waits until a process that was asked to end has ended. After `due` it is spoken of, once.
///
/// # Errors
/// Somebody wants no more.
fn await_end(
    process: &PidFd,
    due: Duration,
    wants_no_more: impl Fn() -> bool,
    mut tell: impl FnMut(String),
) -> Result<(), Failure> {
    let (begun, pid) = (Instant::now(), process.pid());
    let mut is_told = false;
    while !process.is_dead() {
        if wants_no_more() {
            return Err(Failure::new(format!(
                "the daemon, process {pid}, was asked to end and has not yet; the new one was not \
                 started, and none runs when that one has ended"
            )));
        }
        if begun.elapsed() >= due && !is_told {
            is_told = true;
            tell(format!(
                "the daemon, process {pid}, was asked to end and has not within {} s: the new one is \
                 started when it has; `kill {pid}` hurries it, and Ctrl-C gives up",
                due.as_secs()
            ));
        }
        std::thread::sleep(EVERY);
    }
    Ok(())
}

/// Whether a process with that status (proc_pid_status(5)) has this user for all that it does.
fn runs_as(status: &str, user: u32) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let users: Vec<&str> = users.map(|ids| ids.split_whitespace().collect()).unwrap_or_default();
    users.len() == 4 && users.iter().all(|id| id.parse() == Ok(user))
}

/// Starts a daemon and waits until it answers, or somebody wants no more.
fn start(
    command: &mut Command,
    daemon: &Daemon,
    wants_no_more: impl Fn() -> bool,
) -> Result<Child, Failure> {
    let child = command.spawn();
    let mut child = child.map_err(|error| Failure::new(format!("cannot start it: {error}")))?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(Failure::new)? {
            return Err(Failure::new(format!("it ended at once: {status}")));
        }
        if daemon.process().is_ok_and(|process| process.pid() == child.id()) {
            return Ok(child);
        }
        let is_late = begun.elapsed() > READY_WITHIN;
        if is_late || wants_no_more() {
            let _ = child.kill();
            let _ = child.wait();
            let seconds = READY_WITHIN.as_secs();
            return Err(Failure::new(match is_late {
                true => format!("it did not answer within {seconds} s"),
                false => "it was told to stop before it answered".to_owned(),
            }));
        }
        std::thread::sleep(EVERY);
    }
}

/// Until the daemon ends; it is told when this process is to.
fn stay(mut child: Child) -> Result<(), Failure> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut told = 0;
    loop {
        if let Some(status) = child.try_wait().map_err(Failure::new)? {
            return match status.success() {
                true => Ok(()),
                false => Err(Failure::new(format!("the daemon ended: {status}"))),
            };
        }
        let wishes = sys::signal::stop_count();
        if wishes > told
            && let Some(pid) = pid
        {
            told = wishes;
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        std::thread::sleep(EVERY * 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_was_asked_to_end_is_waited_for_however_long_it_takes() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat is there");
        let process = PidFd::open(child.id()).expect("it is our child");
        let mut told = Vec::new();
        let failure = await_end(&process, EVERY, || true, |line| told.push(line));
        let failure = failure.expect_err("somebody has pressed Ctrl-C").to_string();
        assert!(failure.contains("the new one was not started") && told.is_empty(), "{failure}");
        let mut input = child.stdin.take();
        let ended = await_end(
            &process,
            EVERY,
            || false,
            |line| {
                told.push(line);
                // Only now it ends: long after its time.
                drop(input.take());
            },
        );
        assert_eq!(ended, Ok(()));
        let hint = format!("`kill {}` hurries it", child.id());
        assert!(told.len() == 1 && told[0].contains(&hint), "{told:?}");
        child.wait().expect("it is our child");
    }

    #[test]
    fn a_new_daemon_that_does_not_answer_is_given_up_when_somebody_wants_no_more() {
        let mut command = Command::new("sleep");
        let nobody = Daemon::at("/proc/nowhere/admin.sock");
        let failure = start(command.arg("600"), &nobody, || true).expect_err("it is no daemon");
        assert_eq!(failure.to_string(), "it was told to stop before it answered");
    }

    #[test]
    fn a_daemon_of_another_user_is_nothing_to_start_again() {
        assert!(runs_as("Name:\tcalistod\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n", 0));
        for status in ["Uid:\t990\t990\t990\t990\n", "Uid:\t0\t990\t0\t0\n", "Uid:\t0\n", ""] {
            assert!(!runs_as(status, 0), "{status:?}");
        }
    }
}
