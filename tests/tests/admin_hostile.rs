//! Clients of the admin socket that do what none should, and an operator beside them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;

use admin::{Command, ReplyBody};
use testbed::{Testbed, TestbedConfig};
use whole::Daemon;

fn testbed() -> Testbed {
    Testbed::new(TestbedConfig::default()).expect("root makes namespaces")
}

/// The most memory that a process has had, in KiB: VmHWM of proc_pid_status(5).
fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("it is a number")
}

/// The threads that answer operators.
fn threads_of_clients(pid: u32) -> BTreeSet<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let tasks = tasks.filter(|task| {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.trim() == "admin-client"
    });
    tasks.map(|task| task.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn an_operator_is_answered_beside_endless_lines_which_cost_the_memory_of_one() {
    let bed = testbed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let before = peak_kib(daemon.pid());
    std::thread::scope(|scope| {
        for _ in 0..12 {
            let mut client = UnixStream::connect(daemon.socket()).expect("the daemon listens");
            scope.spawn(move || {
                // More than any line may have; most are let go long before.
                let part = vec![b'x'; 1 << 20];
                let _ = (0..32).try_for_each(|_| client.write_all(&part));
            });
        }
        for _ in 0..20 {
            let answer = daemon.ask(Command::Status);
            assert!(!matches!(answer, ReplyBody::Error { .. }), "{answer:?}");
        }
    });
    let grown = peak_kib(daemon.pid()) - before;
    assert!(grown < 128 << 10, "a line of 24 MiB is one client's at a time: {grown} KiB more");
}

#[test]
fn questions_that_follow_each_other_are_answered_by_one_thread() {
    let bed = testbed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let mut threads = BTreeSet::new();
    for _ in 0..60 {
        daemon.ask(Command::Status);
        threads.extend(threads_of_clients(daemon.pid()));
    }
    // A caller can come before the thread of the one before has seen its end, and on a busy machine
    // several do.
    assert!(threads.len() <= 15, "sixty questions made {} threads", threads.len());
}
