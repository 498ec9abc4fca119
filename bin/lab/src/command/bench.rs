//! `calisto bench`: every figure of the project's documents, with its baseline.

use clap::{Args, Subcommand};
use cli::failure::Failure;

/// Measure, each figure beside its baseline in the same run.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto bench steer --quick")]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What steering costs, and what a flow's move costs.
    #[command(after_help = "Examples:\n  \
        calisto bench steer --quick\n      whether it works here, in short\n  \
        calisto bench steer --case moves cost -j\n      two cases, one object a line")]
    Steer(bench::steer::Args),
    /// What applications cost, how soon one is served, and what a hostile one can do.
    #[command(after_help = "Examples:\n  \
        calisto bench apps --quick\n      whether it works here, in short\n  \
        calisto bench apps --case dispatch -j\n      one case, which needs no root, one object a line\n  \
        calisto bench apps --case attach hostile\n      with a real calistod in namespaces (root), \
        some 5 minutes")]
    Apps(bench::apps::Args),
    /// What attackers take from the honest, and from Linux's users.
    #[command(after_help = "Examples:\n  \
        calisto bench abuse --quick\n      whether it works here, in short\n  \
        calisto bench abuse --case aborts --connections 1000000 --per-second 2000 -j\n      a million \
        connections, one object a line\n  \
        calisto bench abuse --case memory\n      with a real calistod in namespaces, as root")]
    Abuse(bench::abuse::Args),
    /// What waiting for many queues costs, and what it leaves of a CPU to others.
    #[command(after_help = "Examples:\n  \
        calisto bench wait --quick\n      whether it works here, in short\n  \
        calisto bench wait --case latency throughput -j\n      two cases, which need no root, one object a line\n  \
        calisto bench wait --case idle\n      with a real calistod in namespaces (root)")]
    Wait(bench::wait::Args),
    /// What granting and taking cores costs, and what is left for a batch job.
    #[command(after_help = "Examples:\n  \
        calisto bench cores --quick\n      whether it works here, in short\n  \
        calisto bench cores --case tick grant reclaim -j\n      three cases, which need no root, one object a line\n  \
        calisto bench cores --case batch\n      with a real calistod in namespaces (root), some 2 minutes")]
    Cores(bench::cores::Args),
    /// What the TCP engine costs, and what Linux's and others cost.
    #[command(after_help = "Examples:\n  \
        calisto bench tcp --quick\n      whether it works here, in short\n  \
        calisto bench tcp --case rpc flows -j\n      two cases, which need no root, one object a line\n  \
        calisto bench tcp --case echo wire\n      with a real calistod in namespaces (root), some 8 minutes")]
    Tcp(bench::tcp::Args),
    /// What unmodified programs reach on our sockets, and on Linux's.
    #[command(after_help = "Examples:\n  \
        calisto bench sockets --quick\n      whether it works here, in short\n  \
        calisto bench sockets --case echo redis -j\n      two cases, one object a line\n  \
        calisto bench sockets --rehearse --quick\n      Linux in our place too: whether the comparison is fair")]
    Sockets(bench::sockets::Args),
    /// What connections notice of the daemon's end: killed, and in order.
    #[command(after_help = "Examples:\n  \
        calisto bench outlive --quick\n      whether it works here, in short\n  \
        calisto bench outlive --connections 1000 --rounds 20 -j\n      twenty deaths of each kind, one \
        object a line\n  \
        calisto bench outlive --case kill --seed 7\n      the same deaths as another run with that seed")]
    Outlive(bench::outlive::Args),
    /// What slices forward, route and encrypt, and what others do.
    #[command(after_help = "Examples:\n  \
        calisto bench slice --quick\n      whether it works here, in short\n  \
        calisto bench slice --case router esp cycles cores -j\n      four cases, which need no root, one object a line\n  \
        calisto bench slice --case forward overload\n      between namespaces (root), some 6 minutes")]
    Slice(bench::slice::Args),
    /// How fast the simulator is.
    #[command(after_help = "Examples:\n  \
        calisto bench sim --quick\n      whether it works here, in short\n  \
        calisto bench sim --case speed -j\n      one case, one object a line")]
    Sim(bench::sim::Args),
    /// Whether the load generator can be trusted, and how much it can send.
    #[command(after_help = "Examples:\n  \
        calisto bench load --quick\n      whether it works here, in short\n  \
        calisto bench load --case timing -j\n      one case, which needs no root, one object a line\n  \
        calisto bench load --case limit\n      between namespaces (root)")]
    Load(bench::generator::Args),
    /// What a case makes of this program when it starts it once more.
    #[command(hide = true)]
    Helper(bench::Helper),
}

impl Bench {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        // Ctrl-C is noticed between two rounds, so that the namespaces of a round are removed.
        testbed::on_interrupt().map_err(Failure::new)?;
        let out = &mut std::io::stdout().lock();
        match &self.what {
            What::Steer(args) => bench::steer::run(args, json, out),
            What::Apps(args) => bench::apps::run(args, json, out),
            What::Abuse(args) => bench::abuse::run(args, json, out),
            What::Wait(args) => bench::wait::run(args, json, out),
            What::Cores(args) => bench::cores::run(args, json, out),
            What::Tcp(args) => bench::tcp::run(args, json, out),
            What::Sockets(args) => bench::sockets::run(args, json, out),
            What::Outlive(args) => bench::outlive::run(args, json, out),
            What::Slice(args) => bench::slice::run(args, json, out),
            What::Sim(args) => bench::sim::run(args, json, out),
            What::Load(args) => bench::generator::run(args, json, out),
            What::Helper(helper) => helper.run(out),
        }
        .map_err(Failure::new)
    }
}
