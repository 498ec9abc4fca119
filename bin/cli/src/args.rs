//! The command line as a whole: which commands there are.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::command;

/// A user-space network data plane that keeps every flow on its core.
#[derive(Debug, Parser)]
#[command(
    name = "calisto",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        calisto demo                                          see it work; no NIC, no configuration\n  \
        calisto up --port xdp:eth1 --listen udp:10.0.0.2:7    run the data plane\n  \
        calisto status                                        ask it how it is\n  \
        calisto steer set modulo                              change its mind while traffic runs\n\n\
        Every command explains itself: calisto help COMMAND."
)]
pub(crate) struct Cli {
    /// Print JSON instead of text for people.
    #[arg(short = 'j', long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Everything that `calisto` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(command::up::Up),
    Serve(command::serve::Serve),
    Down(command::down::Down),
    Status(command::status::Status),
    Stats(command::stats::Stats),
    Flows(command::flows::Flows),
    Steer(command::steer::Steer),
    Workers(command::workers::Workers),
    Run(command::run::Run),
    Apps(command::apps::Apps),
    Explain(command::explain::Explain),
    Ss(command::ss::Ss),
    Pcap(command::pcap::Pcap),
    Cores(command::cores::Cores),
    Top(command::top::Top),
    Record(command::record::Record),
    ReplayPlans(command::replay_plans::ReplayPlans),
    Load(command::load::Load),
    Replay(command::replay::Replay),
    Wire(command::wire::Wire),
    Nf(command::nf::Nf),
    Sim(command::sim::Sim),
    Report(command::report::Report),
    Bench(command::bench::Bench),
    Doctor(command::doctor::Doctor),
    Demo(command::demo::Demo),
    Completions(command::completions::Completions),
    Man(command::man::Man),
}

/// Where the daemon that is meant listens.
#[derive(Args, Clone, Debug)]
pub(crate) struct Admin {
    /// Socket of the daemon to talk to.
    #[arg(
        long = "admin",
        value_name = "PATH",
        env = "CALISTO_ADMIN",
        default_value_os_t = default_socket(),
        global = true
    )]
    pub(crate) socket: PathBuf,
}

/// Whose workers are meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct About {
    /// An attached application, by name or number; without it, the daemon's own workers.
    #[arg(long, value_name = "APP", global = true)]
    pub(crate) app: Option<String>,
}

/// The socket of a daemon whose configuration names none.
pub(crate) fn default_socket() -> PathBuf {
    config::Config::default().admin_socket.into()
}

#[cfg(test)]
mod tests;
