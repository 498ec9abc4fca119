//! Real processes that follow cores which a test gives and takes.

use std::os::fd::BorrowedFd;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use sys::eventfd::EventFd;
use sys::other_thread::ThreadState;

use super::*;

/// Cores as a test gives them.
struct Fed {
    doorbell: std::sync::Arc<EventFd>,
    news: Receiver<Holding>,
    now: Holding,
}

/// The end of it that gives.
#[derive(Clone)]
struct Feeder {
    doorbell: std::sync::Arc<EventFd>,
    news: Sender<Holding>,
}

fn fed(first: Holding) -> (Feeder, Fed) {
    let doorbell = std::sync::Arc::new(EventFd::new().expect("descriptors are left"));
    let (news, receiver) = channel();
    (Feeder { doorbell: doorbell.clone(), news }, Fed { doorbell, news: receiver, now: first })
}

impl Feeder {
    fn give(&self, cpus: CpuSet) {
        self.tell(Holding::Cores(cpus));
    }

    fn tell(&self, holding: Holding) {
        self.news.send(holding).expect("the runner looks until the job has ended");
        self.doorbell.ring();
    }
}

impl Grants for Fed {
    fn look(&mut self) -> Holding {
        self.doorbell.drain();
        self.now = self.news.try_iter().last().unwrap_or_else(|| self.now.clone());
        self.now.clone()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.doorbell.as_fd()]
    }
}

fn until(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether all threads below `root` may run on `cpus` exactly; there is at least one.
fn all_on(root: u32, cpus: CpuSet) -> bool {
    let mut all = true;
    let extent = process_tree::each_thread(root, |thread| all &= thread.affinity() == Ok(cpus));
    all && extent.visited > 0
}

fn all_stopped(root: u32) -> bool {
    let mut all = true;
    let extent = process_tree::each_thread(root, |thread| {
        all &= thread.state() == Ok(ThreadState::Stopped);
    });
    all && extent.visited > 0
}

/// A family that ends with 5 when its input closes, with a runner; `test` is told its root.
fn with_job(first: CpuSet, test: impl FnOnce(u32, &Feeder) + Send) -> Ended {
    let (feeder, mut grants) = fed(Holding::Cores(first));
    std::thread::scope(|scope| {
        let mut root = Command::new("sh")
            .args(["-c", "exec 3<&0; cat <&3 & cat; wait; exit 5"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell is everywhere");
        let (pid, input) = (root.id(), root.stdin.take());
        scope.spawn(move || {
            until("both run", || process_tree::each_process(pid, |_| ()).visited == 2);
            test(pid, &feeder);
            drop(input);
        });
        let signals = SignalFd::new(&PASSED_ON).expect("descriptors are left");
        let ended = follow(&signals, &mut grants, first, &Job::by_signals(pid), &mut root);
        ended.expect("the family is ours")
    })
}

fn some_cpus() -> (CpuSet, CpuSet) {
    let all = CpuSet::allowed();
    (CpuSet::only(all.iter().last().expect("some CPU runs this")), all)
}

#[test]
fn a_job_runs_where_it_may_stands_still_with_nowhere_to_run_and_goes_on() {
    let (one, all) = some_cpus();
    let ended = with_job(all, |root, feeder| {
        feeder.give(one);
        until("it is moved", || all_on(root, one));
        feeder.give(CpuSet::new());
        until("it stands still", || all_stopped(root));
        assert!(all_on(root, one), "it stays where it was");
        feeder.give(all);
        until("it goes on", || !all_stopped(root) && all_on(root, all));
    });
    assert_eq!(ended.code, 5);
    let Counts { grants, revokes, freezes, held } = ended.counts;
    // All of them at first; all but one taken, and then that one; all of them again.
    let all = all.len() as u64;
    assert_eq!((grants, revokes, freezes), (2 * all, all, 1));
    assert!(held.len() as u64 == all + 1 && held[0] >= super::super::pace::GRACE, "{held:?}");
}

#[test]
fn threads_that_place_themselves_are_put_back() {
    let (one, all) = some_cpus();
    with_job(one, |root, _| {
        process_tree::each_thread(root, |thread| {
            thread.set_affinity(&all).expect("our own children");
        });
        until("they are back", || all_on(root, one));
    });
}

#[test]
fn a_job_whose_daemon_has_ended_goes_on_where_it_could_run_before() {
    let (one, all) = some_cpus();
    let ended = with_job(one, |root, feeder| {
        until("it is moved", || all_on(root, one));
        feeder.give(CpuSet::new());
        until("it stands still", || all_stopped(root));
        feeder.tell(Holding::Over("the daemon has ended".to_owned()));
        until("it goes on", || !all_stopped(root) && all_on(root, all));
    });
    assert_eq!((ended.code, ended.counts.freezes), (5, 1));
}

#[test]
fn a_program_begins_with_its_first_core() {
    let (one, _) = some_cpus();
    let (feeder, mut grants) = fed(Holding::Cores(CpuSet::new()));
    let first = std::thread::scope(|scope| {
        scope.spawn(move || feeder.give(one));
        let runner = Runner::new(&[]).expect("descriptors are left");
        match runner.wait_for_first(&mut grants).expect("it comes") {
            First::Cores(first) => first,
            First::Signal(signal) => panic!("{signal:?}"),
        }
    });
    assert_eq!(first, one);
}

#[test]
fn cores_that_this_session_may_not_use_and_a_daemon_that_ends_are_told_apart() {
    let runner = Runner::new(&[]).expect("descriptors are left");
    let nowhere = CpuSet::only(CpuSet::CPU_MAX - 1);
    let (_feeder, mut grants) = fed(Holding::Cores(nowhere));
    let failure = runner.wait_for_first(&mut grants).map(|_| ()).expect_err("nobody has that many");
    assert!(failure.to_string().contains("cpuset of this session"), "{failure}");
    let (_feeder, mut grants) = fed(Holding::Over("the daemon has ended".to_owned()));
    let failure = runner.wait_for_first(&mut grants).map(|_| ()).expect_err("it is over");
    assert_eq!(failure.to_string(), "the daemon has ended");
}
