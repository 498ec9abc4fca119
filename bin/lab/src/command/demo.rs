//! `calisto demo`: six acts, about flows that stay, cores that come and go, TCP, redis-server on
//! it, and a daemon that is killed and replaced under that; no NIC, no configuration.

mod act;
mod batch_job;
mod cores_act;
mod cpu_use;
mod crash_act;
mod crash_callers;
mod crash_report;
mod load_process;
mod ownership;
mod placement;
mod progress;
mod redis_act;
mod redis_client;
mod redis_report;
mod redis_server;
mod report;
mod server;
mod service;
mod stage;
mod tcp_act;
mod tcp_client;
mod tcp_counts;
mod tcp_report;
mod turns_report;

use std::time::Duration;

use clap::{Args, ValueEnum};
use cli::failure::Failure;
use cli::output;
use testbed::{Testbed, TestbedConfig};

use self::crash_act::Ending;
use self::load_process::LoadPlan;
use self::placement::Placement;
use self::progress::{Progress, check_stop};
use self::redis_server::Programs;
use self::server::{Server, UDP_PORT};
use self::stage::Stage;

/// Show flows that stay on their cores, cores that come and go, TCP and redis-server beside
/// Linux's, and a daemon's crash and upgrade that break nothing; needs root, no NIC and no
/// configuration.
///
/// Two network namespaces are joined by a veth. In the one the daemon serves on AF_XDP, in the
/// other the Linux kernel sends open-loop requests. First act, `steer`: a worker comes and goes
/// under thousands of flows, first with the policy `modulo`, then, switched live, with `sticky`.
/// Second act, `cores`: an application is given a core whenever it has requests, the load goes up
/// and down, and a batch job (`calisto run --batch`) gets what is left. Third act, `tcp`: the data
/// path serves echo over TCP by itself (`calisto serve echo`), and Linux does, in turns, for the
/// same clients. Fourth act, `redis`: redis-server, unmodified, under `calisto run` and on Linux,
/// in turns, asked by redis-benchmark. Fifth act, `crash`: the daemon is killed (kill -9) under
/// redis-server and callers that count, and they go on. Sixth act, `upgrade`: another daemon takes
/// its place under them (`calisto up --replace`). Nothing is left behind.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    calisto demo\n  \
    calisto demo --policies modulo,calisto,sticky --workers 8 --flows 10000\n  \
    calisto demo cores --steps 500,20000,500\n  \
    calisto demo tcp --connections 1 --rounds 5\n  \
    calisto demo redis\n  \
    calisto demo crash --connections 200 --rounds 5\n  \
    calisto demo upgrade\n  \
    calisto demo --port af_packet -j")]
pub(crate) struct Demo {
    /// What to show [default: steer cores tcp, and redis, crash and upgrade if redis-server and
    /// redis-benchmark are installed].
    #[arg(value_delimiter = ',', value_name = "ACT")]
    acts: Vec<ActName>,
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
    /// Second act: requests a second of each step, one after the other, beside the batch job. The
    /// highest is sent once before, without it.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1000,4000,8000,1000",
        value_name = "RATES"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    steps: Vec<u32>,
    /// Second act: seconds of each step.
    #[arg(long, default_value_t = 2, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=600))]
    step_seconds: u32,
    /// Third act: connections that ask. Fifth and sixth act: connections that are opened before
    /// each end of a daemon.
    #[arg(long, default_value_t = 64, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=500))]
    connections: u32,
    /// Third and fourth act: rounds of each server, of a second and a half. Fifth and sixth act:
    /// ends of a daemon.
    #[arg(long, default_value_t = 3, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// Something to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ActName {
    /// Workers come and go, and flows stay, or do not.
    Steer,
    /// Load goes up and down, and cores come and go.
    Cores,
    /// TCP by the data path and by Linux.
    Tcp,
    /// redis-server on the data path and on Linux.
    Redis,
    /// The daemon is killed under redis-server, and its callers go on.
    Crash,
    /// Another daemon takes its place under redis-server, and its callers go on.
    Upgrade,
}

impl ActName {
    /// In their order; the last three need AF_XDP.
    const ALL: [Self; 6] =
        [Self::Steer, Self::Cores, Self::Tcp, Self::Redis, Self::Crash, Self::Upgrade];

    /// Whether redis-server is needed for it.
    const fn needs_redis(self) -> bool {
        matches!(self, Self::Redis | Self::Crash | Self::Upgrade)
    }
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
        let programs = Programs::find();
        if self.acts.iter().any(|act| act.needs_redis()) {
            // Before the other acts: what was asked for cannot be shown.
            programs.as_ref().map_err(Failure::clone)?;
        }
        for act in self.acts() {
            match (act, &programs) {
                (ActName::Steer, _) => self.run_steer(&tell, json)?,
                (ActName::Cores, _) => self.run_cores(&tell, json)?,
                (ActName::Tcp, _) => self.run_tcp(&tell, json)?,
                (ActName::Redis, Ok(programs)) => self.run_redis(programs, &tell, json)?,
                (ActName::Crash, Ok(programs)) => {
                    self.run_crash(Ending::Killed, programs, &tell, json)?;
                }
                (ActName::Upgrade, Ok(programs)) => {
                    self.run_crash(Ending::Replaced, programs, &tell, json)?;
                }
                (ActName::Redis | ActName::Crash | ActName::Upgrade, Err(missing)) => {
                    tell.say(&format!("left out: {missing}"));
                }
            }
        }
        Ok(())
    }

    /// The acts in their order: those that were named, or all.
    fn acts(&self) -> &[ActName] {
        match &self.acts[..] {
            [] if self.port == "af_packet" => &ActName::ALL[..3],
            [] => &ActName::ALL,
            named => named,
        }
    }

    fn run_steer(&self, tell: &Progress, json: bool) -> Result<(), Failure> {
        let placement = Placement::of(&sys::thread::allowed_cpus());
        tell.say("making two namespaces and a wire between them");
        let bed = Testbed::new(TestbedConfig::default()).map_err(Failure::new)?;
        check_stop()?;
        let settings = self.settings(&bed, &placement);
        let mut server = Server::start(&self.port, &settings, &bed, tell)?;
        tell.say(&format!(
            "the daemon serves on {}, {} workers, {}",
            server.port(),
            self.workers,
            placement.sentence()
        ));
        let mut acts = Vec::new();
        for policy in &self.policies {
            acts.push(act::play(self, policy, &bed, &mut server, &placement, tell)?);
        }
        let port = server.stop()?;
        drop(bed);
        if json {
            report::steer_rows(&acts, &port)
        } else {
            output::text(&report::steer(self, &acts, &port, &placement))
        }
    }

    fn run_cores(&self, tell: &Progress, json: bool) -> Result<(), Failure> {
        check_stop()?;
        let stage = Stage::of(&sys::thread::allowed_cpus());
        let act = cores_act::play(self, &stage, tell)?;
        if json { report::cores_rows(&act) } else { output::text(&report::cores(&act, &stage)) }
    }

    fn run_tcp(&self, tell: &Progress, json: bool) -> Result<(), Failure> {
        check_stop()?;
        let placement = Placement::of(&sys::thread::allowed_cpus());
        let act = tcp_act::play(self, &placement, tell)?;
        if json {
            tcp_report::rows(self, &act)
        } else {
            output::text(&tcp_report::text(self, &act, &placement))
        }
    }

    fn run_redis(&self, programs: &Programs, tell: &Progress, json: bool) -> Result<(), Failure> {
        check_stop()?;
        let placement = Placement::of(&sys::thread::allowed_cpus());
        let act = redis_act::play(self, programs, &placement, tell)?;
        if json {
            redis_report::rows(&act)
        } else {
            output::text(&redis_report::text(self, &act, &placement))
        }
    }

    fn run_crash(
        &self,
        ending: Ending,
        programs: &Programs,
        tell: &Progress,
        json: bool,
    ) -> Result<(), Failure> {
        check_stop()?;
        let placement = Placement::of(&sys::thread::allowed_cpus());
        let act = crash_act::play(
            ending,
            (self.connections, self.rounds),
            &self.port,
            programs,
            &placement,
            tell,
        )?;
        if json {
            return crash_report::rows(&act);
        }
        output::text(&crash_report::text(&act))?;
        crash_report::check(&act)
    }

    /// The daemon's settings in the first act, without its port.
    fn settings(&self, bed: &Testbed, placement: &Placement) -> Vec<String> {
        let mut settings = vec![
            format!("listen=[\"udp:{}:{UDP_PORT}\"]", bed.server().ipv4()),
            format!("workers.count={}", self.workers),
            "workers.job=synthetic".to_owned(),
            format!("workers.arrangement={}", self.arrangement),
            format!("workers.cpus={:?}", placement.workers),
        ];
        settings.extend(self.policies.first().map(|policy| format!("steer.policy={policy}")));
        settings.extend(placement.dispatcher.map(|cpu| format!("workers.dispatcher_cpu={cpu}")));
        settings
    }

    /// The load of the first act.
    fn load(&self, placement: &Placement) -> LoadPlan {
        let Self { rate, flows, seconds, .. } = *self;
        let warm_up = Duration::from_millis(500);
        LoadPlan { rate, flows, seconds, warm_up, iterations: 100, cpu: placement.client }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;
    use crate::command::Command;

    fn parse(line: &str) -> Result<Demo, clap::Error> {
        let words = ["calisto", "demo"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Command::Demo(demo) => Ok(demo),
            other => panic!("{other:?}"),
        }
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

    #[test]
    fn all_acts_are_shown_unless_one_is_named() {
        let demo = parse("").expect("no option is needed");
        assert_eq!(demo.acts(), ActName::ALL);
        let demo = parse("--port af_packet").expect("it is a kind");
        assert!(!demo.acts().contains(&ActName::Redis), "it needs AF_XDP");
        let demo = parse("cores --steps 500,7000 --step-seconds 1").expect("they are named");
        assert_eq!((demo.acts, demo.steps), (vec![ActName::Cores], vec![500, 7000]));
        let demo = parse("tcp --connections 1 --rounds 5").expect("they are named");
        assert_eq!((demo.acts, demo.connections, demo.rounds), (vec![ActName::Tcp], 1, 5));
        for line in ["third", "--steps 99", "--step-seconds 0", "--connections 501"] {
            assert_eq!(parse(line).expect_err(line).exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn the_script_refuses_an_act_that_there_is_not_before_it_builds() {
        let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../script/demo");
        let text = std::fs::read_to_string(&script).expect("it is in the tree");
        let names: Vec<_> = ActName::ALL.iter().filter_map(ActName::to_possible_value).collect();
        let names: Vec<&str> = names.iter().map(|name| name.get_name()).collect();
        assert!(text.contains(&names.join(" | ")), "acts are {names:?}");
        // Nothing can be found that it could build with.
        let mut demo = std::process::Command::new("/bin/bash");
        let demo = demo.arg(&script).arg("tcp,nope").env("PATH", "/nowhere");
        let output = demo.output().expect("bash runs it");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no act \"nope\"") && said.lines().count() == 1, "{said}");
    }
}
