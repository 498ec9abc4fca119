//! The simulator's word on the demo's first act, and a live daemon's: the same flows move.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use base::Nanos;
use netsim::demo::{DemoAct, DemoOutcome, DemoPlan};
use testbed::Testbed;
use whole::{Daemon, bed, binary};
use wire::{FlowKey, Protocol, Toeplitz};

const FLOWS: u16 = 1000;
const WORKERS: u16 = 4;
const GROUPS: u32 = 65_536;
const SEED: u64 = 7;
/// The load generator's first port: its flows have this and the next ones.
const FIRST_PORT: u16 = 10_000;

/// The flows of the load, in the order in which round-robin sends their first packets.
fn flows(bed: &Testbed) -> Vec<(SocketAddr, SocketAddr)> {
    let (client, server) = (bed.client().ipv4(), bed.server().ipv4());
    let flow = |number| ((client, FIRST_PORT + number).into(), (server, 7).into());
    (0..FLOWS).map(flow).collect()
}

/// `calisto load udp` from the client's side.
fn load(bed: &Testbed, more: &str) -> Command {
    let mut command = bed.client().command(binary("calisto"));
    let line = format!(
        "--json load udp {}:7 --flows {FLOWS} --source-port {FIRST_PORT} --iterations 100 {more}",
        bed.server().ipv4()
    );
    command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// What a load has found out.
fn report(output: &[u8]) -> serde_json::Value {
    let text = String::from_utf8_lossy(output);
    serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a report")
}

/// Who owns each flow's group now.
fn owners(daemon: &Daemon, flows: &[(SocketAddr, SocketAddr)]) -> Vec<Option<u16>> {
    let groups = daemon.owners();
    let toeplitz = Toeplitz::new(Toeplitz::key_from_seed(SEED));
    let owner = |&(client, server): &(SocketAddr, SocketAddr)| {
        let key = FlowKey::new(Protocol::Udp, client, server).expect("both are IPv4");
        groups[(toeplitz.hash(&key).0 & (GROUPS - 1)) as usize]
    };
    flows.iter().map(owner).collect()
}

fn await_workers(daemon: &Daemon, workers: u16) {
    daemon.wait_until("the workers", |steer| steer.owned.len() == usize::from(workers));
}

/// A policy live: who owned each flow with four workers, with five, with four again; and the p50.
fn live(bed: &Testbed, daemon: &Daemon) -> ([Vec<Option<u16>>; 3], f64) {
    let flows = flows(bed);
    // Every flow is heard of before anything changes, one after the other: that takes what it
    // takes.
    let all_were_heard = [2, 8, 32].into_iter().any(|seconds| {
        let words = format!("--outstanding 1 --flow-order round-robin --seconds {seconds}");
        let first = report(&load(bed, &words).output().expect("it runs").stdout);
        first["received"].as_u64() >= Some(u64::from(FLOWS))
    });
    assert!(all_were_heard, "in half a minute not all flows were heard of");
    let running = load(bed, "--rate 20k --arrival poisson --seconds 3").spawn();
    let running = running.expect("it runs");
    let mut stages = Vec::new();
    for workers in [WORKERS, WORKERS + 1, WORKERS] {
        daemon.must(admin::Command::Workers { count: workers });
        await_workers(daemon, workers);
        stages.push(owners(daemon, &flows));
        std::thread::sleep(Duration::from_millis(700));
    }
    let output = running.wait_with_output().expect("it is our child");
    // Where half of all were lost there is none.
    let p50_us = report(&output.stdout)["latency"]["p50_us"].as_f64().unwrap_or(f64::INFINITY);
    (stages.try_into().expect("three stages"), p50_us)
}

#[test]
fn the_flows_that_move_in_a_live_daemon_are_the_predicted_ones() {
    let bed = bed();
    let policies = ["modulo", "sticky"];
    let act = |policy: &&str| DemoAct { policy: (*policy).to_owned(), flows: flows(&bed) };
    let plan = DemoPlan {
        acts: policies.iter().map(act).collect(),
        groups: GROUPS,
        seed: SEED,
        workers: WORKERS,
        length: Nanos::from_secs(3),
        ..DemoPlan::default()
    };
    let predicted = netsim::demo::run(&plan).expect("the plan makes sense");
    let config = format!(
        "ports = [\"xdp:veth0\"]\nlisten = [\"udp:{}:7\"]\n[workers]\ncount = {WORKERS}\n\
         job = \"synthetic\"\narrangement = \"threads\"\n[steer]\npolicy = \"modulo\"\n\
         seed = {SEED}\n[handover]\ndeadline_ms = 200\n",
        bed.server().ipv4()
    );
    let daemon = Daemon::start(bed.server(), &config);
    for (number, (policy, predicted)) in policies.iter().zip(predicted).enumerate() {
        let DemoOutcome { moves, latency, .. } = predicted;
        if number > 0 {
            daemon.must(admin::Command::SteerSet { policy: (*policy).to_owned() });
            await_workers(&daemon, WORKERS);
        }
        let (stages, p50_us) = live(&bed, &daemon);
        for (stage, (live, predicted)) in stages.iter().zip(&moves.owners).enumerate() {
            assert_eq!(live, predicted, "{policy}: the owners at stage {stage}");
        }
        assert!(moves.up() > 0 && moves.down() > 0, "{policy}: something moves");
        // How long requests take depends on the machine, so it is only said.
        println!(
            "{policy}: {} and {} of {FLOWS} flows moved, as predicted; p50 {p50_us:.0} us live, {:.0} us \
             from the costs of docs/figures",
            moves.up(),
            moves.down(),
            latency.p50.as_micros_f64()
        );
        let [least, most] = [&plan.costs.awake, &plan.costs.both_asleep];
        assert!((least.median().median..=most.median().median).contains(&latency.p50));
    }
}
