//! Cores are granted to who has work, come back when it is done, and come back whatever their
//! holders do.

use std::net::SocketAddr;

use admin::{Command, CoreApp, CoresStatus, ReplyBody};
use rustix::process::Signal;
use testbed::Testbed;
use whole::{Application, Daemon, Flows, answered, bed, wait_for};

/// A daemon with one core to give, CPU 1, whose own job answers on port 7.
fn start(bed: &Testbed, more: &str) -> Daemon {
    let config = format!(
        "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n[cores]\nset = [1]\n{more}"
    );
    Daemon::start(bed.server(), &config)
}

fn echo(daemon: &Daemon, port: u16, more: &str) -> Application {
    let words = format!("udp-echo --listen udp:10.77.0.2:{port} --name echo{port} -j {more}");
    Application::start(daemon, &words)
}

fn cores(daemon: &Daemon) -> CoresStatus {
    let ReplyBody::Cores(cores) = daemon.ask(Command::Cores) else { panic!("no cores") };
    cores
}

fn app<'a>(cores: &'a CoresStatus, name: &str) -> &'a CoreApp {
    cores.apps.iter().find(|app| app.name == name).unwrap_or_else(|| panic!("no {name}: {cores:?}"))
}

fn counter(cores: &CoresStatus, name: &str) -> u64 {
    let found = cores.counters.iter().find(|counter| counter.name == name);
    found.unwrap_or_else(|| panic!("no {name}")).value
}

/// Waits until nobody holds a core.
fn wait_until_idle(daemon: &Daemon) -> CoresStatus {
    wait_for("an idle core", || {
        let cores = cores(daemon);
        let is_idle = cores.cores.iter().all(|core| core.state == "idle");
        if is_idle { Ok(cores) } else { Err(format!("{cores:?}")) }
    })
}

#[test]
fn an_application_holds_a_core_while_it_has_work_and_none_while_it_has_none() {
    let bed = bed();
    let daemon = start(&bed, "");
    let application = echo(&daemon, 9, "--cores 1 --workers 2");
    let before = wait_until_idle(&daemon);
    assert_eq!((app(&before, "echo9").guaranteed, app(&before, "echo9").held), (1, 0));
    for _ in 0..5 {
        assert_eq!(answered(&bed, 9), 100);
        let after = wait_until_idle(&daemon);
        assert_eq!(app(&after, "echo9").grants, app(&after, "echo9").parks);
    }
    let after = wait_until_idle(&daemon);
    assert!(after.grants > before.grants, "{after:?}");
    assert_eq!((after.takes, counter(&after, "ran_while_parked")), (0, 0), "{after:?}");
    let ended = application.stop();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn the_daemons_own_workers_run_on_granted_cores_too() {
    let bed = bed();
    let daemon = start(&bed, "[workers]\narrangement = \"threads\"\ncount = 2\n");
    for _ in 0..5 {
        assert_eq!(answered(&bed, 7), 100);
    }
    let cores = wait_until_idle(&daemon);
    assert!(app(&cores, "calistod").grants > 0, "{cores:?}");
    daemon.calisto("workers 1");
    assert_eq!(answered(&bed, 7), 100);
    daemon.calisto("workers 3");
    assert_eq!(answered(&bed, 7), 100);
    wait_until_idle(&daemon);
}

/// Starts the hog and waits until it has had a core.
fn hog(daemon: &Daemon, guaranteed: u16, sin: &str) -> Application {
    let words =
        format!("core-hog --listen udp:10.77.0.2:10 --name hog --cores {guaranteed} --{sin}");
    let hog = Application::start(daemon, &words);
    wait_for("a core for the hog", || {
        let cores = cores(daemon);
        if app(&cores, "hog").grants > 0 { Ok(()) } else { Err(format!("{cores:?}")) }
    });
    hog
}

/// An honest neighbour with a guarantee is served, again and again.
fn others_are_served(bed: &Testbed, daemon: &Daemon) {
    let polite = echo(daemon, 9, "--cores 1");
    for _ in 0..5 {
        assert_eq!(answered(bed, 9), 100);
    }
    assert_eq!(answered(bed, 7), 100, "the daemon's own job");
    assert!(polite.stop().status.success());
}

#[test]
fn a_worker_that_never_parks_loses_its_core_to_a_guarantee_after_the_bound() {
    let bed = bed();
    let daemon = start(&bed, "");
    let _hog = hog(&daemon, 0, "never-parks");
    others_are_served(&bed, &daemon);
    let cores = cores(&daemon);
    assert!(app(&cores, "hog").takes > 0 && counter(&cores, "nudges") > 0, "{cores:?}");
}

#[test]
fn a_stopped_holder_of_a_core_gives_way_to_a_guarantee() {
    let bed = bed();
    let daemon = start(&bed, "");
    let hog = hog(&daemon, 0, "never-parks");
    hog.signal(Signal::STOP);
    others_are_served(&bed, &daemon);
    hog.signal(Signal::CONT);
    others_are_served(&bed, &daemon);
    assert!(app(&cores(&daemon), "hog").takes > 0);
}

#[test]
fn a_worker_that_parks_and_runs_on_is_found_out_and_moved_away() {
    let bed = bed();
    let daemon = start(&bed, "");
    let hog = hog(&daemon, 0, "parks-and-lies");
    let cores = wait_for("the violation to be found out", || {
        let cores = cores(&daemon);
        if counter(&cores, "ran_while_parked") > 0 { Ok(cores) } else { Err(format!("{cores:?}")) }
    });
    assert_eq!(app(&cores, "hog").held, 0);
    let status = std::fs::read_to_string(format!("/proc/{}/status", hog.pid()));
    let status = status.expect("it runs");
    let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed_list"));
    let allowed = allowed.and_then(|line| line.split_whitespace().last()).expect("proc(5) has it");
    assert_ne!(allowed, "1", "it is off the core that others are given");
    others_are_served(&bed, &daemon);
}

#[test]
fn a_worker_that_forges_its_counters_gets_no_more_than_it_may_have() {
    let bed = bed();
    let daemon = start(&bed, "");
    let _hog = hog(&daemon, 0, "forges");
    others_are_served(&bed, &daemon);
    let cores = cores(&daemon);
    assert!(app(&cores, "hog").held <= 1 && app(&cores, "hog").takes > 0, "{cores:?}");
}

#[test]
fn a_worker_that_speaks_without_end_holds_up_nobody() {
    let bed = bed();
    let daemon = start(&bed, "");
    let _hog = hog(&daemon, 0, "babbles");
    others_are_served(&bed, &daemon);
}

#[test]
fn a_worker_that_names_a_thread_of_another_process_is_detached_and_the_thread_left_alone() {
    let bed = bed();
    let daemon = start(&bed, "");
    let before = std::fs::read_to_string("/proc/1/status").expect("process 1 runs");
    let words = "core-hog --listen udp:10.77.0.2:10 --name hog --cores 0 --names-a-stranger";
    let _hog = Application::start(&daemon, words);
    assert_eq!(daemon.wait_until_gone("hog").name, "stray_thread");
    let after = std::fs::read_to_string("/proc/1/status").expect("process 1 runs");
    let allowed = |status: &str| {
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
        line.map(str::to_owned)
    };
    assert_eq!(allowed(&before), allowed(&after));
    assert_eq!(counter(&cores(&daemon), "stray_threads"), 1);
    others_are_served(&bed, &daemon);
}

#[test]
fn a_worker_whose_thread_ends_on_its_core_leaves_it_to_others() {
    let bed = bed();
    let daemon = start(&bed, "");
    let words = "core-hog --listen udp:10.77.0.2:10 --name hog --cores 1 --loses-its-thread";
    let _hog = Application::start(&daemon, words);
    assert_eq!(daemon.wait_until_gone("hog").name, "stray_thread");
    wait_until_idle(&daemon);
    others_are_served(&bed, &daemon);
}

#[test]
fn a_process_that_dies_on_its_core_leaves_it_to_others() {
    let bed = bed();
    let daemon = start(&bed, "");
    for _ in 0..3 {
        let dying = hog(&daemon, 1, "never-parks");
        dying.kill();
        assert_eq!(daemon.wait_until_gone("hog").name, "died", "and for no other reason");
        let cores = wait_until_idle(&daemon);
        assert!(cores.apps.iter().all(|app| app.name != "hog"), "{cores:?}");
    }
    others_are_served(&bed, &daemon);
}

#[test]
fn who_asks_for_cores_that_cannot_be_had_is_told_why() {
    let bed = bed();
    let daemon = start(&bed, "");
    let refused = |words: &str| {
        let ended = Application::try_start(&daemon, words).expect_err("it is refused");
        ended.said
    };
    let said = refused("udp-echo --listen udp:10.77.0.2:9 --name nine --workers 2 --cores 2");
    assert!(said.contains("cannot be guaranteed"), "{said}");
    drop(daemon);
    let without = "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n";
    let plain = Daemon::start(bed.server(), without);
    let ended = Application::try_start(&plain, "udp-echo --listen udp:10.77.0.2:9 --cores 1");
    let said = ended.expect_err("it is refused").said;
    assert!(said.contains("gives out no cores") && said.contains("cores.set"), "{said}");
    assert!(!cores(&plain).enabled);
}

#[test]
fn a_policy_that_gives_only_what_is_guaranteed_is_refused_where_somebody_would_never_run_again() {
    let bed = bed();
    const THREADS: &str = "[workers]\narrangement = \"threads\"\n";
    let daemon = start(&bed, THREADS);
    assert_eq!(answered(&bed, 7), 100);
    let (status, _, said) = daemon.try_calisto("cores set static_set");
    assert!(!status.success() && said.contains("the daemon's own workers"), "{said}");
    assert_eq!(answered(&bed, 7), 100, "nothing has changed");
    drop(daemon);
    let guaranteed = start(&bed, &format!("guaranteed = 1\n{THREADS}"));
    let echoing = echo(&guaranteed, 9, "--cores 0 --workers 1");
    let (status, _, said) = guaranteed.try_calisto("cores set static_set");
    assert!(!status.success() && said.contains("echo9"), "{said}");
    assert!(echoing.stop().status.success());
    guaranteed.wait_until_gone("echo9");
    guaranteed.calisto("cores set static_set");
    assert_eq!(answered(&bed, 7), 100);
    let words = "udp-echo --listen udp:10.77.0.2:9 --name late --cores 0 --workers 1";
    let said = Application::try_start(&guaranteed, words).expect_err("it would never run").said;
    assert!(said.contains("none is guaranteed"), "{said}");
}

/// Descriptors and mappings of the daemon.
fn belongings(daemon: &Daemon) -> (usize, usize) {
    let of = format!("/proc/{}", daemon.pid());
    let descriptors = std::fs::read_dir(format!("{of}/fd")).expect("it runs").count();
    let maps = std::fs::read_to_string(format!("{of}/maps")).expect("it runs");
    (descriptors, maps.lines().count())
}

#[test]
fn a_thousand_bursts_lose_no_wake_up_and_leave_nothing_behind() {
    let bed = bed();
    let daemon = start(&bed, "rest_ms = 1\n");
    let application = echo(&daemon, 9, "--cores 1 --workers 2");
    let server = SocketAddr::from((bed.server().ipv4(), 9));
    let burst = |flows: &mut Flows| {
        flows.run(2, 1);
        flows.settle();
        wait_until_idle(&daemon);
    };
    let flows = bed.client().enter(|| {
        let mut flows = Flows::new(8, "0.0.0.0:0".parse().expect("an address"), server);
        for _ in 0..50 {
            burst(&mut flows);
        }
        let (descriptors, maps) = belongings(&daemon);
        for _ in 0..1000 {
            burst(&mut flows);
        }
        // A question that is just being answered has a connection and a thread, and what the daemon
        // asks the kernel in between has a descriptor, so it is looked more than once; and the more
        // threads there were at once, the more arenas malloc keeps. Anything that stays of a burst
        // is there a thousand times.
        wait_for("what a burst had to be given back", || {
            let after = belongings(&daemon);
            let is_back = after.0 <= descriptors + 2 && after.1 <= maps + 40;
            if is_back { Ok(()) } else { Err(format!("{descriptors} {maps} {after:?}")) }
        });
        flows
    });
    flows.expect("the client's namespace is there").assert_perfect();
    let cores = wait_until_idle(&daemon);
    assert!(app(&cores, "echo9").grants >= 1000, "{cores:?}");
    assert_eq!((cores.takes, counter(&cores, "ran_while_parked")), (0, 0), "{cores:?}");
    assert!(application.stop().status.success());
}
