//! Workers, policies and tables change under load: no reply is lost, reordered or harmed.

use admin::{Command, CoresStatus, ReplyBody, Target};
use testbed::Testbed;
use whole::{Daemon, Flows, bed, wait_for};

const FLOWS: usize = 300;

fn start(bed: &Testbed, more: &str) -> Daemon {
    let config = format!("ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n{more}");
    Daemon::start(bed.server(), &config)
}

/// Traffic while `change` is carried out from outside; every reply must come, in order.
fn under_load(bed: &Testbed, change: impl FnOnce() + Send) {
    let flows = bed.client().enter(|| {
        let local = "10.77.0.1:0".parse().expect("an address");
        let mut flows = Flows::new(FLOWS, local, "10.77.0.2:7".parse().expect("an address"));
        flows.run(5, 1);
        std::thread::scope(|scope| {
            let changes = scope.spawn(change);
            while !changes.is_finished() {
                flows.run(1, 1);
            }
            changes.join().expect("the change is carried out");
        });
        flows.run(5, 1);
        flows
    });
    flows.expect("the client's namespace is there").assert_perfect();
}

fn moved(before: &[Option<u16>], after: &[Option<u16>]) -> f64 {
    let owned = before.iter().zip(after).filter(|(before, _)| before.is_some());
    let all = owned.clone().count();
    owned.filter(|(before, after)| before != after).count() as f64 / all as f64
}

#[test]
fn workers_come_and_go_under_load_and_no_reply_is_lost_or_out_of_order() {
    for arrangement in ["fused", "threads"] {
        for policy in
            ["modulo", "sticky", "calisto", "hybrid", "prefilled", "balanced", "least_loaded"]
        {
            let bed = bed();
            let more = format!(
                "[workers]\ncount = 4\narrangement = {arrangement:?}\n[steer]\npolicy = {policy:?}\n\
                 [handover]\ndeadline_ms = 200\n"
            );
            let daemon = start(&bed, &more);
            under_load(&bed, || {
                for count in [5, 4, 2, 6, 4] {
                    daemon.must(Command::Workers { count });
                    let is_there = |n: usize| n == usize::from(count);
                    daemon.wait_until("the workers", |steer| is_there(steer.owned.len()));
                }
            });
            for counter in ["drop_hold_overflow", "drop_ring_full", "flow_in_two_workers"] {
                assert_eq!(daemon.counter(counter), 0, "{arrangement} {policy} {counter}");
            }
            assert!(daemon.counter("epochs_finished") > 0, "{policy}");
        }
    }
}

#[test]
fn one_worker_more_moves_four_fifths_under_modulo_and_one_fifth_under_sticky() {
    for (policy, least, most) in [("modulo", 0.7, 0.9), ("sticky", 0.15, 0.25)] {
        let bed = bed();
        let more = format!("[workers]\ncount = 4\n[steer]\npolicy = {policy:?}\n");
        let daemon = start(&bed, &more);
        under_load(&bed, || ());
        daemon.wait_until("rest", |steer| steer.owned.len() == 4);
        let before = daemon.owners();
        daemon.must(Command::Workers { count: 5 });
        daemon.wait_until("five workers with groups", |steer| {
            steer.owned.len() == 5 && steer.owned.iter().all(|(_, groups)| *groups > 0)
        });
        let share = moved(&before, &daemon.owners());
        assert!((least..most).contains(&share), "{policy}: {share}");
    }
}

/// Workers with groups.
fn spread(owned: &[(u16, u32)]) -> usize {
    owned.iter().filter(|(_, groups)| *groups > 0).count()
}

fn cores(daemon: &Daemon) -> CoresStatus {
    let ReplyBody::Cores(cores) = daemon.ask(Command::Cores) else { panic!("it has cores") };
    cores
}

#[test]
fn a_change_to_packing_under_load_loses_and_reorders_nothing() {
    let bed = bed();
    let more = "[workers]\ncount = 2\narrangement = \"threads\"\n[cores]\nset = [0, 1]\n\
                policy = \"queue_delay\"\n";
    let daemon = start(&bed, more);
    // Shenango's rule gives both workers flows, and each wakes for its own.
    under_load(&bed, || {
        daemon.wait_until("two workers with groups", |steer| spread(&steer.owned) == 2);
    });
    // Whether one is enough for them depends on what else these CPUs do.
    under_load(&bed, || {
        daemon.must(Command::CoresSet { policy: "packing".to_owned() });
        let before = cores(&daemon).ticks;
        wait_for("a thousand decisions of packing", || {
            let now = cores(&daemon);
            assert_eq!(now.policy, "packing");
            (now.ticks > before + 1000).then_some(()).ok_or_else(|| format!("{now:?}"))
        });
    });
    for counter in ["drop_hold_overflow", "drop_ring_full", "flow_in_two_workers"] {
        assert_eq!(daemon.counter(counter), 0, "{counter}");
    }
}

#[test]
fn without_a_word_about_it_packing_gives_out_the_cores_of_workers_without_sockets() {
    let bed = bed();
    let more = "[workers]\ncount = 2\narrangement = \"threads\"\n[cores]\nset = [0, 1]\n";
    let daemon = start(&bed, more);
    assert_eq!(cores(&daemon).policy, "packing");
}

#[test]
fn the_policy_changes_live() {
    let bed = bed();
    let daemon = start(
        &bed,
        "[workers]\ncount = 4\narrangement = \"threads\"\n[handover]\ndeadline_ms = 200\n",
    );
    under_load(&bed, || {
        for policy in ["modulo", "sticky", "balanced", "modulo", "calisto", "sticky"] {
            daemon.must(Command::SteerSet { policy: policy.to_owned() });
            daemon.wait_until("the policy", |steer| steer.policy == policy);
        }
    });
    let refused = daemon.ask(Command::SteerSet { policy: "stiky".to_owned() });
    let ReplyBody::Error { message } = refused else { panic!("{refused:?}") };
    assert!(message.contains("stiky") && message.contains("sticky"), "{message}");
}

#[test]
fn a_table_is_exported_edited_loaded_and_pinned() {
    let bed = bed();
    let more = "[workers]\ncount = 3\n[steer]\ngroups = 128\n[handover]\ndeadline_ms = 200\n";
    let daemon = start(&bed, more);
    under_load(&bed, || {
        let all_on_two = "groups 128\n0-127 2\n".to_owned();
        daemon.must(Command::SteerLoad { table: all_on_two });
        daemon.wait_until("the loaded table", |steer| steer.owned.contains(&(2, 128)));
        daemon.must(Command::SteerPin { target: Target::Group(5), worker: 0 });
        daemon.wait_until("the pin", |steer| steer.owned.contains(&(0, 1)));
    });
    assert_eq!(daemon.owners()[5], Some(0));
    daemon.must(Command::SteerSet { policy: "modulo".to_owned() });
    daemon.wait_until("modulo", |steer| {
        steer.policy == "modulo" && steer.owned.iter().all(|o| o.1 > 1)
    });
    assert_eq!(daemon.owners()[5], Some(0), "a pin beats the policy");
    for (table, sentence) in [
        ("groups 64\n", "power of two"),
        ("groups 256\n", "groups = 256"),
        ("groups 128\n0-127 9\n", "worker 9 is not active"),
    ] {
        let refused = daemon.ask(Command::SteerLoad { table: table.to_owned() });
        let ReplyBody::Error { message } = refused else { panic!("{table}: {refused:?}") };
        assert!(message.contains(sentence), "{message}");
    }
}

#[test]
fn a_single_flow_is_pinned_apart_from_its_group_and_let_go_again() {
    let bed = bed();
    let daemon =
        start(&bed, "[workers]\ncount = 2\n[steer]\ngroups = 128\n[handover]\ndeadline_ms = 200\n");
    let traffic = bed.client().enter(|| {
        let local = "10.77.0.1:5555".parse().expect("an address");
        let mut flows = Flows::new(1, local, "10.77.0.2:7".parse().expect("an address"));
        flows.run(20, 1);
        let flow = Target::Flow("udp 10.77.0.1:5555 -> 10.77.0.2:7".to_owned());
        let at = |worker: u16| {
            let ReplyBody::Status(status) = daemon.ask(Command::Status) else {
                panic!("no status")
            };
            status.workers.iter().find(|w| w.id == worker).expect("it is there").packets
        };
        for worker in [0, 1, 0] {
            daemon.must(Command::SteerPin { target: flow.clone(), worker });
            daemon.wait_until("the pin", |steer| steer.pinned_flows == 1);
            flows.run(5, 1);
            // The move itself takes a tick or two; after it, every packet is the worker's.
            std::thread::sleep(std::time::Duration::from_millis(50));
            flows.run(5, 1);
            let before = at(worker);
            flows.run(10, 1);
            assert_eq!(at(worker) - before, 10, "worker {worker}");
        }
        daemon.must(Command::SteerUnpin { target: flow });
        daemon.wait_until("the end of the pin", |steer| steer.pinned_flows == 0);
        flows.run(5, 1);
        flows
    });
    traffic.expect("the client's namespace is there").assert_perfect();
}

#[test]
fn the_heaviest_flow_is_listed_first() {
    let bed = bed();
    let daemon = start(&bed, "");
    let traffic = bed.client().enter(|| {
        let server = "10.77.0.2:7".parse().expect("an address");
        let mut light = Flows::new(20, "10.77.0.1:0".parse().expect("an address"), server);
        let mut heavy = Flows::new(1, "10.77.0.1:6666".parse().expect("an address"), server);
        for _ in 0..20 {
            light.run(2, 1);
            heavy.run(100, 1);
        }
    });
    traffic.expect("the client's namespace is there");
    let ReplyBody::Flows { flows } = daemon.ask(Command::Flows { count: 3 }) else {
        panic!("flows are not listed")
    };
    assert_eq!(flows[0].flow, "udp 10.77.0.1:6666 -> 10.77.0.2:7");
    assert!(flows[0].packets > 1000 && flows[0].packets < 3500, "{:?}", flows[0]);
}
