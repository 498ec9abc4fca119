//! The application of the second act: threads of this process that serve on granted cores.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use base::Nanos;
use calisto_client::{
    App, AttachOptions, CoresClass, CoresRequest, Detached, Frame, Verdict, Worker, reply,
};
use cli::failure::Failure;
use sys::other_thread::OtherThread;

/// What the daemon calls it.
pub(super) const NAME: &str = "demo";

/// A worker without packets looks this often whether it is to end.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// Iterations that a request may ask for, at most: about 10 ms.
const ITERATIONS_MAX: u64 = 2_000_000;

/// A running application; dropped, it has left the daemon.
pub(super) struct Service {
    workers: Vec<Thread>,
    /// Ends the attachment with the value.
    _app: App,
    ending: Arc<AtomicBool>,
}

/// One of its workers.
struct Thread {
    /// The kernel's number of it; 0 until it runs.
    tid: Arc<AtomicU32>,
    handle: Option<JoinHandle<Result<(), Detached>>>,
}

impl Service {
    /// Attaches to the daemon behind `socket` and serves `listen`, with a worker for each of so
    /// many cores. One core is guaranteed.
    pub(super) fn start(socket: &Path, listen: &str, cores: usize) -> Result<Self, Failure> {
        let cores = cores as u32;
        let class = CoresClass::Latency;
        let request = CoresRequest { guaranteed: 1, burst: None, class, queue_delay_us: 0 };
        let options = AttachOptions::new(NAME).socket(socket).listen(listen);
        let options = options.workers(cores).cores(request);
        let (app, workers) = App::attach(&options).map_err(Failure::new)?;
        let ending = Arc::new(AtomicBool::new(false));
        let mut service = Self { workers: Vec::new(), _app: app, ending };
        for worker in workers {
            let thread = Thread::start(worker, Arc::clone(&service.ending)).map_err(|error| {
                Failure::new(format!("cannot start a worker of the application: {error}"))
            })?;
            service.workers.push(thread);
        }
        Ok(service)
    }

    /// An error once one of its workers has ended.
    pub(super) fn check_alive(&mut self) -> Result<(), Failure> {
        for thread in &mut self.workers {
            let Some(handle) = thread.handle.take_if(|handle| handle.is_finished()) else {
                continue;
            };
            return Err(Failure::new(match handle.join() {
                Ok(Err(detached)) => format!("the application has lost its daemon: {detached}"),
                _ => "a worker of the application has ended".to_owned(),
            }));
        }
        Ok(())
    }

    /// CPU time that its workers have used so far.
    pub(super) fn cpu_time(&self) -> Nanos {
        let tids = self.workers.iter().map(|thread| thread.tid.load(Ordering::Relaxed));
        // One that has not begun yet has used none.
        let threads = tids.filter_map(|tid| OtherThread::of_ours(tid).ok());
        threads
            .filter_map(|thread| thread.cpu_time().ok())
            .fold(Nanos::ZERO, |sum, used| sum + used)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        for handle in self.workers.iter_mut().filter_map(|thread| thread.handle.take()) {
            // Why one ended is of no interest any more.
            let _ = handle.join();
        }
    }
}

impl Thread {
    fn start(mut worker: Worker, ending: Arc<AtomicBool>) -> std::io::Result<Self> {
        let tid = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&tid);
        let handle =
            std::thread::Builder::new().name("demo-worker".to_owned()).spawn(move || {
                told.store(sys::thread::tid(), Ordering::Relaxed);
                while !ending.load(Ordering::Relaxed) {
                    if worker.step(answer)? == 0 {
                        worker.wait(LOOK_EVERY)?;
                    }
                }
                Ok(())
            })?;
        Ok(Self { tid, handle: Some(handle) })
    }
}

/// Does the work that the request asks for (iterations, u64, big endian, at its start) and sends it
/// back.
fn answer(frame: &mut Frame) -> Verdict {
    let request = reply::payload(frame).and_then(|payload| payload.first_chunk());
    match request.copied().map(u64::from_be_bytes) {
        Some(iterations) if iterations <= ITERATIONS_MAX => {
            work(iterations);
            reply::echo(frame)
        }
        _ => Verdict::Done,
    }
}

/// Square roots, each of what the one before it gave.
fn work(iterations: u64) {
    let end = (0..iterations).fold(1.0_f64, |root, step| black_box(root + step as f64).sqrt());
    black_box(end);
}
