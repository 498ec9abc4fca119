//! `calisto demo`: shows what keeping flows on their cores is worth; no NIC, no configuration.

mod act;
mod load_process;
mod ownership;
mod placement;
mod server;

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use testbed::{Testbed, TestbedConfig};

use self::act::Act;
use self::placement::Placement;
use self::server::Server;
use crate::failure::Failure;
use crate::output;
use crate::table::{Cell, Table, grouped};

/// Show what keeping flows on their cores is worth; needs root, but no NIC and no configuration.
///
/// Two network namespaces are joined by a veth. In the one the daemon serves on AF_XDP, in the
/// other the Linux kernel sends open-loop requests of thousands of flows. Meanwhile a worker comes
/// and goes, first under the policy `modulo`, then, switched live, under `sticky`. Nothing is left
/// behind.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    calisto demo\n  \
    calisto demo --policies modulo,calisto,sticky --workers 8 --flows 10000\n  \
    calisto demo --port af_packet -j")]
pub(crate) struct Demo {
    /// Requests a second.
    #[arg(long, default_value_t = 20_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    rate: u32,
    /// Flows that send them.
    #[arg(long, default_value_t = 4000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    flows: u32,
    /// Workers; one more comes and goes during the load.
    #[arg(long, default_value_t = 4, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=63))]
    workers: u16,
    /// Policies to show, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "modulo,sticky", value_name = "NAMES")]
    policies: Vec<String>,
    /// Seconds of load for each policy.
    #[arg(long, default_value_t = 8, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(4..=600))]
    seconds: u32,
    /// fused: one loop does everything; threads: dispatcher and workers have one each.
    #[arg(long, default_value = "threads")]
    #[arg(value_parser = ["fused", "threads"])]
    arrangement: String,
    /// How the daemon gets its packets: xdp, af_packet, or auto (xdp unless it is refused).
    #[arg(long, default_value = "auto")]
    #[arg(value_parser = ["auto", "xdp", "af_packet"])]
    port: String,
}

impl Demo {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        // Before anything is made: a slip should cost no time.
        for policy in &self.policies {
            let nothing = policy::steer::SteerConfig { groups: 0, seed: 0 };
            policy::steer::by_name(policy, nothing).map_err(Failure::usage)?;
        }
        testbed::on_interrupt().map_err(Failure::new)?;
        let tell = Progress::new();
        let placement = Placement::of(&sys::thread::allowed_cpus());
        tell.say("making two namespaces and a wire between them");
        let bed = Testbed::new(TestbedConfig::default()).map_err(Failure::new)?;
        check_stop()?;
        let mut server = Server::start(self, &bed, &placement, &tell)?;
        tell.say(&format!(
            "the daemon serves on {}, {} workers, {}",
            server.port(),
            self.workers,
            placement.sentence()
        ));
        let mut acts = Vec::new();
        for policy in &self.policies {
            acts.push(act::play(self, policy, &bed, &mut server, &placement, &tell)?);
        }
        let port = server.stop()?;
        drop(bed);
        if json {
            acts.iter().try_for_each(|act| output::json(&Row { port: &port, act }))
        } else {
            output::text(&self.report(&acts, &port, &placement))
        }
    }

    fn report(&self, acts: &[Act], port: &str, placement: &Placement) -> String {
        let Self { workers, rate, .. } = self;
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
             port {port}, job synthetic, arrangement {}, {}\n",
            table.render(),
            grouped(sampled as u64),
            grouped(sent),
            grouped(u64::from(*rate)),
            grouped(u64::from(self.flows)),
            self.arrangement,
            placement.sentence(),
        )
    }
}

/// One policy, for a script.
#[derive(Serialize)]
struct Row<'a> {
    port: &'a str,
    #[serde(flatten)]
    act: &'a Act,
}

/// Says what is going on, on standard error: the table alone is the result.
pub(crate) struct Progress {
    begun: Instant,
}

impl Progress {
    fn new() -> Self {
        Self { begun: Instant::now() }
    }

    fn say(&self, what: &str) {
        // Progress that cannot be shown is not worth an error.
        let _ = writeln!(std::io::stderr(), "{:5.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }
}

/// An error once Ctrl-C has been pressed; whoever gets it returns, and destructors clean up.
fn check_stop() -> Result<(), Failure> {
    if sys::signal::stop_requested() {
        Err(Failure::new("interrupted; nothing is left behind"))
    } else {
        Ok(())
    }
}

/// Sleeps in pieces short enough for Ctrl-C.
fn pause(length: Duration) -> Result<(), Failure> {
    let end = Instant::now() + length;
    loop {
        check_stop()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::load_process::LoadFigures;
    use super::*;
    use crate::args::{Cli, Command};

    fn parse(line: &str) -> Result<Demo, clap::Error> {
        let words = ["calisto", "demo"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Command::Demo(demo) => Ok(demo),
            other => panic!("{other:?}"),
        }
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
        let demo = parse("").expect("no option is needed");
        let text =
            demo.report(&[act("modulo"), act("sticky")], "xdp:veth0", &Placement::of(&[0, 1]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "policy  moved 4 -> 5  moved 5 -> 4  reordered  lost  max/mean load  p50 (us)  p95 (us)"
        );
        assert_eq!(
            lines[2],
            "modulo        80.0 %             -      1'234     0           1.02        61       140"
        );
        for part in [
            "at least 1'024 flows",
            "at least 160'000 requests",
            "20'000 requests/s of 4'000 flows",
            "port xdp:veth0, job synthetic, arrangement threads, client on CPU 0",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_row_for_a_script_has_every_figure_at_the_top() {
        let act = act("modulo");
        let row = serde_json::to_value(Row { port: "xdp:veth0", act: &act }).expect("plain values");
        assert_eq!((&row["policy"], &row["reordered"]), (&"modulo".into(), &1234.into()));
        assert_eq!((&row["moved_up"], &row["port"]), (&0.8.into(), &"xdp:veth0".into()));
    }

    #[test]
    fn what_cannot_be_shown_is_refused_at_once() {
        for line in ["--workers 0", "--workers 64", "--port tap", "--seconds 1", "--flows 0"] {
            assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
        }
        let slip = parse("--policies sticky,modula").expect("a name may be any word");
        let failure = slip.run(false).expect_err("there is no such policy");
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains("modula"), "{failure}");
        let demo = parse("--policies sticky,calisto").expect("policies are a list");
        assert_eq!(demo.policies, ["sticky", "calisto"]);
    }
}
