//! Looking at one process after the other, without waiting for one that cannot be looked at.
//!
//! To copy a descriptor of a process, or even to read what it is, waits while that process is in
//! the middle of execve(2) (the kernel's `exec_update_lock`), which closes files meanwhile: of a
//! file system that does not answer, for ever. And to close a copy of a socket that lingers takes
//! as long as its peer likes. Either is in the hands of whoever has the process, so that threads
//! look. When one makes no step another goes on with the next process, and nobody looks at that one
//! again before its thread is back.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::payers::payer_of;

/// A thread that makes no step for this long is not waited for before the next process.
const STEP_TIMEOUT: Duration = Duration::from_millis(50);

/// When only threads are left that make no step within this time, the walk is over. Beside other
/// tests a thread may have no processor for that long.
const SILENT_MAX: Duration = Duration::from_millis(if cfg!(test) { 3000 } else { 500 });

/// Processes in which threads are at once.
const THREADS_MAX: usize = 1024;

/// … of one user: more of them can only be in the way.
const THREADS_OF_USER_MAX: usize = 16;

/// In which processes threads are, with their users.
#[derive(Clone, Default)]
pub(super) struct Threads(Arc<Mutex<BTreeMap<u32, u32>>>);

impl Threads {
    /// Looks at all of these processes, until a time. `look` is called by threads, one for each of
    /// several processes at most, and calls what it is given after each step: whether there is time
    /// for another one. The processes that nobody has looked at to the end.
    pub(super) fn walk(
        &self,
        pids: impl IntoIterator<Item = u32>,
        until: Instant,
        look: impl Fn(u32, &dyn Fn() -> bool) + Send + Sync + 'static,
    ) -> Vec<u32> {
        let state = State { left: pids.into_iter().collect(), ..State::default() };
        let walk = Arc::new(Walk {
            state: Mutex::new(state),
            news: Condvar::new(),
            threads: self.clone(),
            until,
            look: Box::new(look),
        });
        walk.watch()
    }

    /// Whether a thread may go into that process: no other is there.
    fn enter(&self, pid: u32) -> bool {
        let user = payer_of(user_of(pid));
        let mut inside = locked(&self.0);
        let of_user = inside.values().filter(|other| **other == user).count();
        let may = !inside.contains_key(&pid)
            && of_user < THREADS_OF_USER_MAX
            && inside.len() < THREADS_MAX;
        if may {
            inside.insert(pid, user);
        }
        may
    }

    fn leave(&self, pid: u32) {
        locked(&self.0).remove(&pid);
    }
}

type Look = Box<dyn Fn(u32, &dyn Fn() -> bool) + Send + Sync>;

struct Walk {
    state: Mutex<State>,
    /// A process is done.
    news: Condvar,
    threads: Threads,
    until: Instant,
    look: Look,
}

#[derive(Default)]
struct State {
    left: VecDeque<u32>,
    /// Processes in which threads are, and when each made its last step.
    at: BTreeMap<u32, Instant>,
    /// Those that no thread may go into.
    skipped: Vec<u32>,
    /// Threads that have not ended.
    threads: usize,
    /// Nobody waits for any of them any more.
    is_over: bool,
}

impl Walk {
    fn watch(self: Arc<Self>) -> Vec<u32> {
        let mut state = locked(&self.state);
        while !(state.left.is_empty() && state.at.is_empty()) {
            let now = Instant::now();
            if now >= self.until {
                break;
            }
            let silent =
                |most| move |stepped: &Instant| now.saturating_duration_since(*stepped) >= most;
            let is_nobody_free = state.threads == state.at.len();
            if state.left.is_empty() && state.at.values().all(silent(SILENT_MAX)) {
                break;
            }
            if !state.left.is_empty()
                && is_nobody_free
                && state.at.values().all(silent(STEP_TIMEOUT))
                && !self.start(&mut state)
            {
                break;
            }
            let wait = STEP_TIMEOUT.min(self.until.saturating_duration_since(now));
            let waited = self.news.wait_timeout(state, wait);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        // Those that come back later look at no more.
        state.is_over = true;
        let mut unfinished = Vec::from(std::mem::take(&mut state.left));
        unfinished.append(&mut state.skipped);
        unfinished.extend(state.at.keys());
        unfinished
    }

    /// One thread more; whether there is one.
    fn start(self: &Arc<Self>, state: &mut State) -> bool {
        let walk = Arc::clone(self);
        let started = std::thread::Builder::new().name("look".to_owned()).spawn(move || walk.go());
        state.threads += usize::from(started.is_ok());
        started.is_ok()
    }

    fn go(&self) {
        while let Some(pid) = self.enter_next() {
            (self.look)(pid, &|| self.step(pid));
            self.threads.leave(pid);
            locked(&self.state).at.remove(&pid);
            self.news.notify_one();
        }
        locked(&self.state).threads -= 1;
        self.news.notify_one();
    }

    fn enter_next(&self) -> Option<u32> {
        let mut state = locked(&self.state);
        while Instant::now() < self.until {
            let pid = state.left.pop_front()?;
            if self.threads.enter(pid) {
                state.at.insert(pid, Instant::now());
                return Some(pid);
            }
            state.skipped.push(pid);
        }
        None
    }

    fn step(&self, pid: u32) -> bool {
        let now = Instant::now();
        let mut state = locked(&self.state);
        if let Some(stepped) = state.at.get_mut(&pid) {
            *stepped = now;
        }
        !state.is_over && now < self.until
    }
}

/// The real user of a process: the owner of its files in /proc is root where it likes. To read that
/// waits for nobody.
fn user_of(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let real = users.and_then(|users| users.split_whitespace().next()?.parse().ok());
    // One that has ended keeps nobody.
    real.unwrap_or(u32::MAX)
}

/// A thread that has panicked has left nothing half-done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Looks at three processes, of which one keeps its thread until the sender is gone.
    fn walk(
        threads: &Threads,
        until: Instant,
    ) -> (Vec<u32>, Vec<u32>, std::sync::mpsc::Sender<()>) {
        let (hold, held) = channel::<()>();
        let (seen, looked_at) = channel();
        let (held, seen) = (Mutex::new(held), Mutex::new(seen));
        let unfinished = threads.walk([1, 2, 3], until, move |pid, _| {
            if pid == 2 {
                let _ = locked(&held).recv();
            }
            let _ = locked(&seen).send(pid);
        });
        (unfinished, looked_at.try_iter().collect(), hold)
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_costs_nobody_but_itself() {
        let threads = Threads::default();
        let (unfinished, mut seen, hold) = walk(&threads, soon());
        seen.sort_unstable();
        assert_eq!((unfinished, seen), (vec![2], vec![1, 3]));
        // Nobody goes there again while a thread is there.
        let (unfinished, mut seen, _) = walk(&threads, soon());
        seen.sort_unstable();
        assert_eq!((unfinished, seen), (vec![2], vec![1, 3]));
        drop(hold);
        let begun = Instant::now();
        while !locked(&threads.0).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it comes back");
            std::thread::yield_now();
        }
        // Whose sender has gone.
        let unfinished = threads.walk([1, 2, 3], soon(), |_, _| {});
        assert!(unfinished.is_empty(), "{unfinished:?}");
    }

    #[test]
    fn a_user_has_so_many_threads_and_the_next_processes_are_left_out() {
        let threads = Threads::default();
        let own = std::process::id();
        let user = payer_of(user_of(own));
        for pid in 0..THREADS_OF_USER_MAX as u32 {
            locked(&threads.0).insert(u32::MAX - pid, user);
        }
        assert_eq!(threads.walk([own], soon(), |_, _| panic!("it has enough")), [own]);
        threads.leave(u32::MAX);
        assert!(threads.walk([own], soon(), |_, _| {}).is_empty());
    }

    #[test]
    fn when_its_time_is_over_nobody_looks_any_more_and_all_are_left() {
        let threads = Threads::default();
        let unfinished = threads.walk([1, 2], Instant::now(), |_, _| {});
        assert_eq!(unfinished, [1, 2]);
        let until = Instant::now() + Duration::from_millis(20);
        let unfinished = threads.walk([1, 2], until, |_, goes_on| while goes_on() {});
        assert!(unfinished.contains(&2), "{unfinished:?}");
    }
}
