//! The machine keeps the contracts of the loops that it drives: what they were told and have
//! answered, run again without it, gives every answer again.

use policy::cores::record as cores_record;
use policy::record::{self, ReplayReport, Writer};

use super::*;

/// Cores that come and go, a batch job beside, and load that comes in waves.
fn waves(system: System) -> MachinePlan {
    let app = AppPlan {
        workers: 4,
        system,
        flows: 300,
        churn: 2000.0,
        service: Distribution::Bimodal1,
        service_mean: Nanos::from_micros(10),
        spin: Nanos::from_micros(5),
        rest_after: Nanos::from_micros(300),
        ..AppPlan::default()
    };
    let waves = [10_000.0, 250_000.0, 0.0, 100_000.0, 5_000.0, 200_000.0];
    let steps = waves.map(|rate| Step::new(Nanos::from_millis(20), [rate, 0.0]));
    MachinePlan {
        cores: 3,
        apps: vec![app, AppPlan::batch(3)],
        steps: steps.to_vec(),
        ..MachinePlan::default()
    }
}

/// Runs it with both loops recorded, and both again; what the steering did.
fn replayed(plan: MachinePlan) -> ReplayReport {
    let said = plan.apps[0].system.name().to_owned();
    let mut machine = Machine::new(plan, 3).expect("it is possible");
    let snapshot = machine.apps[0].steering.start_recording().expect("it has tables");
    let cores_snapshot = machine.cores.start_recording(2, 1 << 20);
    machine.run_all();

    let mut writer = Writer::begin(Vec::new(), &snapshot).expect("memory takes every line");
    let recorder = machine.apps[0].steering.stop_recording().expect("it was begun");
    let lost = recorder.lost();
    recorder.into_rest().for_each(|events| writer.write(&events).expect("as above"));
    let lines = writer.end(lost).expect("as above");
    let report = record::replay(&lines[..]).expect("it is a recording");
    assert!(report.is_same(), "{said}: {report}");

    let mut writer = Writer::begin(Vec::new(), &cores_snapshot).expect("as above");
    let recorder = machine.cores.stop_recording().expect("it was begun");
    let lost = recorder.lost();
    recorder.into_rest().for_each(|events| writer.write(&events).expect("as above"));
    let lines = writer.end(lost).expect("as above");
    let cores_report = cores_record::replay(&lines[..]).expect("it is a recording");
    assert!(cores_report.is_same(), "{said}: {cores_report}");
    report
}

#[test]
fn recorded_samples_of_a_machine_replay_to_the_same_plans() {
    for policy in ["sticky", "modulo", "balanced", "hybrid", "prefilled", "least_loaded"] {
        let report = replayed(waves(System::policy_over(policy, 256)));
        assert!(report.counts.tables > 0 && report.counts.placements > 0, "{policy}: {report:?}");
    }
}

#[test]
fn so_do_those_in_which_single_groups_are_moved_away_from_loaded_workers() {
    let app = AppPlan {
        flows: 2000,
        popularity: Popularity::Zipf { exponent: 0.9 },
        service: Distribution::Zero,
        ..exponential(4, System::policy_over("balanced", 512))
    };
    let report = replayed(plan(4, app, 200_000.0));
    assert!(report.counts.moves > 0, "{report:?}");
}
