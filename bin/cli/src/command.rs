//! The commands, one file each, and those that the laboratory has.

pub(crate) mod apps;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cores;
pub(crate) mod detach;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod explain;
pub(crate) mod flows;
pub(crate) mod library;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod metrics;
pub(crate) mod nf;
pub(crate) mod pcap;
pub(crate) mod record;
pub(crate) mod reload;
pub(crate) mod replay_plans;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod ss;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod trial;
pub(crate) mod up;
pub(crate) mod web;
pub(crate) mod wire;
pub(crate) mod workers;

use clap::Subcommand;

use crate::failure::Failure;
use crate::laboratory::{self, Words};

/// Everything that `calisto` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(up::Up),
    Serve(serve::Serve),
    Down(down::Down),
    Reload(reload::Reload),
    Log(log::Log),
    Config(config::Config),
    Status(status::Status),
    Stats(stats::Stats),
    Metrics(metrics::Metrics),
    Web(web::Web),
    Flows(flows::Flows),
    Steer(steer::Steer),
    Workers(workers::Workers),
    Run(run::Run),
    Try(trial::Try),
    Library(library::Library),
    Apps(apps::Apps),
    Detach(detach::Detach),
    Explain(explain::Explain),
    Ss(ss::Ss),
    Pcap(pcap::Pcap),
    Trace(trace::Trace),
    Cores(cores::Cores),
    Top(top::Top),
    Record(record::Record),
    ReplayPlans(replay_plans::ReplayPlans),
    /// Generate load and measure what comes back.
    Load(Words),
    /// Play a capture through the data path, and say what became of its packets.
    Replay(Words),
    Wire(wire::Wire),
    Nf(nf::Nf),
    /// Simulate: the papers' figures, or a scenario of your own.
    Sim(Words),
    /// Say how many cores a load needs to keep a latency, by every policy.
    Plan(Words),
    /// Make one page of plots, tables and claims out of results.
    Report(Words),
    /// Measure, each figure beside its baseline in the same run.
    Bench(Words),
    Doctor(doctor::Doctor),
    /// Show flows that stay on their cores, cores that come and go, TCP and redis-server beside
    /// Linux's, and a daemon's crash and upgrade that break nothing; needs root, no NIC and no
    /// configuration.
    Demo(Words),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    /// Does what the command line asks for. `grammar` is the definition of all of it, for the
    /// commands that describe it.
    pub(crate) fn run(&self, json: bool, mut grammar: clap::Command) -> Result<(), Failure> {
        match self {
            Self::Up(up) => up.run(json),
            Self::Serve(serve) => serve.run(json),
            Self::Down(down) => down.run(json),
            Self::Reload(reload) => reload.run(json),
            Self::Log(log) => log.run(json),
            Self::Config(config) => config.run(json),
            Self::Status(status) => status.run(json),
            Self::Stats(stats) => stats.run(json),
            Self::Metrics(metrics) => metrics.run(json),
            Self::Web(web) => web.run(json),
            Self::Flows(flows) => flows.run(json),
            Self::Steer(steer) => steer.run(json),
            Self::Workers(workers) => workers.run(json),
            Self::Run(run) => run.run(json),
            Self::Try(trial) => trial.run(json),
            Self::Library(library) => library.run(json),
            Self::Apps(apps) => apps.run(json),
            Self::Detach(detach) => detach.run(json),
            Self::Explain(explain) => explain.run(json),
            Self::Ss(ss) => ss.run(json),
            Self::Pcap(pcap) => pcap.run(json),
            Self::Trace(trace) => trace.run(json),
            Self::Cores(cores) => cores.run(json),
            Self::Top(top) => top.run(json),
            Self::Nf(nf) => nf.run(json),
            Self::Wire(wire) => wire.run(json),
            Self::Record(record) => record.run(json),
            Self::ReplayPlans(replay) => replay.run(json),
            Self::Doctor(doctor) => doctor.run(json),
            Self::Load(_)
            | Self::Replay(_)
            | Self::Sim(_)
            | Self::Plan(_)
            | Self::Report(_)
            | Self::Bench(_)
            | Self::Demo(_) => laboratory::hand_over(),
            // The laboratory knows the options of its commands too, which here are but named.
            Self::Completions(_) | Self::Man(_) if laboratory::is_there() => {
                laboratory::hand_over()
            }
            Self::Completions(completions) => completions.run(&mut grammar),
            Self::Man(man) => man.run(grammar, json),
        }
    }
}
