//! The benches, each a word of the command line.

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;

use crate::cases::Args;
use crate::costs;
use crate::error::Error;
use crate::helper::Helper;

/// Which bench, and how much of it.
#[derive(Debug, clap::Args)]
pub struct Command {
    /// Measure what the simulator takes for given, and write it as `calisto sim --costs` reads it.
    #[arg(long, value_name = "FILE.toml")]
    costs: Option<PathBuf>,
    /// Small sizes and short rounds: whether it works, not what it says.
    #[arg(long, requires = "costs")]
    quick: bool,
    #[command(subcommand)]
    which: Option<Which>,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// What steering costs, and what a flow's move costs.
    #[command(after_help = "Examples:\n  \
        calisto bench steer --quick\n      whether it works here, in short\n  \
        calisto bench steer --case moves cost -j\n      two cases, one object a line")]
    Steer(Args<crate::steer::Steer>),
    /// What applications cost, how soon one is served, and what a hostile one can do.
    #[command(after_help = "Examples:\n  \
        calisto bench apps --quick\n      whether it works here, in short\n  \
        calisto bench apps --case dispatch -j\n      one case, which needs no root, one object a line\n  \
        calisto bench apps --case attach hostile\n      with a real calistod in namespaces (root), \
        some 5 minutes")]
    Apps(Args<crate::apps::Apps>),
    /// What attackers take from the honest, and from Linux's users.
    #[command(after_help = "Examples:\n  \
        calisto bench abuse --quick\n      whether it works here, in short\n  \
        calisto bench abuse --case aborts --connections 1000000 --per-second 2000 -j\n      a million \
        connections, one object a line\n  \
        calisto bench abuse --case memory\n      with a real calistod in namespaces, as root")]
    Abuse(Args<crate::abuse::Abuse>),
    /// What waiting for many queues costs, and what it leaves of a CPU to others.
    #[command(after_help = "Examples:\n  \
        calisto bench wait --quick\n      whether it works here, in short\n  \
        calisto bench wait --case latency throughput -j\n      two cases, which need no root, one object a line\n  \
        calisto bench wait --case idle\n      with a real calistod in namespaces (root)")]
    Wait(Args<crate::wait::Wait>),
    /// What granting and taking cores costs, and what is left for a batch job.
    #[command(after_help = "Examples:\n  \
        calisto bench cores --quick\n      whether it works here, in short\n  \
        calisto bench cores --case tick grant reclaim -j\n      three cases, which need no root, one object a line\n  \
        calisto bench cores --case batch\n      with a real calistod in namespaces (root), some 2 minutes")]
    Cores(Args<crate::cores::Cores>),
    /// What the TCP engine costs, and what Linux's and others cost.
    #[command(after_help = "Examples:\n  \
        calisto bench tcp --quick\n      whether it works here, in short\n  \
        calisto bench tcp --case rpc flows -j\n      two cases, which need no root, one object a line\n  \
        calisto bench tcp --case echo wire\n      with a real calistod in namespaces (root), some 8 minutes")]
    Tcp(Args<crate::tcp::Tcp>),
    /// What unmodified programs reach on our sockets, and on Linux's.
    #[command(after_help = "Examples:\n  \
        calisto bench sockets --quick\n      whether it works here, in short\n  \
        calisto bench sockets --case echo redis -j\n      two cases, one object a line\n  \
        calisto bench sockets --rehearse --quick\n      Linux in our place too: whether the comparison is fair")]
    Sockets(Args<crate::sockets::Sockets>),
    /// What connections notice of the daemon's end: killed, and in order.
    #[command(after_help = "Examples:\n  \
        calisto bench outlive --quick\n      whether it works here, in short\n  \
        calisto bench outlive --connections 1000 --rounds 20 -j\n      twenty deaths of each kind, one \
        object a line\n  \
        calisto bench outlive --case kill --seed 7\n      the same deaths as another run with that seed")]
    Outlive(Args<crate::outlive::Outlive>),
    /// What slices forward, route and encrypt, and what others do.
    #[command(after_help = "Examples:\n  \
        calisto bench slice --quick\n      whether it works here, in short\n  \
        calisto bench slice --case router esp cycles cores -j\n      four cases, which need no root, one object a line\n  \
        calisto bench slice --case forward overload\n      between namespaces (root), some 6 minutes")]
    Slice(Args<crate::slice::Slice>),
    /// What chains forward in the XDP hook, and what the kernel and the shortest programs do there.
    #[command(after_help = "Examples:\n  \
        calisto bench hook --quick\n      whether it works here, in short (root)\n  \
        calisto bench hook -j\n      between namespaces, one object a line")]
    Hook(Args<crate::slice::Hook>),
    /// How fast the simulator is.
    #[command(after_help = "Examples:\n  \
        calisto bench sim --quick\n      whether it works here, in short\n  \
        calisto bench sim --case speed -j\n      one case, one object a line")]
    Sim(Args<crate::sim::Sim>),
    /// Whether the load generator can be trusted, and how much it can send.
    #[command(after_help = "Examples:\n  \
        calisto bench load --quick\n      whether it works here, in short\n  \
        calisto bench load --case timing -j\n      one case, which needs no root, one object a line\n  \
        calisto bench load --case limit\n      between namespaces (root)")]
    Load(Args<crate::generator::Load>),
    /// What a case makes of this program when it starts it once more.
    #[command(hide = true)]
    Helper(Helper),
}

impl Command {
    /// Runs the bench and prints its figures to `out`: with `json` one object a line, else a table
    /// a case.
    ///
    /// # Errors
    /// The figures could not be printed, or something that every case needs is missing.
    pub fn run(&self, json: bool, out: &mut dyn Write) -> Result<(), Error> {
        if let Some(path) = &self.costs {
            return costs::write(path, self.quick, out);
        }
        // Without a word clap prints the help.
        let Some(which) = &self.which else { return Ok(()) };
        match which {
            Which::Steer(args) => args.run(json, out),
            Which::Apps(args) => args.run(json, out),
            Which::Abuse(args) => args.run(json, out),
            Which::Wait(args) => args.run(json, out),
            Which::Cores(args) => args.run(json, out),
            Which::Tcp(args) => args.run(json, out),
            Which::Sockets(args) => args.run(json, out),
            Which::Outlive(args) => args.run(json, out),
            Which::Slice(args) => args.run(json, out),
            Which::Hook(args) => args.run(json, out),
            Which::Sim(args) => args.run(json, out),
            Which::Load(args) => args.run(json, out),
            Which::Helper(helper) => helper.run(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_of_every_bench_has_its_own_name_and_says_what_it_is() {
        let benches = Which::augment_subcommands(clap::Command::new("bench"));
        for bench in benches.get_subcommands().filter(|bench| !bench.is_hide_set()) {
            let cases = bench.get_arguments().find(|arg| arg.get_id() == "cases");
            let cases = cases.expect("every bench has cases").get_possible_values();
            for (at, case) in cases.iter().enumerate().filter(|(_, case)| !case.is_hide_set()) {
                let name = case.get_name();
                assert!(case.get_help().is_some_and(|help| !help.to_string().is_empty()), "{name}");
                assert!(cases[..at].iter().all(|other| other.get_name() != name), "{name}");
            }
        }
    }
}
