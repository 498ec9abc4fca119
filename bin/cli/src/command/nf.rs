//! `calisto nf`: chains of network functions over slices.

mod check;
mod file;
mod manual;
mod run;
mod show;
mod stats;
mod trace;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Run network functions over slices: a router, a bridge, a filter, an ESP tunnel gateway.
///
/// A chain is described by a file: queues and CPUs (one thread for each [[slice]]), and functions
/// in the order in which they see packets.
#[derive(Args, Debug)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "Example: a router between two NICs that forwards by the kernel's routes, on CPU 1\n\n  \
        name = \"edge\"\n  \
        [[slice]]\n  \
        ports = [\"xdp:eth1\", \"xdp:eth2\"]\n  \
        cpus = [1]\n  \
        [[function]]\n  \
        kind = \"router\"\n\n  \
        calisto nf check edge.toml && calisto nf run edge.toml\n  \
        calisto nf stats edge"
)]
pub(crate) struct Nf {
    /// Folder of the sockets by which running chains are asked.
    #[arg(
        long,
        value_name = "FOLDER",
        env = "CALISTO_NF",
        default_value_os_t = calisto_client::folder().join("nf"),
        global = true
    )]
    sockets: PathBuf,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(run::Run),
    Check(check::Check),
    Stats(stats::Stats),
    Show(show::Show),
    Trace(trace::Trace),
    Help(manual::Help),
}

impl Nf {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        match &self.action {
            Action::Run(run) => run.run(&self.sockets, json),
            Action::Check(check) => check.run(json),
            Action::Stats(stats) => stats.run(&self.sockets, json),
            Action::Show(show) => show.run(&self.sockets, json),
            Action::Trace(trace) => trace.run(json),
            Action::Help(help) => help.run(json),
        }
    }
}

#[cfg(test)]
mod tests;
