//! Threads of this process and of a child, alive, moved, nudged and gone.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::thread;

/// Waits for what must come about, a minute at most.
fn until(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread of ours that does `work` over and over until the test has ended; the handle to it.
fn with_thread(work: impl Fn() + Send + Sync, test: impl FnOnce(&OtherThread)) {
    /// Ends the thread, of a test that has failed too.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let (tid, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let (tid, stop, work) = (&tid, &stop, &work);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            tid.store(thread::tid(), Ordering::Release);
            while !stop.load(Ordering::Acquire) {
                work();
            }
        });
        let _stop = Stop(stop);
        until("the thread says its id", || tid.load(Ordering::Acquire) != 0);
        let other = OtherThread::of_ours(tid.load(Ordering::Acquire));
        test(&other.expect("it runs until we say so"));
    });
}

fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// `cat`, which waits for its input.
fn cat() -> Child {
    Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat is everywhere")
}

#[test]
fn a_thread_runs_where_it_is_put_and_in_the_class_it_is_given() {
    with_thread(pause, |other| {
        let cpu = CpuSet::allowed().iter().last().expect("some CPU runs this");
        other.pin(cpu).expect("the CPU is allowed");
        assert_eq!(other.affinity(), Ok(CpuSet::only(cpu)));
        other.set_affinity(&CpuSet::allowed()).expect("these are allowed");
        assert_eq!(other.affinity(), Ok(CpuSet::allowed()));
        other.idle_class(true).expect("anybody may step back");
        let path = format!("/proc/self/task/{}/stat", other.tid());
        let stat = std::fs::read_to_string(path).expect("proc is mounted");
        let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(38));
        assert_eq!(policy, Some("5"), "SCHED_IDLE");
        match other.idle_class(false) {
            Ok(()) => {}
            Err(refused) => assert!(matches!(refused, Unchanged::Refused(_)), "{refused:?}"),
        }
        let refused = other.pin(CpuSet::CPU_MAX - 1).expect_err("nobody has that many CPUs");
        assert!(matches!(refused, Unchanged::Refused(_)), "{refused:?}");
        assert!(!other.is_gone());
    });
}

#[test]
fn a_thread_that_sleeps_is_interrupted_by_a_nudge() {
    signal::install_nudge_handler().expect("constants are valid");
    let woken = AtomicU32::new(0);
    let far = rustix::thread::Timespec { tv_sec: 1000, tv_nsec: 0 };
    let sleep = || {
        if woken.load(Ordering::Acquire) == 3 {
            return pause();
        }
        // Not by std, which goes on sleeping after a signal.
        let slept = rustix::thread::nanosleep(&far);
        if matches!(slept, rustix::thread::NanosleepRelativeResult::Interrupted(_)) {
            woken.fetch_add(1, Ordering::Release);
        }
    };
    with_thread(sleep, |other| {
        let before = signal::nudge_count();
        until("it is woken three times", || {
            other.nudge().expect("our own thread");
            woken.load(Ordering::Acquire) == 3
        });
        assert!(signal::nudge_count().wrapping_sub(before) >= 3);
    });
}

#[test]
fn the_time_of_a_thread_is_what_it_used() {
    with_thread(
        || (),
        |other| {
            let some = Nanos::from_millis(20);
            until("it has used 20 ms", || other.cpu_time().is_ok_and(|used| used >= some));
            assert_eq!(other.state(), Ok(ThreadState::Running));
        },
    );
    with_thread(pause, |other| {
        until("it naps", || other.state() == Ok(ThreadState::Sleeping));
    });
}

#[test]
fn a_thread_of_another_process_is_found_stopped_and_gone() {
    let mut child = cat();
    let process = PidFd::open(child.id()).expect("it waits for its input");
    let other = OtherThread::find(&process, child.id()).expect("its only thread");
    assert_eq!((other.pid(), other.tid()), (child.id(), child.id()));
    until("it waits", || other.state() == Ok(ThreadState::Sleeping));
    let cpu = CpuSet::allowed().iter().next().expect("some CPU runs this");
    other.pin(cpu).expect("our own child");
    other.nudge().expect("our own child");
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a real pid");
    rustix::process::kill_process(pid, Signal::STOP).expect("our own child");
    until("it stops", || other.state() == Ok(ThreadState::Stopped));

    child.kill().expect("it is our child");
    until("it is gone", || other.is_gone());
    // A zombie still has its number; it is gone all the same, and whoever has it is left alone.
    assert_eq!(other.idle_class(true), Err(Unchanged::Gone));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("a zombie");
    let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(38));
    assert_eq!(policy, Some("0"), "SCHED_OTHER as before");
    assert_eq!(other.pin(cpu), Err(Unchanged::Gone));
    assert_eq!(OtherThread::find(&process, child.id()).err(), Some(NotThere));
    child.wait().expect("it is our child");
    assert!(other.is_gone());
    assert_eq!(other.pin(cpu), Err(Unchanged::Gone));
    assert_eq!(other.set_affinity(&CpuSet::allowed()), Err(Unchanged::Gone));
    assert_eq!(other.idle_class(true), Err(Unchanged::Gone));
    assert_eq!(other.nudge(), Err(Unchanged::Gone));
    assert_eq!((other.cpu_time(), other.state()), (Err(Gone), Err(Gone)));
    assert_eq!(other.affinity(), Err(Gone));
}

#[test]
fn a_thread_that_another_process_claims_as_its_own_is_not_found() {
    let mut child = cat();
    let process = PidFd::open(child.id()).expect("it waits for its input");
    // Ours, init's, and numbers that are none.
    for tid in [thread::tid(), std::process::id(), 1, 0, u32::MAX] {
        assert_eq!(OtherThread::find(&process, tid).err(), Some(NotThere), "{tid}");
    }
    assert!(OtherThread::of_ours(child.id()).is_err());
    child.kill().expect("it is our child");
    child.wait().expect("it is our child");
}

#[test]
fn without_a_pidfd_for_threads_the_directory_tells_the_same() {
    let older = |mut thread: OtherThread| {
        thread.pidfd = None;
        thread
    };
    let mut child = cat();
    let process = PidFd::open(child.id()).expect("it waits for its input");
    let other = older(OtherThread::find(&process, child.id()).expect("its only thread"));
    assert!(!other.is_gone());
    other.nudge().expect("our own child");
    other.idle_class(true).expect("anybody may step back");
    child.kill().expect("it is our child");
    until("it is gone", || other.is_gone());
    child.wait().expect("it is our child");
    assert!(other.is_gone());
    assert_eq!(other.nudge(), Err(Unchanged::Gone));
}

#[test]
fn a_thread_that_has_ended_is_gone_while_its_process_goes_on() {
    let mut found = None;
    with_thread(pause, |other| found = OtherThread::of_ours(other.tid()).ok());
    let ended = found.expect("it ran then");
    until("it is gone", || ended.is_gone());
    assert_eq!(ended.nudge(), Err(Unchanged::Gone));
    assert_eq!(OtherThread::of_ours(ended.tid()).err(), Some(NotThere));
}
