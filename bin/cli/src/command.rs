//! The commands, one file each.

pub(crate) mod apps;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod cores;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod explain;
pub(crate) mod flows;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod nf;
pub(crate) mod pcap;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod replay_plans;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod ss;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod wire;
pub(crate) mod workers;

use crate::args::Command;
use crate::failure::Failure;

/// Does what the command line asks for.
pub(crate) fn run(command: &Command, json: bool) -> Result<(), Failure> {
    match command {
        Command::Up(up) => up.run(json),
        Command::Serve(serve) => serve.run(json),
        Command::Down(down) => down.run(json),
        Command::Status(status) => status.run(json),
        Command::Stats(stats) => stats.run(json),
        Command::Flows(flows) => flows.run(json),
        Command::Steer(steer) => steer.run(json),
        Command::Workers(workers) => workers.run(json),
        Command::Run(run) => run.run(json),
        Command::Apps(apps) => apps.run(json),
        Command::Explain(explain) => explain.run(json),
        Command::Ss(ss) => ss.run(json),
        Command::Pcap(pcap) => pcap.run(json),
        Command::Cores(cores) => cores.run(json),
        Command::Top(top) => top.run(json),
        Command::Nf(nf) => nf.run(json),
        Command::Wire(wire) => wire.run(json),
        Command::Record(record) => record.run(json),
        Command::ReplayPlans(replay) => replay.run(json),
        Command::Load(load) => load.run(json),
        Command::Replay(replay) => replay.run(json),
        Command::Sim(sim) => sim.run(json),
        Command::Report(report) => report.run(json),
        Command::Bench(bench) => bench.run(json),
        Command::Doctor(doctor) => doctor.run(json),
        Command::Demo(demo) => demo.run(json),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(json),
    }
}
