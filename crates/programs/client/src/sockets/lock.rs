//! The lock of one direction of a ring, held by the thread that copies bytes into or out of it:
//! which thread that is, and whether it lives.
//!
//! Threads of one application are in one PID namespace, or they would not find each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use shm::sockets::{Holder, Locked, SEIZED, SlotLock};
use sys::thread;

/// What stands for a connection that was given to the kernel: the call is to be made of the
/// descriptor. No call on a socket has that error.
pub const GIVEN_TO_KERNEL: Errno = Errno::REMCHG;

/// No connection takes longer to be given to the kernel; a daemon that is killed meanwhile never
/// gives a lock back.
pub const GIVEN_WITHIN: Duration = Duration::from_secs(10);

/// Takes the lock, and waits for it if another thread has it, or the daemon, which never gives it
/// back once `is_over`.
///
/// # Errors
/// EDEADLK: this thread has it already; a signal's handler has interrupted its call, which would
/// never go on if the handler waited. Nor will waiting for the socket help: the handler is to be
/// told EAGAIN. [`GIVEN_TO_KERNEL`]: the daemon has it for good, or is gone.
#[inline]
pub(crate) fn hold(word: &AtomicU32, is_over: impl Fn() -> bool) -> Result<SlotLock<'_>, Errno> {
    let mut since = None;
    let ask = |holder| match holder {
        SEIZED => {
            let begun = *since.get_or_insert_with(Instant::now);
            let is_late = begun.elapsed() > GIVEN_WITHIN;
            if is_over() || is_late { Holder::IsInvented } else { Holder::Lives }
        }
        holder if is_dead(holder) => Holder::IsDead,
        _ => Holder::Lives,
    };
    match SlotLock::acquire(word, own_number(), ask) {
        Locked::Ours(lock) => Ok(lock),
        Locked::Reentered => Err(Errno::DEADLK),
        Locked::Invented => Err(GIVEN_TO_KERNEL),
    }
}

/// No call copies for longer than this while its thread can run.
const COPY_MAX: Duration = Duration::from_secs(3);

/// What one look adds to the wait at most: time in which this process was stopped, and the holder
/// with it, says nothing about the holder. On a busy machine seconds can lie between two looks.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// The same in memory that a neighbour maps too. It can write the number of any living thread into
/// the word, and nobody waits for that one for longer than [`COPY_MAX`].
///
/// # Errors
/// As for [`hold`]; ECONNRESET: the neighbour has written into it.
#[inline]
pub(crate) fn hold_beside_a_neighbour(word: &AtomicU32) -> Result<SlotLock<'_>, Errno> {
    let mut wait = Wait::default();
    match SlotLock::acquire(word, own_number(), |holder| wait.judge(holder)) {
        Locked::Ours(lock) => Ok(lock),
        Locked::Reentered => Err(Errno::DEADLK),
        Locked::Invented => Err(Errno::CONNRESET),
    }
}

/// How long one holder has been waited for.
#[derive(Default)]
struct Wait {
    /// The holder, and when it was last looked at.
    last: Option<(u32, Instant)>,
    waited: Duration,
}

impl Wait {
    fn judge(&mut self, holder: u32) -> Holder {
        if is_dead(holder) {
            return Holder::IsDead;
        }
        let now = Instant::now();
        match self.last.replace((holder, now)) {
            // One that a signal has stopped in its copy lets go when it goes on.
            Some((same, at)) if same == holder && !matches!(state(holder), Some(b'T' | b't')) => {
                self.waited += now.duration_since(at).min(LOOK_MAX);
            }
            _ => self.waited = Duration::ZERO,
        }
        if self.waited > COPY_MAX { Holder::IsInvented } else { Holder::Lives }
    }
}

/// Counts the forks of this process that sessions were told of: the numbers of threads that were
/// remembered before are not those of the child.
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// This thread's number and the count of forks at which it was asked for.
    static OWN: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// In the child of a fork, before it uses a lock.
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has this thread know its own number without asking for it again.
pub(crate) fn know_own_number() {
    own_number();
}

#[inline]
fn own_number() -> u32 {
    let forks = FORKS.load(Ordering::Relaxed);
    // A thread that is ending has no such memory any more.
    let known = OWN.try_with(Cell::get).unwrap_or_default();
    if known.0 != 0 && known.1 == forks {
        return known.0;
    }
    let own = thread::tid();
    let _ = OWN.try_with(|cell| cell.set((own, forks)));
    own
}

/// Whether no thread of that number runs any more. Allocates nothing.
fn is_dead(number: u32) -> bool {
    let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) else { return true };
    match rustix::process::test_kill_process(pid) {
        Err(Errno::SRCH) => true,
        // A process whose parent has not asked after it yet answers to signals.
        _ => matches!(state(number), Some(b'Z' | b'X')),
    }
}

/// The letter after the name in /proc/NUMBER/stat, proc_pid_stat(5).
fn state(number: u32) -> Option<u8> {
    use std::io::Write;
    let mut path = [0; 32];
    // The rest stays zero, and so ends the path.
    write!(&mut path[..31], "/proc/{number}/stat").ok()?;
    let path = std::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let mut text = [0; 128];
    let count = rustix::io::read(&file, &mut text).ok()?;
    let text = &text[..count];
    let name_ends = text.iter().rposition(|&byte| byte == b')')?;
    text.get(name_ends + 2).copied()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn hold(word: &AtomicU32) -> Result<SlotLock<'_>, Errno> {
        super::hold(word, || false)
    }

    #[test]
    fn who_finds_the_lock_with_the_daemon_waits_until_the_connection_is_the_kernels_or_it_is_back()
    {
        let word = AtomicU32::new(0);
        assert!(shm::sockets::seize(&word) && !shm::sockets::seize(&word));
        let asked = Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 2
        };
        assert_eq!(super::hold(&word, is_over).expect_err("it is gone"), GIVEN_TO_KERNEL);
        assert_eq!(asked.get(), 3);
        std::thread::scope(|threads| {
            threads.spawn(|| assert!(hold(&word).is_ok()));
            shm::sockets::release(&word);
        });
        let held = hold(&word).expect("it is free");
        assert!(!shm::sockets::seize(&word), "in the middle of a copy");
        drop(held);
    }

    #[test]
    fn a_second_call_of_the_same_thread_is_turned_away_and_does_not_hang() {
        let word = AtomicU32::new(0);
        let held = hold(&word).expect("it is free");
        assert_eq!(hold(&word).expect_err("it is held here"), Errno::DEADLK);
        drop(held);
        assert!(hold(&word).is_ok());
    }

    #[test]
    fn time_in_which_the_waiting_process_was_stopped_is_not_held_against_the_holder() {
        let long_ago = Instant::now().checked_sub(10 * COPY_MAX).expect("the machine is up");
        // Process 1 lives for ever.
        let mut wait = Wait { last: Some((1, long_ago)), waited: Duration::ZERO };
        assert_eq!(wait.judge(1), Holder::Lives, "one look");
        wait.waited = COPY_MAX;
        wait.last = Some((1, long_ago));
        assert_eq!(wait.judge(1), Holder::IsInvented);
        assert_eq!(wait.judge(thread::tid()), Holder::Lives, "another holder begins anew");
    }

    #[test]
    fn the_lock_of_a_dead_process_is_taken_over_even_before_its_parent_has_asked() {
        let mut child = Command::new("true").spawn().expect("there is true");
        let number = child.id();
        while state(number) != Some(b'Z') {
            std::thread::yield_now();
        }
        let word = AtomicU32::new(number);
        assert!(hold(&word).is_ok());
        child.wait().expect("it is ours");
        let word = AtomicU32::new(number);
        assert!(hold(&word).is_ok());
    }

    #[test]
    fn the_living_are_not_taken_for_dead() {
        assert!(!is_dead(std::process::id()) && !is_dead(thread::tid()) && !is_dead(1));
        assert!(is_dead(0) && is_dead(u32::MAX));
    }

    #[test]
    fn a_forgotten_number_is_asked_for_again() {
        assert_eq!(own_number(), thread::tid());
        note_fork();
        assert_eq!(own_number(), thread::tid());
    }
}
