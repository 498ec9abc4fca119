//! An application from its start to its end: attach, a thread for each worker, Ctrl-C, figures.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use calisto_client::{App, Detached, Frame, Nanos, Verdict, Worker};

use crate::options::Options;
use crate::report::Report;

/// A worker without packets looks this often whether the program is to end.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// Between two attempts to attach.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What an application does with a packet; each worker has one of its own.
pub trait Service: Send {
    /// Looks at a packet, answers it in place if there is an answer.
    fn packet(&mut self, frame: &mut Frame) -> Verdict;

    /// Figures of its own, by name.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Runs the application `program` until Ctrl-C (or until the daemon lets go of it, unless
/// [`Options::keep`]) and prints what it has done.
pub fn run<S: Service>(program: &str, options: &Options, service: impl Fn() -> S) -> ExitCode {
    let mut services: Vec<S> = (0..options.workers).map(|_| service()).collect();
    let mut report = Report::default();
    let result = sys::signal::install_stop_handler()
        .map_err(|error| error.to_string())
        .and_then(|()| serve(program, options, &mut services, &mut report));
    for (name, count) in services.iter().flat_map(Service::figures) {
        report.add_own(name, count);
    }
    // A reader that has gone needs no figures.
    let _ = writeln!(std::io::stdout(), "{}", report.text(options.json));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve<S: Service>(
    program: &str,
    options: &Options,
    services: &mut [S],
    report: &mut Report,
) -> Result<(), String> {
    loop {
        let Some((app, workers)) = attach(program, options)? else { return Ok(()) };
        report.attachments += 1;
        let (id, threads) = (app.id(), workers.len());
        eprintln!("{program}: attached as application {id} with {threads} workers");
        let ends: Vec<_> = std::thread::scope(|scope| {
            let start = |(index, (worker, service))| {
                scope.spawn(move || work(options, index, worker, service))
            };
            let threads: Vec<_> =
                workers.into_iter().zip(services.iter_mut()).enumerate().map(start).collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        let mut detached = None;
        for end in ends {
            let (counters, result) = end.map_err(|_| "a worker has panicked")?;
            report.add(&counters);
            match result {
                Ok(()) => {}
                Err(End::Detached(why)) => detached = Some(why),
                Err(End::Failed(why)) => return Err(why),
            }
        }
        match detached {
            None => return Ok(()),
            Some(why) if options.keep => {
                eprintln!("{program}: {why}; it attaches again");
                std::thread::sleep(RETRY_AFTER);
            }
            Some(why) => return Err(why.to_string()),
        }
    }
}

/// Attaches; with `keep`, as soon as there is a daemon. Nothing when the program is to end first.
fn attach(program: &str, options: &Options) -> Result<Option<(App, Vec<Worker>)>, String> {
    let request = options.request(program);
    let mut has_said = false;
    while !sys::signal::stop_requested() {
        match App::attach(&request) {
            Ok(attached) => return Ok(Some(attached)),
            Err(error) if options.keep && error.may_pass() => {
                if !std::mem::replace(&mut has_said, true) {
                    eprintln!("{program}: {error}; it waits");
                }
                std::thread::sleep(RETRY_AFTER);
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(None)
}

/// Why a worker's thread has ended early.
enum End {
    Detached(Detached),
    Failed(String),
}

/// A worker's thread.
fn work<S: Service>(
    options: &Options,
    index: usize,
    mut worker: Worker,
    service: &mut S,
) -> (calisto_client::Counters, Result<(), End>) {
    sys::thread::set_name(&format!("worker-{index}"));
    let pinned = options.cpus.as_ref().map_or(Ok(()), |cpus| sys::thread::pin(cpus.of(index)));
    let result = pinned
        .map_err(|error| End::Failed(error.to_string()))
        .and_then(|()| packets(&mut worker, service).map_err(End::Detached));
    (worker.counters(), result)
}

fn packets<S: Service>(worker: &mut Worker, service: &mut S) -> Result<(), Detached> {
    while !sys::signal::stop_requested() {
        if worker.step(|frame| service.packet(frame))? == 0 {
            worker.wait(LOOK_EVERY)?;
        }
    }
    Ok(())
}
