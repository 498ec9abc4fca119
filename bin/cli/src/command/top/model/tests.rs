//! Looks that follow each other, and what the model makes of them.

use admin::{AppLimits, AppWorker, CoresStatus, PortStatus, Status, ThreadCounters, WorkerStatus};

use super::*;
use crate::command::cores;

fn counter(name: &str, value: u64) -> Counter {
    Counter { name: name.to_owned(), help: String::new(), value }
}

fn thread(name: &str, counters: Vec<Counter>) -> ThreadCounters {
    ThreadCounters { thread: name.to_owned(), counters }
}

fn status() -> Status {
    Status {
        pid: 42,
        version: "0.1.0".to_owned(),
        uptime_s: 10.0,
        arrangement: "threads".to_owned(),
        confinement: "whole".to_owned(),
        guardian: "well".to_owned(),
        ring_memory: None,
        descriptors: None,
        job: "echo".to_owned(),
        listen: Vec::new(),
        ports: vec![PortStatus {
            port: "xdp:eth1".to_owned(),
            mode: String::new(),
            mtu: 1500,
            trust_link: false,
            fault: None,
            counters: vec![counter("rx_packets", 900), counter("rx_invalid", 3)],
        }],
        workers_wanted: 1,
        workers_asked: 1,
        workers: vec![WorkerStatus {
            id: 0,
            state: "active".to_owned(),
            cpu: None,
            numa_node: None,
            groups: 128,
            queued: 7,
            packets: 500,
        }],
        policy: "sticky".to_owned(),
        groups: 128,
        frames: 64,
        frames_free: 60,
        numa_node: None,
        apps: 1,
        programs: 0,
        draining_ms: None,
    }
}

fn attached_app(id: u32, name: &str, packets: u64) -> AppStatus {
    let worker = |id| AppWorker {
        id,
        state: "active".to_owned(),
        queued: 2,
        groups: 64,
        packets,
        asleep: false,
    };
    AppStatus {
        name: name.to_owned(),
        id,
        pid: 1,
        uid: 0,
        state: "attached".to_owned(),
        reason: None,
        listen: Vec::new(),
        workers: vec![worker(0), worker(1)],
        region_bytes: 0,
        frames: 0,
        frames_with_app: 0,
        limits: AppLimits::default(),
        served: None,
        counters: Vec::new(),
    }
}

/// The first look.
fn look() -> Look {
    let counters = vec![
        counter("rx_packets", 1000),
        counter("tx_packets", 800),
        counter("drop_ring_full", 5),
        counter("steps", 1_000_000),
        counter("idle_steps", 900_000),
    ];
    Look {
        at: Nanos::from_secs(1),
        status: status(),
        threads: vec![thread("dispatcher", counters), thread("app web (3)", Vec::new())],
        apps: vec![attached_app(3, "web", 100)],
        cores: CoresStatus::default(),
    }
}

/// The same daemon two seconds later.
fn later() -> Look {
    let mut look = look();
    look.at = Nanos::from_secs(3);
    look.status.uptime_s = 12.0;
    look.status.workers[0].packets = 1500;
    look.threads[0].counters = vec![
        counter("rx_packets", 5000),
        counter("tx_packets", 2800),
        counter("drop_ring_full", 25),
        counter("steps", 1_100_000),
        counter("idle_steps", 975_000),
    ];
    look.apps = vec![attached_app(3, "web", 1100)];
    look
}

fn taken(looks: impl IntoIterator<Item = Look>) -> View {
    let mut model = Model::default();
    looks.into_iter().map(|look| model.take(look)).last().expect("there are looks")
}

#[test]
fn rates_are_differences_over_the_time_between_two_looks() {
    let view = taken([look(), later()]);
    assert_eq!((view.seconds, view.restarts), (2.0, 0));
    assert_eq!((view.received_per_s, view.sent_per_s), (Some(2000.0), Some(1000.0)));
    assert_eq!(view.apps[0].packets_per_s, Some(500.0), "the daemon's own");
    assert_eq!(view.apps[1].packets_per_s, Some(1000.0), "two workers of web");
    assert_eq!((view.apps[0].queued, view.apps[1].queued), (7, 4));
    let dispatcher = &view.threads[0];
    assert_eq!(dispatcher.turns_per_s, Some(50_000.0));
    assert_eq!((dispatcher.spin_share, dispatcher.waiting), (Some(0.75), Some("polls")));
    assert_eq!(view.threads.len(), 1, "an application's counters are no loop of ours");
    let latest: Vec<f64> = view.received_history.latest(9).collect();
    assert_eq!(latest, [2000.0], "the first look has no rate");
}

#[test]
fn of_one_look_alone_no_rate_is_known() {
    let view = taken([look()]);
    assert_eq!((view.received_per_s, view.apps[1].packets_per_s), (None, None));
    assert_eq!((view.threads[0].waiting, view.losses.len()), (None, 0));
    assert_eq!(view.received_history, History::default());
}

#[test]
fn a_daemon_that_was_started_again_has_no_rates_but_is_counted() {
    let mut again = later();
    again.status.pid = 43;
    let view = taken([look(), again.clone()]);
    assert_eq!((view.restarts, view.received_per_s, view.losses.len()), (1, None, 0));
    let mut same_pid = later();
    same_pid.status.uptime_s = 0.1;
    let view = taken([look(), same_pid]);
    assert_eq!((view.restarts, view.received_per_s), (1, None));
    let mut next = again.clone();
    next.at = Nanos::from_secs(5);
    assert_eq!(taken([look(), again, next]).received_per_s, Some(0.0), "then they are known");
}

#[test]
fn a_counter_that_goes_back_has_no_rate_and_the_others_have() {
    let mut odd = later();
    odd.threads[0].counters[0].value = 7;
    odd.threads[0].counters[2].value = 0;
    let view = taken([look(), odd]);
    assert_eq!((view.received_per_s, view.sent_per_s), (None, Some(1000.0)));
    assert!(view.losses.is_empty(), "{:?}", view.losses);
}

#[test]
fn losses_are_those_of_the_last_interval_the_most_first_with_whose_they_are() {
    let mut lossy = later();
    lossy.status.ports[0].counters[1].value = 4;
    // `stats` leaves an application's zeros out, so this one has just begun.
    lossy.threads[1].counters = vec![counter("drop_spoofed", 90), counter("app_sent", 9)];
    lossy.cores.counters = vec![counter("ran_while_parked", 1), counter("drains", 5)];
    let view = taken([look(), lossy]);
    let losses: Vec<_> = view
        .losses
        .iter()
        .map(|loss| (loss.place.as_str(), loss.name.as_str(), loss.per_s, loss.total))
        .collect();
    assert_eq!(
        losses,
        [
            ("app web (3)", "drop_spoofed", 45.0, 90),
            ("dispatcher", "drop_ring_full", 10.0, 25),
            ("xdp:eth1", "rx_invalid", 0.5, 4),
            ("cores", "ran_while_parked", 0.5, 1),
        ]
    );
}

#[test]
fn who_takes_part_in_the_cores_has_them_and_their_rates() {
    let (mut before, mut after) = (look(), later());
    before.cores = cores::tests::status();
    after.cores = cores::tests::status();
    after.cores.grants += 10;
    after.cores.apps[0].parks += 4;
    let view = taken([before, after]);
    let cores = view.cores.expect("they are given out");
    assert_eq!((cores.used, cores.grants_per_s, cores.takes_per_s), (2, Some(5.0), Some(0.0)));
    assert_eq!(cores.rows[1].next.as_deref(), Some("web"), "by name, not by number");
    let web = view.apps[1].cores.as_ref().expect("it takes part");
    assert_eq!((web.held, web.parks_per_s, web.grants_per_s), (1, Some(2.0), Some(0.0)));
    assert_eq!(view.apps[0].cores, None, "the daemon itself does not");
    assert_eq!(view.cores_history.latest(9).count(), 2);
    assert_eq!(taken([look(), later()]).cores, None, "and without cores nobody does");
}

#[test]
fn what_an_application_does_is_said_in_a_word() {
    let state = |change: &dyn Fn(&mut Look)| {
        let (mut before, mut after) = (look(), later());
        before.cores = cores::tests::status();
        after.cores = cores::tests::status();
        change(&mut after);
        taken([before, after]).apps[1].state.clone()
    };
    let sleep = |look: &mut Look| look.apps[0].workers.iter_mut().for_each(|w| w.asleep = true);
    assert_eq!(state(&|_| {}), "runs");
    assert_eq!(state(&|look| look.cores.apps[0].asked += 1), "wants more");
    assert_eq!(state(&|look| look.cores.apps[0].held = 0), "parked");
    assert_eq!(state(&sleep), "asleep");
    assert_eq!(state(&|look| look.apps[0].state = "leaving".to_owned()), "leaving");
}

#[test]
fn a_loop_is_busy_or_polls_or_sleeps() {
    assert_eq!(waiting(30_000.0, Some(0.1)), "busy");
    assert_eq!(waiting(900_000.0, Some(0.99)), "polls");
    assert_eq!(waiting(1_000.0, Some(0.6)), "sleeps");
    assert_eq!(waiting(0.0, None), "sleeps");
}

#[test]
fn who_is_gone_is_not_shown() {
    let mut after = later();
    after.apps[0].state = "gone".to_owned();
    after.apps.push(attached_app(2, "earlier", 1));
    let view = taken([look(), after]);
    let names: Vec<&str> = view.apps.iter().map(|app| app.name.as_str()).collect();
    assert_eq!(names, ["calistod", "earlier"]);
    assert_eq!(view.apps[1].packets_per_s, Some(1.0), "it has come since the last look");
}

#[test]
fn names_are_made_fit_for_a_terminal() {
    let mut hostile = later();
    hostile.apps[0].name = "\u{1b}[2Jx".to_owned();
    hostile.apps[0].state = "\u{7}".to_owned();
    hostile.status.policy = "\u{202e}evil".to_owned();
    hostile.threads[0].counters[2].name = format!("drop_\u{9b}{}", "x".repeat(1000));
    let view = taken([look(), hostile]);
    let all = [&view.apps[1].name, &view.apps[1].state, &view.policy, &view.losses[0].name];
    for text in all {
        assert!(!text.contains(char::is_control) && !text.contains('\u{202e}'), "{text}");
        assert!(text.chars().count() <= NAME_CHARS_MAX + 10, "{text}");
    }
}

#[test]
fn a_view_is_a_line_of_json_with_its_version_and_null_for_what_is_not_known() {
    let line = serde_json::to_value(taken([look()])).expect("plain data");
    assert_eq!(line["schema_version"], 1);
    assert!(line["received_per_s"].is_null() && line["cores"].is_null());
    assert!(line.get("received_history").is_none());
    let line = serde_json::to_value(taken([look(), later()])).expect("plain data");
    assert_eq!(line["received_per_s"], 2000.0);
    assert_eq!(line["apps"][1]["name"], "web");
}
