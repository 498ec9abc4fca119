//! A daemon that serves keeps in each thread what its work needs, and nothing else.

use std::collections::BTreeMap;
use std::fs;

use testbed::{Testbed, TestbedConfig};
use whole::{Accelerated, Daemon, project, wait_for};

const PYTHON: &str = "/usr/bin/python3";

/// linux/capability.h.
const CHOWN: u64 = 1;
const KILL: u64 = 1 << 5;
const NET_BIND_SERVICE: u64 = 1 << 10;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const IPC_LOCK: u64 = 1 << 14;
const DAC_READ_SEARCH: u64 = 1 << 2;
const SYS_PTRACE: u64 = 1 << 19;
const SYS_NICE: u64 = 1 << 23;
const BPF: u64 = 1 << 39;

/// proc_pid_status(5) of a thread.
struct Thread(BTreeMap<String, String>);

impl Thread {
    fn read(path: &str) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let fields = text.lines().filter_map(|line| line.split_once(":\t"));
        Some(Self(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    fn threads_of(pid: u32) -> Vec<Self> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
        let paths = tasks.flatten().map(|task| format!("{}/status", task.path().display()));
        paths.filter_map(|path| Self::read(&path)).collect()
    }

    fn name(&self) -> &str {
        &self.0["Name"]
    }

    fn capabilities(&self) -> u64 {
        let set = |name: &str| u64::from_str_radix(&self.0[name], 16).expect("it is hexadecimal");
        set("CapEff") | set("CapPrm") | set("CapInh") | set("CapAmb")
    }

    fn is_filtered(&self) -> bool {
        self.0["Seccomp"] == "2" && self.0["NoNewPrivs"] == "1"
    }
}

fn may_have(thread: &str) -> u64 {
    match thread {
        "dispatcher" => BPF | SYS_NICE | KILL,
        // It makes sockets that are to be another user's.
        "attach" => BPF | NET_ADMIN | NET_BIND_SERVICE | CHOWN,
        // It does the same with what programs have passed.
        "aside" => NET_ADMIN | NET_BIND_SERVICE | CHOWN,
        "ports" => BPF | NET_ADMIN | NET_RAW | IPC_LOCK,
        _ => 0,
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).expect("the kernel has CONFIG_PROC_CHILDREN");
    text.split_whitespace().map(|pid| pid.parse().expect("it is a number")).collect()
}

#[test]
fn every_thread_of_a_daemon_that_serves_is_confined() {
    let accelerated =
        Accelerated::with_workers("arrangement = \"threads\"\ncount = 1\ncpus = [0]", "");
    let server = project().join("tests/programs/asyncio_server.py").display().to_string();
    let mut server = accelerated.run(&[PYTHON, &server, "0.0.0.0", "8000"]);
    server.wait_until_it_says("listening");
    let said = accelerated.daemon().calisto("status");
    assert!(!said.contains("NOT CONFINED"), "{said}");
    let threads = Thread::threads_of(accelerated.daemon().pid());
    let names: Vec<&str> = threads.iter().map(Thread::name).collect();
    for expected in ["dispatcher", "attach", "worker-0", "log", "signals", "reload", "admin"] {
        assert!(names.contains(&expected), "{expected} is not among {names:?}");
    }
    // It chose its CPU before it gave up that right.
    let worker = threads.iter().find(|thread| thread.name() == "worker-0").expect("it is there");
    assert_eq!(worker.0["Cpus_allowed_list"], "0");
    for thread in &threads {
        let name = thread.name();
        assert!(thread.is_filtered(), "{name} may make every system call");
        let extra = thread.capabilities() & !may_have(name);
        assert_eq!(extra, 0, "{name} has capabilities that it does not need: {extra:#x}");
    }
}

#[test]
fn only_a_process_that_hears_nobody_may_look_at_others() {
    let accelerated = Accelerated::with("");
    let children = children_of(accelerated.daemon().pid());
    let guardian = guardian_of(accelerated.daemon().pid());
    let starter = starter_of(accelerated.daemon().pid());
    let own: Vec<u32> = children.into_iter().filter(|child| *child != starter).collect();
    // The guardian has one of its own, for the time when the daemon is dead.
    for lookers in [own, children_of(guardian)] {
        let [looker] = lookers.as_slice() else { panic!("there are {lookers:?}") };
        let threads = Thread::threads_of(*looker);
        assert_eq!(threads.len(), 1);
        assert!(threads[0].is_filtered());
        assert_eq!(threads[0].capabilities(), DAC_READ_SEARCH | SYS_PTRACE);
    }
}

/// The process that starts the guardians of a daemon.
fn starter_of(daemon: u32) -> u32 {
    let is_starter = |pid: &u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("--start-guardians")
    };
    children_of(daemon).into_iter().find(is_starter).expect("it has one")
}

/// The guardian of a daemon, which it has told what it opened.
fn guardian_of(daemon: u32) -> u32 {
    wait_for("a guardian that is confined", || {
        let children = children_of(starter_of(daemon));
        let guardian = children.first().copied();
        let is_ready = |pid: &u32| Thread::threads_of(*pid).iter().all(Thread::is_filtered);
        guardian.filter(is_ready).ok_or_else(|| format!("{children:?}"))
    })
}

#[test]
fn the_guardian_may_repair_connections_and_nothing_else() {
    let accelerated = Accelerated::with("");
    let threads = Thread::threads_of(guardian_of(accelerated.daemon().pid()));
    assert_eq!(threads.len(), 1);
    let capabilities = threads[0].capabilities();
    assert_eq!(capabilities, BPF | CHOWN | NET_ADMIN | NET_BIND_SERVICE, "{capabilities:#x}");
}

#[test]
fn a_daemon_that_is_told_not_to_be_confined_says_so() {
    let bed = Testbed::new(TestbedConfig::default()).expect("this test needs root and ip");
    let daemon = Daemon::start(bed.server(), "confine = false\nports = [\"xdp:veth0\"]\n");
    let said = daemon.calisto("status");
    assert!(said.contains("NOT CONFINED: every thread"), "{said}");
    let threads = Thread::threads_of(daemon.pid());
    assert!(threads.iter().all(|thread| !thread.is_filtered()));
    assert_eq!(children_of(daemon.pid()).len(), 1, "nobody else looks at other processes");
    let guardian = children_of(starter_of(daemon.pid()));
    assert!(!Thread::threads_of(guardian[0])[0].is_filtered());
    assert_eq!(children_of(guardian[0]), [0; 0]);
}

#[test]
fn the_process_that_looks_ends_with_a_daemon_that_is_killed() {
    let mut accelerated = Accelerated::with("");
    let (daemon, guardian) = {
        let pid = accelerated.daemon().pid();
        (children_of(pid), guardian_of(pid))
    };
    // The daemon's looker and the guardian's starter, the guardian, and its looker.
    let all = [daemon, vec![guardian], children_of(guardian)].concat();
    assert_eq!(all.len(), 4);
    accelerated.daemon_mut().0.kill();
    for pid in all {
        let path = format!("/proc/{pid}/status");
        wait_for("end of the processes that look", || {
            // It may stay a zombie of a parent that reaps nobody.
            let has_ended =
                Thread::read(&path).is_none_or(|thread| thread.0["State"].starts_with('Z'));
            has_ended.then_some(()).ok_or_else(|| format!("{path} is there"))
        });
    }
}

#[test]
fn a_link_that_changes_is_still_found_by_its_name() {
    let accelerated = Accelerated::with("");
    let link = ["link", "add", "name", "other", "type", "veth", "peer", "name", "another"];
    let added = accelerated.here().command("ip").args(link).status().expect("ip is installed");
    assert!(added.success());
    // The attach server has heard of the link before it serves a program that comes later.
    let listen = "import socket; s = socket.socket(); s.bind(('', 8000)); s.listen()";
    assert!(accelerated.run(&[PYTHON, "-c", listen]).end().status.success());
    assert_eq!(accelerated.daemon().counter("attach_interfaces_gone"), 0);
}

#[test]
fn the_files_of_both_sockets_come_back_when_somebody_removes_them() {
    let accelerated = Accelerated::with("");
    let daemon = accelerated.daemon();
    for path in [daemon.socket(), daemon.apps_socket()] {
        std::fs::remove_file(&path).expect("it is there");
        wait_for("a socket's file", || {
            path.exists().then_some(()).ok_or_else(|| format!("no {path:?}, {}", daemon.said()))
        });
    }
    // Whoever finds the file finds the daemon.
    daemon.calisto("status");
    let listen = "import socket; s = socket.socket(); s.bind(('', 8000)); s.listen()";
    assert!(accelerated.run(&[PYTHON, "-c", listen]).end().status.success());
}
