//! The dispatcher's roles as threads of one CPU, and as tasks of one thread.
//!
//! The roles are receive (with classify and dispatch), worker, transmit and control. A thread is
//! switched by the kernel, a task by returning to a loop: it is an `async` block that gives way
//! after each turn.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use base::Nanos;
use datapath::{Dispatcher, Echo, Worker};
use port::xdp::XdpPort;
use shm::FramePool;
use sys::clock::now;
use sys::thread::sched_yield;

use crate::cases::{Plan, turns_of};
use crate::echo_wire::{Answers, EchoWire, Signals};
use crate::error::Error;
use crate::figure::Figure;
use crate::flows::listeners;
use crate::place::Cpus;
use crate::report::Report;
use crate::rig::{RigConfig, dispatcher, spawn};

/// How the roles are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Roles {
    /// One loop calls them in turn.
    Fused,
    /// A task for the dispatcher and one for the worker.
    TwoTasks,
    /// A task for each of the four.
    FourTasks,
    /// A thread for the dispatcher and one for the worker.
    TwoThreads,
    /// A thread for each of the four; three of them share the dispatcher under a lock.
    FourThreads,
}

const ROLES: [(Roles, &str); 5] = [
    (Roles::Fused, "one loop"),
    (Roles::TwoTasks, "2 tasks on one thread"),
    (Roles::FourTasks, "4 tasks on one thread"),
    (Roles::TwoThreads, "2 threads on one CPU"),
    (Roles::FourThreads, "4 threads on one CPU"),
];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "roles",
        &format!(
            "UDP echo over veth; client: one kernel socket, closed loop with 1 or 16 outstanding, spinning, on \
             CPU {client}; server: dispatcher and a worker over AF_XDP (native, copy), everything on CPU {server} \
             and never asleep. Roles: receive with classify and dispatch, worker, transmit, control. 2: \
             dispatcher and worker apart. Threads give way by sched_yield when they have done a turn with \
             nothing to do, tasks after each turn, by returning to a loop that polls them."
        ),
    )?;
    let wire = EchoWire::new()?;
    let length = plan.pick(Nanos::from_millis(400), Nanos::from_millis(100));
    for outstanding in [1, 16] {
        let what = format!("{outstanding} outstanding");
        let answers = turns_of(plan, report, what, |which, _| {
            let (roles, _) = ROLES[which];
            let serve = |port, pool, signals: &_| serve(roles, port, pool, signals);
            wire.measure(plan, outstanding, length, serve)
        })?;
        print(outstanding, &answers, report)?;
    }
    Ok(())
}

fn print(
    outstanding: usize,
    answers: &[Vec<Answers>; ROLES.len()],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let of = |index: usize, value: fn(&Answers) -> f64| {
        answers[index].iter().map(value).collect::<Vec<f64>>()
    };
    let (loop_rate, loop_p50) = (of(0, |run| run.per_second), of(0, |run| run.p50_us));
    for (index, (_, name)) in ROLES.into_iter().enumerate() {
        let (rate, p50) = (of(index, |run| run.per_second), of(index, |run| run.p50_us));
        let name = format!("{name}, {outstanding} outstanding");
        let mut rates = Figure::new(&name, "requests/s", &rate);
        let mut delays = Figure::new(format!("{name}, p50"), "us", &p50);
        if index > 0 {
            rates = rates.against(ROLES[0].1, &rate, &loop_rate);
            delays = delays.against(ROLES[0].1, &p50, &loop_p50);
        }
        report.figure(rates)?;
        report.figure(delays)?;
    }
    Ok(())
}

/// Answers until it is told to stop. `ready` is set once the port is open.
fn serve(
    roles: Roles,
    port: XdpPort,
    pool: FramePool,
    Signals { stop, ready }: &Signals,
) -> Result<(), Error> {
    let config = RigConfig { groups: 1 << 16, ..RigConfig::default() };
    let mut dispatcher = dispatcher(&config, port, pool, listeners())?;
    let mut worker = spawn(&mut dispatcher, Echo)?;
    ready.store(true, Ordering::Release);
    let mut dispatcher = match roles {
        Roles::Fused => {
            while !stop.load(Ordering::Relaxed) {
                let time = now();
                dispatcher.receive(time);
                worker.step(time);
                dispatcher.transmit(time);
                dispatcher.control(time);
            }
            dispatcher
        }
        Roles::TwoTasks | Roles::FourTasks => as_tasks(roles, dispatcher, worker, stop),
        Roles::TwoThreads | Roles::FourThreads => as_threads(roles, dispatcher, worker, stop),
    };
    dispatcher.close();
    Ok(())
}

/// Gives way to the other tasks, once.
async fn give_way() {
    let mut has_given = false;
    std::future::poll_fn(move |_| match std::mem::replace(&mut has_given, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// A role as a task: a turn, and it gives way.
async fn role(stop: &AtomicBool, mut turn: impl FnMut(Nanos)) {
    while !stop.load(Ordering::Relaxed) {
        turn(now());
        give_way().await;
    }
}

/// Polls each task in turn until all have ended.
fn run_tasks(tasks: &mut [Pin<&mut dyn Future<Output = ()>>]) {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let mut left = 0;
        for task in tasks.iter_mut() {
            left += usize::from(task.as_mut().poll(&mut context).is_pending());
        }
        // All are told to stop at once, so none is polled after its end but in the last round.
        if left < tasks.len() {
            return;
        }
    }
}

fn as_tasks(
    roles: Roles,
    dispatcher: Dispatcher<XdpPort>,
    mut worker: Worker<Echo>,
    stop: &AtomicBool,
) -> Dispatcher<XdpPort> {
    let shared = RefCell::new(dispatcher);
    let working = pin!(role(stop, |time| {
        worker.step(time);
    }));
    if roles == Roles::TwoTasks {
        let dispatching = pin!(role(stop, |time| {
            shared.borrow_mut().step(time);
        }));
        run_tasks(&mut [dispatching, working]);
    } else {
        let receiving = pin!(role(stop, |time| {
            shared.borrow_mut().receive(time);
        }));
        let transmitting = pin!(role(stop, |time| {
            shared.borrow_mut().transmit(time);
        }));
        let controlling = pin!(role(stop, |time| shared.borrow_mut().control(time)));
        run_tasks(&mut [receiving, working, transmitting, controlling]);
    }
    shared.into_inner()
}

/// A role as a thread: a turn; when that found nothing, another thread's.
fn turns(stop: &AtomicBool, mut turn: impl FnMut(Nanos) -> usize) {
    while !stop.load(Ordering::Relaxed) {
        if turn(now()) == 0 {
            sched_yield();
        }
    }
}

fn as_threads(
    roles: Roles,
    dispatcher: Dispatcher<XdpPort>,
    mut worker: Worker<Echo>,
    stop: &AtomicBool,
) -> Dispatcher<XdpPort> {
    let shared = Mutex::new(dispatcher);
    // Threads inherit the CPU. A role that panicked has ended the bench already.
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        scope.spawn(|| turns(stop, |time| worker.step(time).messages));
        if roles == Roles::TwoThreads {
            let mut dispatcher = lock();
            turns(stop, |time| usize::from(!dispatcher.step(time).is_idle()));
        } else {
            scope.spawn(|| turns(stop, |time| lock().receive(time)));
            scope.spawn(|| {
                turns(stop, |time| {
                    let (messages, sent) = lock().transmit(time);
                    messages + sent
                });
            });
            turns(stop, |time| {
                lock().control(time);
                0
            });
        }
    });
    shared.into_inner().unwrap_or_else(PoisonError::into_inner)
}
