//! A runtime from its attachment to its end.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use attach::{AttachError, Detached};
use rustix::io::Errno;
use sys::{SysError, thread};

use crate::app::App;
use crate::options::AttachOptions;
use crate::rt::executor::Executor;
use crate::rt::join::{JoinError, JoinHandle};
use crate::rt::listener::{self, Listener};
use crate::rt::local::Local;
use crate::rt::mailbox::Mailbox;
use crate::rt::runtime::Runtime;
use crate::rt::settings::Settings;
use crate::rt::stats::Stats;
use crate::rt::watch::{LongPoll, Site};
use crate::rt::watchdog::Watchdog;
use crate::rt::worker_set::WorkerSet;
use crate::worker::Worker;

/// What a runtime that has ended has done.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended<T> {
    /// By worker: what its main task gave; or that it has panicked, or was dropped after the grace
    /// of a stop.
    pub results: Vec<Result<T, JoinError>>,
    /// All workers together.
    pub stats: Stats,
    /// The tasks whose polls took too long, by the line that spawned them.
    pub long_polls: Vec<LongPoll>,
}

/// Why a runtime could not begin, or had to end.
#[derive(Debug)]
pub enum RunError {
    /// No daemon, or it refused.
    Attach(AttachError),
    /// The daemon has ended, or has let go of the application.
    Detached(Detached),
    /// The kernel refused a descriptor.
    System(SysError),
}

/// Attaches and runs `main` once on each worker, on a thread of its own, until all of these tasks
/// have ended; then what they spawned is dropped. With the default [`Settings`].
///
/// # Errors
/// It could not attach, or the attachment has ended. Attach again then, if that is wanted.
#[track_caller]
pub fn run<M, F>(options: AttachOptions, main: M) -> Result<Ended<F::Output>, RunError>
where
    M: Fn(Runtime) -> F + Sync,
    F: Future + 'static,
    F::Output: Send,
{
    run_with(options, Settings::default(), main)
}

/// Runs `main` as [`run`] does, with other settings.
///
/// # Errors
/// As [`run`].
#[track_caller]
pub fn run_with<M, F>(
    options: AttachOptions,
    settings: Settings,
    main: M,
) -> Result<Ended<F::Output>, RunError>
where
    M: Fn(Runtime) -> F + Sync,
    F: Future + 'static,
    F::Output: Send,
{
    let site = Site { name: Some("main"), location: Location::caller() };
    let (app, workers) = App::attach(&options).map_err(RunError::Attach)?;
    let worker_set =
        Arc::new(worker_set(&app, &options, settings, workers.len()).map_err(RunError::System)?);
    let results = std::thread::scope(|scope| {
        let begun = begin(scope, &worker_set, workers, site, &main);
        if begun.is_err() {
            worker_set.end();
        }
        begun.map(|threads| {
            // A worker's thread runs nothing of the program outside of what catches its panics.
            let join = |thread: Thread<'_, F>| thread.join().unwrap_or(Err(JoinError::Cancelled));
            let results: Vec<_> = threads.into_iter().map(join).collect();
            worker_set.end();
            results
        })
    });
    worker_set.close();
    if let Some(detached) = worker_set.detached() {
        return Err(RunError::Detached(detached));
    }
    let results = results.map_err(RunError::System)?;
    Ok(Ended { results, stats: worker_set.stats(), long_polls: worker_set.long_polls() })
}

/// The thread of a worker; it gives what the main task gave.
type Thread<'scope, F> = ScopedJoinHandle<'scope, Result<<F as Future>::Output, JoinError>>;

/// Starts the threads: one for each worker and the watchdog's.
fn begin<'scope, 'env, M, F>(
    scope: &'scope Scope<'scope, 'env>,
    worker_set: &'env Arc<WorkerSet>,
    workers: Vec<Worker>,
    site: Site,
    main: &'env M,
) -> Result<Vec<Thread<'scope, F>>, SysError>
where
    M: Fn(Runtime) -> F + Sync,
    F: Future + 'static,
    F::Output: Send,
{
    let refused = |error: std::io::Error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
        SysError::new("start a thread", errno, "raise the limit of threads (ulimit -u)")
    };
    let watch = || {
        thread::set_name("rt-watchdog");
        worker_set.watch_polls();
    };
    Builder::new().spawn_scoped(scope, watch).map_err(refused)?;
    let start = |(index, worker)| {
        let start = move || work(Arc::clone(worker_set), index, worker, site, main);
        Builder::new().spawn_scoped(scope, start).map_err(refused)
    };
    workers.into_iter().enumerate().map(start).collect()
}

fn worker_set(
    app: &App,
    options: &AttachOptions,
    settings: Settings,
    workers: usize,
) -> Result<WorkerSet, SysError> {
    let mailboxes = (0..workers).map(|_| Mailbox::new()).collect::<Result<_, _>>()?;
    let addresses = options.request.listen.iter().filter_map(|text| listener::parse(text));
    let listeners =
        addresses.map(|address| Listener::new(address, workers, settings.queue_packets)).collect();
    let watchdog = Watchdog::new(settings.long_poll)?;
    Ok(WorkerSet::new(app, settings, mailboxes, listeners, watchdog))
}

/// A worker's thread.
fn work<M, F>(
    worker_set: Arc<WorkerSet>,
    index: usize,
    worker: Worker,
    site: Site,
    main: &M,
) -> Result<F::Output, JoinError>
where
    M: Fn(Runtime) -> F,
    F: Future + 'static,
{
    thread::set_name(&format!("rt-{index}"));
    let _guard = EndAtPanic(Arc::clone(&worker_set));
    let local = Local::new(Arc::clone(&worker_set), index, worker);
    Local::enter(Some(Rc::clone(&local)));
    let main = catch_unwind(AssertUnwindSafe(|| main(Runtime::new(Arc::clone(&worker_set)))));
    let main = main.map(|main| local.bound.spawn(&local, site, main));
    // One that has panicked before it was a task has ended too.
    let is_main_done = || main.as_ref().map_or(true, JoinHandle::is_finished);
    if let Err(detached) = Executor::new(&local, &is_main_done).run() {
        worker_set.detach(detached);
    }
    // Everything of this thread's is dropped here, where it belongs.
    local.bound.clear();
    let result = match main {
        Ok(main) => main.fetch(),
        Err(payload) => {
            local.mailbox().counters.panics.add(1);
            Err(JoinError::panicked(payload.as_ref()))
        }
    };
    local.let_go_now();
    local.give_everything_back();
    // What was sent last leaves, if there is still a daemon and room.
    let sent = local.packets.flush().unwrap_or(0);
    local.mailbox().counters.sent.add(sent as u64);
    Local::enter(None);
    result
}

/// A worker that panics outside of any task, which would be a mistake of this crate, takes the
/// others along: no thread is to wait for it.
struct EndAtPanic(Arc<WorkerSet>);

impl Drop for EndAtPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attach(error) => error.fmt(f),
            Self::Detached(detached) => detached.fmt(f),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}
