//! Which sockets any process of this host still has open: asked of a process of its own.
//!
//! It gives copies of sockets, too, when connections are handed over to the kernel.
//!
//! Looking at the descriptors of other processes takes the strongest right that there is
//! (`CAP_SYS_PTRACE`: who has it may take and read everything of everybody). No thread that reads
//! what programs or strangers wrote has it. One child of the daemon has, made before anybody could
//! attach; it is asked through a pipe, hears nothing else, and ends when the pipe closes.

mod copies;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use base::Nanos;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};
use sys::signal_fd::SignalFd;

use crate::confinement::{self, Role};
use copies::{COPIES, NO_MORE, copies_of, receive_copy, send_copy};

/// The argument with which this program is started again as the process that looks.
pub(crate) const ARGUMENT: &str = "--look-for-open-sockets";

/// The process that looks may end its answer so much later than it was told to. If it does not
/// nobody asks it any more: the rest may come as a part of the next answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// A question is this byte; an answer is a count and its cookies, a count and its numbers
/// of processes, each eight bytes.
const QUESTION: u8 = b'?';

/// Processes of one question for copies, at most.
const COPIED_MAX: usize = 1024;

/// No question for copies may take longer.
const WITHIN_MAX: Duration = Duration::from_secs(60);

/// The count of an answer that is none: not every process could be looked at.
const NOT_WHOLE: u64 = u64::MAX;

/// More open sockets than a host can have, so that a wrong count takes no memory.
const WORDS_MAX: u64 = 1 << 26;

/// Who knows which sockets are open.
pub(crate) enum OpenSockets {
    /// This thread looks for itself, by its own rights.
    Here,
    /// The process that may look. It ends when the pipe of questions closes.
    Process { questions: ChildStdin, answers: UnixStream },
    /// That process has ended: nobody knows.
    Nobody,
}

impl OpenSockets {
    /// Starts `program` as the process that looks.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn start(program: PathBuf) -> io::Result<Self> {
        // Copies of sockets come beside the words of an answer.
        let (answers, theirs) = UnixStream::pair()?;
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(OwnedFd::from(theirs))
            // A key that ends the daemon does not end it first.
            .process_group(0)
            .spawn()?;
        let questions = child.stdin.take().ok_or(ErrorKind::BrokenPipe)?;
        Ok(Self::Process { questions, answers })
    }

    /// The cookies of all sockets that any process has open; `attached` are processes that surely
    /// have some.
    ///
    /// # Errors
    /// A process may not be looked at that could have one, or the process that looks has ended.
    /// Then nothing is known, and nothing may be taken for closed.
    pub(crate) fn cookies(
        &mut self,
        attached: impl IntoIterator<Item = u32>,
    ) -> io::Result<BTreeSet<u64>> {
        let looked = match self {
            Self::Here => look()?,
            Self::Process { questions, answers } => {
                questions.write_all(&[QUESTION])?;
                Looked { cookies: words(answers)?, unseen: words(answers)? }
            }
            Self::Nobody => return Err(ErrorKind::BrokenPipe.into()),
        };
        match attached.into_iter().any(|pid| looked.unseen.contains(&u64::from(pid))) {
            true => Err(ErrorKind::PermissionDenied.into()),
            false => Ok(looked.cookies),
        }
    }

    /// Copies of the TCP sockets that have no connection in the kernel and that these processes
    /// have open, [`COPIED_MAX`] processes at most: `each` gets the process's number and the copy,
    /// before the next is made, and says whether it wants more. It may get some more anyway: only
    /// it knows how they are to be closed. None are made after `until`.
    ///
    /// # Errors
    /// The process that looks has ended, or a copy was lost on its way.
    pub(crate) fn copies(
        &mut self,
        pids: &[u32],
        until: Instant,
        mut each: impl FnMut(u32, OwnedFd) -> bool,
    ) -> io::Result<()> {
        let pids = &pids[..pids.len().min(COPIED_MAX)];
        match self {
            Self::Here => {
                let mut wants_more = true;
                for &pid in pids {
                    copies_of(pid, until, |copy| {
                        wants_more = wants_more && each(pid, copy);
                        Ok(wants_more)
                    })?;
                }
                Ok(())
            }
            Self::Process { questions, answers } => {
                let mut question = vec![COPIES];
                let left = |until: Instant| until.saturating_duration_since(Instant::now());
                let words = [left(until).as_millis() as u64, pids.len() as u64].into_iter();
                let words = words.chain(pids.iter().map(|pid| u64::from(*pid)));
                question.extend(words.flat_map(u64::to_le_bytes));
                let give_up = until + ANSWERED_WITHIN;
                let mut asked = questions.write_all(&question);
                // To the end in any case, or the next answer would be the rest of this one.
                while asked.is_ok() {
                    // No time at all would be for ever.
                    let wait = left(give_up).max(Duration::from_millis(1));
                    answers.set_read_timeout(Some(wait))?;
                    match receive_copy(answers) {
                        Ok(Some((pid, copy))) => _ = each(pid, copy),
                        Ok(None) => {
                            answers.set_read_timeout(None)?;
                            return Ok(());
                        }
                        // The word has come whole: there was no descriptor for what it is about.
                        Err(error) if error.kind() == ErrorKind::InvalidData => {}
                        Err(error) => asked = Err(error),
                    }
                }
                *self = Self::Nobody;
                asked
            }
            Self::Nobody => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Whether the process that looks has ended since the last call. It says nothing unasked, so
    /// what can be read is its end.
    pub(crate) fn has_just_ended(&mut self) -> bool {
        let Self::Process { answers, .. } = self else { return false };
        let has_ended = sys::poll::wait_readable(answers.as_fd(), Nanos::ZERO);
        if has_ended {
            *self = Self::Nobody;
        }
        has_ended
    }

    /// Readable when it has ended.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Process { answers, .. } => Some(answers.as_fd()),
            Self::Here | Self::Nobody => None,
        }
    }
}

/// A count and that many words.
fn words(from: &mut impl Read) -> io::Result<BTreeSet<u64>> {
    match word(from)? {
        NOT_WHOLE => Err(ErrorKind::PermissionDenied.into()),
        count if count > WORDS_MAX => Err(ErrorKind::InvalidData.into()),
        count => (0..count).map(|_| word(from)).collect(),
    }
}

fn word(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// What the process does that looks: answers until nobody asks any more.
pub(crate) fn serve() -> ExitCode {
    // Who ends all of the daemon's processes means the daemon; this one ends with its pipe.
    let signals = [Signal::HUP, Signal::INT, Signal::TERM, Signal::USR1, Signal::USR2];
    let _held_back = SignalFd::new(&signals);
    confinement::begin(&[], None);
    if let Err(error) = confinement::enter(Role::Looker) {
        eprintln!("calistod: {error}");
        return ExitCode::FAILURE;
    }
    let out = io::stdout();
    let give = |pid, copy: OwnedFd| send_copy(out.as_fd(), pid, copy.as_fd());
    match answer(io::stdin().lock(), out.lock(), give) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(
    mut questions: impl Read,
    mut answers: impl Write,
    mut give: impl FnMut(u32, OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    let mut question = [0];
    while questions.read(&mut question)? > 0 {
        if question[0] == COPIES {
            let milliseconds = word(&mut questions)?.min(WITHIN_MAX.as_millis() as u64);
            let until = Instant::now() + Duration::from_millis(milliseconds);
            let count = word(&mut questions)?.min(COPIED_MAX as u64);
            for _ in 0..count {
                let pid = u32::try_from(word(&mut questions)?).unwrap_or(0);
                copies_of(pid, until, |copy| give(pid, copy).map(|()| true))?;
            }
            answers.write_all(&NO_MORE.to_le_bytes())?;
            answers.flush()?;
            continue;
        }
        let answer = match look() {
            Ok(Looked { cookies, unseen }) => {
                let counted = [&cookies, &unseen].map(|words| (words.len() as u64, words));
                let words = counted
                    .into_iter()
                    .flat_map(|(count, words)| std::iter::once(count).chain(words.iter().copied()));
                words.flat_map(u64::to_le_bytes).collect()
            }
            Err(_) => NOT_WHOLE.to_le_bytes().to_vec(),
        };
        answers.write_all(&answer)?;
        answers.flush()?;
    }
    Ok(())
}

/// What was found.
struct Looked {
    /// Of all sockets that are open in processes that may be looked at.
    cookies: BTreeSet<u64>,
    /// Processes that may not, and are older than this one.
    unseen: BTreeSet<u64>,
}

/// Looks at every process.
///
/// # Errors
/// One may not be looked at that is younger than this one: it may have any socket that was opened
/// here. One that is older has none unless it was passed one, or is attached.
fn look() -> io::Result<Looked> {
    let (mut cookies, mut unseen) = (BTreeSet::new(), BTreeSet::new());
    // Where processes of others are hidden (proc(5): hidepid), the first one is.
    fs::metadata("/proc/1")?;
    let own = started(std::process::id())?;
    for process in fs::read_dir("/proc")?.flatten() {
        let pid = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        match cookies_of(pid, &process.path().join("fd"), &mut cookies) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                if unless_gone(started(pid))?.is_some_and(|at| at >= own) {
                    return Err(error);
                }
                unseen.insert(u64::from(pid));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Looked { cookies, unseen })
}

/// Adds the cookies of the sockets of a process, whose descriptors are listed in `folder`.
fn cookies_of(pid: u32, folder: &Path, cookies: &mut BTreeSet<u64>) -> io::Result<()> {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let Some(entries) = unless_gone(fs::read_dir(folder))? else { return Ok(()) };
    let holder = pidfd_open(number, PidfdFlags::empty()).map_err(io::Error::from);
    let Some(holder) = unless_gone(holder)? else { return Ok(()) };
    for entry in entries.flatten() {
        let Some(target) = unless_gone(fs::read_link(entry.path()))? else { continue };
        let is_socket = target.as_os_str().as_encoded_bytes().starts_with(b"socket:");
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|_| is_socket) else { continue };
        let copy = pidfd_getfd(&holder, number, PidfdGetfdFlags::empty());
        let Some(copy) = unless_gone(copy.map_err(io::Error::from))? else { continue };
        cookies.extend(sys::socket::cookie_of(copy.as_fd()));
    }
    Ok(())
}

/// When a process began, in clock ticks since the machine did (proc_pid_stat(5), field 22).
fn started(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name stands in brackets and may hold anything, brackets too.
    let (_, fields) = text.rsplit_once(')').ok_or(ErrorKind::InvalidData)?;
    let field = fields.split_whitespace().nth(19).and_then(|field| field.parse().ok());
    field.ok_or(ErrorKind::InvalidData.into())
}

/// Nothing for a process or a descriptor that has ended meanwhile: it has nothing open.
///
/// # Errors
/// Whatever else went wrong.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::BADF) => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests;
