//! Cores are granted to who has work, come back when it is done, and come back whatever their
//! holders do.

use admin::{Command, CoreApp, CoresStatus, ReplyBody};
use rustix::process::Signal;
use testbed::Testbed;
use whole::{Application, Daemon, answered, bed, wait_for};

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

#[test]
fn a_worker_that_never_parks_loses_its_core_to_a_guarantee_after_the_bound() {
    let bed = bed();
    let daemon = start(&bed, "");
    let _greedy = Application::start(
        &daemon,
        "core-hog --listen udp:10.77.0.2:10 --name greedy --cores 0 --never-parks",
    );
    wait_for("the greedy one on its core", || {
        let cores = cores(&daemon);
        if app(&cores, "greedy").held == 1 { Ok(()) } else { Err(format!("{cores:?}")) }
    });
    let _polite = echo(&daemon, 9, "--cores 1");
    for _ in 0..5 {
        assert_eq!(answered(&bed, 9), 100);
    }
    let cores = cores(&daemon);
    assert!(app(&cores, "greedy").takes > 0, "{cores:?}");
}

#[test]
fn a_stopped_holder_of_a_core_gives_way_to_a_guarantee() {
    let bed = bed();
    let daemon = start(&bed, "");
    let stopped = Application::start(
        &daemon,
        "core-hog --listen udp:10.77.0.2:10 --name stopped --cores 0 --never-parks",
    );
    wait_for("the one to be stopped on its core", || {
        let cores = cores(&daemon);
        if app(&cores, "stopped").held == 1 { Ok(()) } else { Err(format!("{cores:?}")) }
    });
    stopped.signal(Signal::STOP);
    let _polite = echo(&daemon, 9, "--cores 1");
    assert_eq!(answered(&bed, 9), 100);
    stopped.signal(Signal::CONT);
    assert_eq!(answered(&bed, 9), 100);
}

#[test]
fn a_process_that_dies_on_its_core_leaves_it_to_others() {
    let bed = bed();
    let daemon = start(&bed, "");
    for _ in 0..3 {
        let dying = Application::start(
            &daemon,
            "core-hog --listen udp:10.77.0.2:10 --name dying --cores 1 --never-parks",
        );
        wait_for("the dying one on its core", || {
            let cores = cores(&daemon);
            if app(&cores, "dying").held == 1 { Ok(()) } else { Err(format!("{cores:?}")) }
        });
        dying.kill();
        daemon.wait_until_gone("dying");
        let cores = wait_until_idle(&daemon);
        assert!(cores.apps.iter().all(|app| app.name != "dying"), "{cores:?}");
    }
    assert_eq!(answered(&bed, 7), 100);
}
