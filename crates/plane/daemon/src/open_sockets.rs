//! Which sockets any process of this host still has open: asked of a process of its own.
//!
//! It gives copies of sockets, too, when connections are handed over to the kernel.
//!
//! Looking at the descriptors of other processes takes the strongest right that there is
//! (`CAP_SYS_PTRACE`: who has it may take and read everything of everybody). No thread that reads
//! what programs or strangers wrote has it. One child of the daemon has, made before anybody could
//! attach; it is asked through a socket, hears nothing else, and ends when that closes.
//!
//! Each question has a time limit: an answer that comes later is recognized by the number of its
//! question. A process that cannot be looked at costs only itself (`walk.rs`).

mod frames;
mod look;
mod walk;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use base::Nanos;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Signal;
use sys::signal_fd::SignalFd;

use self::frames::{COPIED_MAX, Part, Question, What};
use self::look::{Looked, copies_of, look};
use self::walk::Threads;
use crate::confinement::{self, Role};
use crate::payers;

/// The argument with which this program is started again as the process that looks.
pub(crate) const ARGUMENT: &str = "--look-for-open-sockets";

/// All processes of a host are looked at within this, or it is not known which sockets are open.
const LOOKED_WITHIN: Duration = Duration::from_secs(5);

/// The process that looks may end its answer so much later than it was told to.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// A process that does not take a question within this time is stopped.
const ASKED_WITHIN: Duration = Duration::from_secs(1);

/// More open sockets than a host can have, so that a wrong answer takes no memory.
const COOKIES_MAX: usize = 1 << 26;

/// Frames of late answers that are thrown away in one look.
const LATE_MAX: usize = 256;

/// Who knows which sockets are open.
pub(crate) enum OpenSockets {
    /// This process looks for itself, by its own rights.
    Here(Here),
    /// The process that may look. It ends when its channel closes.
    Process(Process),
    /// That process has ended: nobody knows.
    Nobody,
}

/// What this process remembers of its own looks.
#[derive(Default)]
pub(crate) struct Here(Threads);

/// The way to the process that looks.
pub(crate) struct Process {
    channel: OwnedFd,
    /// Questions so far.
    asked: u64,
    /// Copies that came too late, with the processes that have the sockets.
    late: Vec<(u32, OwnedFd)>,
}

impl OpenSockets {
    /// This process looks for itself.
    pub(crate) fn here() -> Self {
        Self::Here(Here::default())
    }

    /// Starts `program` as the process that looks.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn start(program: PathBuf) -> io::Result<Self> {
        let (channel, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&channel, Timeout::Send, Some(ASKED_WITHIN))?;
        Command::new(program)
            .arg(ARGUMENT)
            .stdin(theirs)
            .stdout(Stdio::null())
            // A key that ends the daemon does not end it first.
            .process_group(0)
            .spawn()?;
        Ok(Self::Process(Process { channel, asked: 0, late: Vec::new() }))
    }

    /// The cookies of all sockets that any process has open; `attached` are processes that surely
    /// have some. Waits for six seconds at most.
    ///
    /// # Errors
    /// A process may not be looked at that could have one, or cannot be now; there was not the
    /// time; or the process that looks has ended. Then nothing is known, and nothing may be taken
    /// for closed.
    pub(crate) fn cookies(
        &mut self,
        attached: impl IntoIterator<Item = u32>,
    ) -> io::Result<BTreeSet<u64>> {
        let looked = match self {
            Self::Here(Here(threads)) => look(threads, Instant::now() + LOOKED_WITHIN)?,
            Self::Process(process) => process.cookies(LOOKED_WITHIN)?,
            Self::Nobody => return Err(ErrorKind::BrokenPipe.into()),
        };
        match attached.into_iter().any(|pid| looked.unseen.contains(&u64::from(pid))) {
            true => Err(ErrorKind::PermissionDenied.into()),
            false => Ok(looked.cookies),
        }
    }

    /// Copies of the TCP sockets that have no connection in the kernel and that these processes
    /// have open, [`COPIED_MAX`] processes at most: `each` gets the process's number and the copy,
    /// and only it knows how that is to be closed. None are made after `until`; some of an earlier
    /// question may come as well, where its answer was late.
    ///
    /// # Errors
    /// The process that looks has ended, or is late.
    pub(crate) fn copies(
        &mut self,
        pids: &[u32],
        until: Instant,
        mut each: impl FnMut(u32, OwnedFd),
    ) -> io::Result<()> {
        let pids = &pids[..pids.len().min(COPIED_MAX)];
        if Instant::now() >= until {
            return Ok(());
        }
        match self {
            Self::Here(Here(threads)) => {
                let (sender, copies) = channel();
                let (threads, pids) = (threads.clone(), pids.to_vec());
                let look = move || {
                    let end = sender.clone();
                    threads.walk(pids, until, move |pid, goes_on| {
                        copies_of(pid, goes_on, |copy| sender.send(Some((pid, copy))).is_ok());
                    });
                    let _ = end.send(None);
                };
                std::thread::Builder::new().name("look".to_owned()).spawn(look)?;
                while let Ok(Some((pid, copy))) = copies.recv() {
                    each(pid, copy);
                }
                Ok(())
            }
            Self::Process(process) => process.copies(pids, until, each),
            Self::Nobody => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Whether the process that looks has ended since the last call, and the copies that have come
    /// too late, with the processes that have the sockets: to be closed where nobody waits. What
    /// else can be read is an answer that was too late.
    pub(crate) fn hear(&mut self) -> (bool, Vec<(u32, OwnedFd)>) {
        let Self::Process(process) = self else { return (false, Vec::new()) };
        let has_ended = process.throw_late_away();
        let late = std::mem::take(&mut process.late);
        if has_ended {
            *self = Self::Nobody;
        }
        (has_ended, late)
    }

    /// Readable when it has ended, or has answered late.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Process(process) => Some(process.channel.as_fd()),
            Self::Here(_) | Self::Nobody => None,
        }
    }
}

impl Process {
    fn cookies(&mut self, within: Duration) -> io::Result<Looked> {
        let give_up = Instant::now() + within + ANSWERED_WITHIN;
        let number = self.ask(What::Cookies, within)?;
        let mut looked = Looked::default();
        loop {
            match self.next_part(give_up)? {
                (_, Part::Copy(pid, copy)) => self.late.push((pid, copy)),
                (of, _) if of != number => {}
                (_, Part::Cookies(some)) => looked.cookies.extend(some),
                (_, Part::Unseen(some)) => looked.unseen.extend(some),
                (_, Part::NoCopy) => {}
                (_, Part::End) => return Ok(looked),
                (_, Part::NotWhole) => return Err(ErrorKind::PermissionDenied.into()),
            }
            if looked.cookies.len() + looked.unseen.len() > COOKIES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }

    fn copies(
        &mut self,
        pids: &[u32],
        until: Instant,
        mut each: impl FnMut(u32, OwnedFd),
    ) -> io::Result<()> {
        let within = until.saturating_duration_since(Instant::now());
        let number = self.ask(What::Copies(pids.to_vec()), within)?;
        loop {
            match self.next_part(until + ANSWERED_WITHIN)? {
                // Of an earlier question, too: it is a socket of that process all the same.
                (_, Part::Copy(pid, copy)) => each(pid, copy),
                (of, Part::End | Part::NotWhole) if of == number => return Ok(()),
                _ => {}
            }
        }
    }

    /// Asks: the number of the question.
    fn ask(&mut self, what: What, within: Duration) -> io::Result<u64> {
        self.asked += 1;
        let number = self.asked;
        Question { number, within, what }.send(self.channel.as_fd())?;
        Ok(number)
    }

    /// The next part of an answer; waits for it.
    ///
    /// # Errors
    /// None has come in time, or the process has ended.
    fn next_part(&self, give_up: Instant) -> io::Result<(u64, Part)> {
        loop {
            let left = give_up.saturating_duration_since(Instant::now());
            let wait = Nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            if left.is_zero() || !sys::poll::wait_readable(self.channel.as_fd(), wait) {
                return Err(ErrorKind::TimedOut.into());
            }
            match Part::receive(self.channel.as_fd()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }

    /// Throws away what nobody has waited for, but for copies; whether the process has ended.
    fn throw_late_away(&mut self) -> bool {
        for _ in 0..LATE_MAX {
            match Part::receive(self.channel.as_fd()) {
                Ok((_, Part::Copy(pid, copy))) => self.late.push((pid, copy)),
                Ok(_) => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        false
    }
}

/// What the process does that looks: answers until nobody asks any more.
pub(crate) fn serve() -> ExitCode {
    // Who ends all of the daemon's processes means the daemon; this one ends with its channel.
    let signals = [Signal::HUP, Signal::INT, Signal::TERM, Signal::USR1, Signal::USR2];
    let _held_back = SignalFd::new(&signals);
    // It has no log: without the file each user is counted by itself.
    payers::set(payers::read().unwrap_or_default());
    confinement::begin(&[], None);
    if let Err(error) = confinement::enter(Role::Looker) {
        eprintln!("calistod: {error}");
        return ExitCode::FAILURE;
    }
    match io::stdin().as_fd().try_clone_to_owned().and_then(answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(channel: OwnedFd) -> io::Result<()> {
    let channel = Arc::new(channel);
    // Whoever keeps a thread from all processes' sockets keeps none from those of programs that are
    // attached.
    let [of_all, of_some] = [(); 2].map(|()| Threads::default());
    while let Some(Question { number, within, what }) = Question::receive(channel.as_fd())? {
        let (until, to) = (Instant::now() + within, channel.as_fd());
        match what {
            What::Cookies => match look(&of_all, until) {
                Ok(Looked { cookies, unseen }) => {
                    let [cookies, unseen] = [cookies, unseen].map(Vec::from_iter);
                    Part::send_all(Part::Cookies, &cookies, to, number)?;
                    Part::send_all(Part::Unseen, &unseen, to, number)?;
                    Part::End.send(to, number)?;
                }
                Err(_) => Part::NotWhole.send(to, number)?,
            },
            What::Copies(pids) => {
                let way = Arc::clone(&channel);
                // The thread closes its own, which may take its time as well.
                of_some.walk(pids, until, move |pid, goes_on| {
                    copies_of(pid, goes_on, |copy| {
                        Part::Copy(pid, copy).send(way.as_fd(), number).is_ok()
                    });
                });
                Part::End.send(to, number)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
