//! Whoever steers or watches from outside: the controller, its plans, its lease.

use std::process::Command;

use admin::{ReplyBody, Sample};
use whole::{Application, Daemon, Operator, Traffic, bed, project, run, wait_for};

fn controller(daemon: &Daemon, words: &str) -> Command {
    let mut python = Command::new("python3");
    python.arg(project().join("examples/controller.py")).arg("--socket").arg(daemon.socket());
    python.args(words.split(' '));
    python
}

/// All groups of a table to one worker.
const ALL_ON_0: &str = r#""command":"steer_load","table":"groups 128\n0-127 0\n"}"#;

#[test]
fn the_example_controller_spreads_load_that_lies_on_one_worker_and_gives_the_table_back() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let words = "udp-echo --listen udp:10.77.0.2:9 --name web --workers 2";
    let _web = Application::start(&daemon, words);
    for (port, app, option) in [(7, "", ""), (9, r#""app":"web","#, " --app web")] {
        let loaded = daemon.line(&format!("{{\"v\":1,{app}{ALL_ON_0}"));
        assert_eq!(loaded, ReplyBody::Done);
        let groups_of_1 = || {
            let line = format!("{{\"v\":1,{app}\"command\":\"steer_show\"}}");
            let ReplyBody::Steer(steer) = daemon.line(&line) else { panic!("no steering") };
            let of_1 = steer.owned.iter().find(|owned| owned.0 == 1).map_or(0, |owned| owned.1);
            (steer.settled && steer.unowned == 0).then_some(of_1)
        };
        wait_for("the loaded table", || match groups_of_1() {
            Some(0) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let traffic = Traffic::start(&bed, port, 40);
        let (status, out, said) = run(&mut controller(&daemon, &format!("--seconds 3{option}")));
        assert!(status.success(), "{out}{said}");
        assert!(out.contains("moves: accepted"), "{out}");
        assert!(out.trim_end().ends_with("the daemon's policy has the table again"), "{out}");
        let moved = wait_for("the end of its moves", || groups_of_1().ok_or_else(String::new));
        assert!(moved > 0, "{out}");
        traffic.end();
        let mut operator = daemon.connect();
        operator.send(&format!("{{\"v\":1,{app}\"command\":\"watch\",\"every_us\":1000}}"));
        let after = operator.sample();
        assert_eq!(after.lease_left_ms, None, "it has given its lease back");
    }
}

#[test]
fn who_has_asked_all_may_go_on_watching() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let mut watch = daemon.connect();
    watch.send(r#"{"v":1,"command":"watch","every_us":1000}"#);
    watch.finish();
    let first = watch.sample().now_ns;
    // Without traffic there are fewer looks than questions, and the last one is told again.
    assert!((0..100).any(|_| watch.sample().now_ns > first), "time passes");
}

#[test]
fn a_controller_without_a_daemon_says_which_one_it_misses() {
    let bed = bed();
    let mut daemon = Daemon::with_small_tables(bed.server(), "sticky");
    daemon.kill();
    let (status, _, said) = run(&mut controller(&daemon, "--seconds 1"));
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("no daemon answers") && said.contains("admin.sock"), "{said}");
}

/// The groups that worker 1 has.
fn on_1(sample: &Sample) -> u32 {
    sample.workers.iter().find(|worker| worker.id == 1).expect("it is active").groups
}

fn plan(operator: &mut Operator, fields: &str) -> ReplyBody {
    operator.line(&format!(r#"{{"v":1,"command":"plan",{fields}}}"#))
}

#[test]
fn while_a_lease_lasts_the_policy_moves_nothing_and_when_it_is_over_it_goes_on() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "balanced");
    assert_eq!(daemon.line(&format!("{{\"v\":1,{ALL_ON_0}")), ReplyBody::Done);
    daemon.wait_until("the loaded table", |steer| steer.owned.contains(&(0, 128)));
    let (mut watch, mut steer) = (daemon.connect(), daemon.connect());
    assert_eq!(plan(&mut steer, r#""lease_ms":10000"#), ReplyBody::Done);
    // Somebody else's plan may not come between; after the lease it may.
    let ReplyBody::Error { message } = plan(&mut daemon.connect(), r#""lease_ms":1"#) else {
        panic!("two controllers")
    };
    assert!(message.contains("another controller has the lease"), "{message}");
    let traffic = Traffic::start(&bed, 7, 40);
    watch.send(r#"{"v":1,"command":"watch","every_us":5000,"load":true}"#);
    // `balanced` would have moved long before it has seen the table so often.
    let mut seen = 0;
    while seen < 400 {
        let now = watch.sample();
        seen += now.load.len();
        let left = now.lease_left_ms.expect("it is renewed in time");
        assert_eq!(on_1(&now), 0, "moved with {left} ms left");
        assert_eq!(plan(&mut steer, r#""lease_ms":5000"#), ReplyBody::Done);
    }
    assert_eq!(plan(&mut steer, r#""lease_ms":100"#), ReplyBody::Done);
    wait_for("the end of the lease", || match watch.sample().lease_left_ms {
        None => Ok(()),
        Some(left) => Err(format!("{left} ms")),
    });
    wait_for("the policy's own moves", || match on_1(&watch.sample()) {
        0 => Err("none".to_owned()),
        _ => Ok(()),
    });
    // A lease ends with its connection, however long it was.
    assert_eq!(plan(&mut steer, r#""lease_ms":60000"#), ReplyBody::Done);
    drop(steer);
    wait_for("the end of the dead controller's lease", || match watch.sample().lease_left_ms {
        None => Ok(()),
        Some(left) => Err(format!("{left} ms")),
    });
    traffic.end();
}

#[test]
fn moves_and_places_of_a_plan_are_seen_in_the_table_and_a_wrong_one_spoils_all_of_it() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let table = r#"{"v":1,"command":"steer_load","table":"groups 128\n0-126 0\n"}"#;
    assert_eq!(daemon.line(table), ReplyBody::Done);
    daemon.wait_until("the loaded table", |steer| steer.owned.contains(&(0, 127)));
    let mut operator = daemon.connect();
    let moves = r#""moves":[{"group":3,"from":0,"to":1},{"group":4,"from":0,"to":1}]"#;
    for wrong in [
        r#""moves":[{"group":5,"from":0,"to":1},{"group":6,"from":1,"to":0}]"#,
        r#""moves":[{"group":5,"from":0,"to":1},{"group":128,"from":0,"to":1}]"#,
        r#""moves":[{"group":5,"from":0,"to":9}]"#,
        r#""place":[{"group":5,"worker":1}]"#,
    ] {
        let body = plan(&mut operator, wrong);
        assert!(matches!(body, ReplyBody::Error { .. }), "{wrong}: {body:?}");
    }
    let done = plan(&mut operator, &format!(r#"{moves},"place":[{{"group":127,"worker":1}}]"#));
    assert_eq!(done, ReplyBody::Done);
    daemon.wait_until("the plan", |steer| steer.owned.contains(&(1, 3)));
    let owners = daemon.owners();
    for (group, owner) in [(3, 1), (4, 1), (127, 1), (5, 0), (6, 0)] {
        assert_eq!(owners[group], Some(owner), "group {group}");
    }
    // A pin beats a plan.
    let pin = r#"{"v":1,"command":"steer_pin","target":{"group":9},"worker":0}"#;
    assert_eq!(operator.line(pin), ReplyBody::Done);
    let body = plan(&mut operator, r#""moves":[{"group":9,"from":0,"to":1}]"#);
    assert!(matches!(&body, ReplyBody::Error { message } if message.contains('9')), "{body:?}");
}

#[test]
fn who_watches_sees_traffic_and_load_as_they_go_on() {
    let bed = bed();
    let daemon = Daemon::with_small_tables(bed.server(), "sticky");
    let traffic = Traffic::start(&bed, 7, 40);
    let mut watch = daemon.connect();
    watch.send(r#"{"v":1,"command":"watch","every_us":10000,"load":true}"#);
    let (mut last, mut load, mut all) = (0, 0, Vec::new());
    for _ in 0..50 {
        let now = watch.sample();
        assert!(now.now_ns > last, "time goes on");
        last = now.now_ns;
        let runs = now.load.iter().flat_map(|slice| &slice.runs);
        load += runs.map(|run| u64::from(run.0) * u64::from(run.1)).sum::<u64>();
        let lengths = now.load.iter().map(|slice| slice.runs.iter().map(|run| run.0).sum::<u32>());
        assert!(lengths.clone().all(|groups| groups >= 128), "the whole table is one slice");
        all.push(now.workers.iter().map(|worker| worker.packets).sum::<u64>());
    }
    assert!(all.is_sorted() && all[49] > all[0], "packets are counted up: {all:?}");
    assert!(load > 0, "the load of groups is seen");
    drop(watch);
    traffic.end();
}
