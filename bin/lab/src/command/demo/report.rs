//! What the demo's acts have shown: tables for people, lines of JSON for programs.

use cli::failure::Failure;
use cli::output;
use cli::table::{Cell, Table, grouped};
use serde::Serialize;

use super::Demo;
use super::act::Act;
use super::cores_act::{CoresAct, Idle, Step};
use super::placement::Placement;
use super::stage::Stage;

/// One policy, for a script.
#[derive(Serialize)]
struct SteerRow<'a> {
    act: &'static str,
    port: &'a str,
    #[serde(flatten)]
    figures: &'a Act,
}

/// One step of load, for a script.
#[derive(Serialize)]
struct StepRow<'a> {
    act: &'static str,
    port: &'a str,
    #[serde(flatten)]
    step: &'a Step,
}

/// The end of the second act, for a script.
#[derive(Serialize)]
struct IdleRow<'a> {
    act: &'static str,
    #[serde(flatten)]
    idle: &'a Idle,
}

/// Prints the first act, a line for each policy.
pub(super) fn steer_rows(acts: &[Act], port: &str) -> Result<(), Failure> {
    let row = |figures| SteerRow { act: "steer", port, figures };
    acts.iter().try_for_each(|figures| output::json(&row(figures)))
}

/// Prints the second act, a line for each step and one for the idle time after them.
pub(super) fn cores_rows(CoresAct { steps, idle, port }: &CoresAct) -> Result<(), Failure> {
    let row = |step| StepRow { act: "cores", port, step };
    steps.iter().try_for_each(|step| output::json(&row(step)))?;
    output::json(&IdleRow { act: "idle", idle })
}

/// The first act, for a person.
pub(super) fn steer(demo: &Demo, acts: &[Act], port: &str, placement: &Placement) -> String {
    let Demo { workers, rate, flows, arrangement, .. } = demo;
    let more = workers + 1;
    let moved = |from: u16, to: u16| format!("moved {from} -> {to}");
    let (up, down) = (moved(*workers, more), moved(more, *workers));
    let mut table = Table::new([
        "policy",
        &up,
        &down,
        "reordered",
        "lost",
        "max/mean load",
        "p50 (us)",
        "p95 (us)",
    ]);
    for act in acts {
        table.row([
            act.policy.as_str().into(),
            Cell::decimal(100.0 * act.moved_up, 1, " %"),
            Cell::decimal(100.0 * act.moved_down, 1, " %"),
            act.load.reordered.into(),
            act.load.lost.into(),
            Cell::decimal(act.max_to_mean, 2, ""),
            Cell::decimal(act.load.p50_us, 0, ""),
            Cell::decimal(act.load.p95_us, 0, ""),
        ]);
    }
    let sampled = acts.iter().map(|act| act.flows_sampled).min().unwrap_or(0);
    let sent = acts.iter().map(|act| act.load.sent).min().unwrap_or(0);
    format!(
        "\n{}\n\
         moved: share of flows whose worker changed, of at least {} flows that the daemon sampled\n\
         reordered, lost: replies, as the load generator counted them; at least {} requests each\n\
         load: packets of each worker, the worst of the three spans between changes\n\
         latency: from the intended send time; open loop, Poisson, {} requests/s of {} flows, \
         Linux UDP sockets\n\
         port {port}, job synthetic, arrangement {arrangement}, {}\n",
        table.render(),
        grouped(sampled as u64),
        grouped(sent),
        grouped(u64::from(*rate)),
        grouped(u64::from(*flows)),
        placement.sentence(),
    )
}

/// The second act, for a person.
pub(super) fn cores(CoresAct { steps, idle, port }: &CoresAct, stage: &Stage) -> String {
    let mut table = Table::new([
        "requests/s",
        "batch job",
        "replies/s",
        "p50 (us)",
        "p95 (us)",
        "cores held",
        "grants/s",
        "parks/s",
        "app CPU",
        "batch CPU",
        "of the rest",
        "others",
    ]);
    for step in steps {
        let share = |share: f64| Cell::decimal(100.0 * share, 1, " %");
        let of_batch = |of: f64| share(if step.batch { of } else { f64::NAN });
        table.row([
            step.rate.into(),
            if step.batch { "runs" } else { "none" }.into(),
            Cell::decimal(step.replies_per_s, 0, ""),
            Cell::decimal(step.load.p50_us, 0, ""),
            Cell::decimal(step.load.p95_us, 0, ""),
            Cell::decimal(step.app_cores, 2, ""),
            Cell::decimal(step.grants_per_s, 0, ""),
            Cell::decimal(step.parks_per_s, 0, ""),
            share(step.app_cpu),
            of_batch(step.batch_cpu),
            of_batch(step.batch_of_rest),
            share(step.others_cpu.unwrap_or(f64::NAN)),
        ]);
    }
    let lost: u64 = steps.iter().map(|step| step.load.lost).sum();
    format!(
        "\n{}\n\
         {}\n\
         cores held, grants, parks: the application's, as the daemon says; held: mean of 20 looks a second\n\
         CPU: CPU time over time; of the rest: the batch job's, of what the application left of the cores\n\
         others: who else ran on those cores (other programs, the kernel, the hypervisor); the batch job \
         is SCHED_IDLE, so they go first\n\
         latency: from the intended send time; open loop, Poisson, Linux UDP sockets, some 20 us of work \
         a request; {} lost\n\
         port {port}, {}; the batch job is `calisto run --batch`\n",
        table.render(),
        idle.sentence(),
        grouped(lost),
        stage.sentence(),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::load_process::LoadFigures;
    use super::*;
    use crate::args::Cli;
    use crate::command::Command;

    fn demo() -> Demo {
        let cli = Cli::try_parse_from(["calisto", "demo"]).expect("no option is needed");
        let Command::Demo(demo) = cli.command else { panic!("{:?}", cli.command) };
        demo
    }

    fn act(policy: &str) -> Act {
        Act {
            policy: policy.to_owned(),
            moved_up: 0.8,
            moved_down: f64::NAN,
            flows_sampled: 1024,
            max_to_mean: 1.025,
            load: LoadFigures {
                sent: 160_000,
                lost: 0,
                reordered: 1234,
                p50_us: 61.4,
                p95_us: 140.0,
            },
        }
    }

    #[test]
    fn the_table_has_a_line_for_each_policy_and_says_what_it_is_made_of() {
        let text =
            steer(&demo(), &[act("modulo"), act("sticky")], "xdp:veth0", &Placement::of(&[0, 1]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "policy  moved 4 -> 5  moved 5 -> 4  reordered  lost  max/mean load  p50 (us)  p95 (us)"
        );
        assert_eq!(
            lines[2],
            "modulo        80.0 %             -      1,234     0           1.02        61       140"
        );
        for part in [
            "at least 1,024 flows",
            "at least 160,000 requests",
            "20,000 requests/s of 4,000 flows",
            "port xdp:veth0, job synthetic, arrangement threads, client on CPU 0",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_row_for_a_script_has_every_figure_at_the_top() {
        let act = act("modulo");
        let row = serde_json::to_value(SteerRow { act: "steer", port: "xdp:veth0", figures: &act })
            .expect("plain values");
        assert_eq!((&row["policy"], &row["reordered"]), (&"modulo".into(), &1234.into()));
        assert_eq!((&row["moved_up"], &row["port"]), (&0.8.into(), &"xdp:veth0".into()));
    }

    fn step(batch: bool) -> Step {
        Step {
            rate: 10_000,
            batch,
            replies_per_s: 9_987.5,
            load: act("none").load,
            app_cores: 0.256,
            grants_per_s: 8_123.4,
            parks_per_s: 8_120.0,
            app_cpu: 0.25,
            batch_cpu: if batch { 0.6 } else { 0.0 },
            batch_of_rest: if batch { 0.8 } else { 0.0 },
            others_cpu: Some(0.05),
        }
    }

    #[test]
    fn the_second_table_has_a_line_for_each_step_and_says_who_shares_what() {
        let idle = Idle { cores: 1, cores_idle: 1, daemon_cpu: 0.0042 };
        let steps = vec![step(false), step(true)];
        let act = CoresAct { steps, idle, port: "xdp:veth0".to_owned() };
        let text = cores(&act, &Stage::of(&[0, 1]));
        let lines: Vec<&str> = text.lines().collect();
        let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
        assert_eq!(words(2)[1..3], ["none", "9988"]);
        assert_eq!(words(2)[8..], ["25.0", "%", "-", "-", "5.0", "%"], "there was no batch job");
        assert_eq!(words(3)[10..], ["60.0", "%", "80.0", "%", "5.0", "%"]);
        for part in [
            "1 of 1 cores held by nobody; the daemon used 0.42 % of a CPU",
            "client and daemon share CPU 0; given out: CPU 1",
            "0 lost",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
