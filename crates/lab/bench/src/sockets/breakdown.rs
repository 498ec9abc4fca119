//! Where the time of a request goes, by layer and by function: ours and Linux's.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use base::Nanos;
use sys::clock::TscRate;
use testbed::ScratchDir;

use super::accelerated::Profile;
use super::account::{LAYERS, Layer, Sample, samples_in};
use super::client::Clients;
use super::dialogue::Dialogue;
use super::echo::{self, PORT};
use super::instructions;
use super::programs::{Compiled, EPOLL_ECHO, find};
use super::tested_stack::{Offloads, TestedStack};
use crate::cases::{Plan, in_turns};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, median};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;
use crate::running::Running;

const CONNECTIONS: [usize; 3] = [1, 16, 64];

/// Samples a second of each CPU: no multiple of anything's tick.
const FREQUENCY: &str = "3989";

/// Functions in a table.
const FUNCTIONS: usize = 14;

/// Files that are sockets to the program that uses them.
const LIBRARIES: [&str; 4] = ["libcalisto_preload", "libc.so", "libc-", "ld-linux"];

/// Cycles a request by what they are spent on.
#[derive(Clone, Default)]
struct Account {
    by_layer: BTreeMap<Site, f64>,
    by_function: BTreeMap<String, f64>,
    per_second: f64,
}

/// A row of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Site {
    /// On the server's CPU, for the server.
    Server(Layer),
    /// The server's receiving half, which the sender's CPU runs on a veth.
    Receiving(Layer),
    /// The client's receiving half, which the server's CPU runs.
    OtherSide,
    /// On the server's CPU, of nobody here.
    Strangers,
}

impl Site {
    fn name(self) -> String {
        match self {
            Self::Server(layer) => layer.name().to_owned(),
            Self::Receiving(layer) => format!("{} on the client's CPU", layer.name()),
            Self::OtherSide => "the client's receiving half".to_owned(),
            Self::Strangers => "strangers".to_owned(),
        }
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "breakdown",
        &format!(
            "cycles a request of the echo case by what they are spent on: samples of perf record \
             (cpu-clock, {FREQUENCY} a second of both CPUs, with call chains), each counted for its \
             innermost function that belongs to a layer; what runs with interrupts off counts where they come \
             on again. Server's CPU: {server}; on a veth the \
             sender's CPU runs the receiver's half, so the server's is looked up on CPU {client}, too. \
             Instructions are counted where the machine has counters for them."
        ),
    )?;
    let perf = find("perf", "linux-perf")?;
    let echo = Compiled::new(EPOLL_ECHO)?;
    let tested_stacks =
        [TestedStack::calisto(plan)?, TestedStack::linux(plan.cpus, Offloads::Default)?];
    let hertz = TscRate::calibrate(Nanos::from_millis(50)).ticks_per_second();
    for connections in CONNECTIONS {
        let what = format!("{connections} connections");
        let samples = in_turns(plan, report, &what, tested_stacks.len(), |which| {
            measure(plan, &tested_stacks[which], &perf, &echo, connections, hertz)
        })?;
        print(report, &what, &tested_stacks, &samples)?;
    }
    instructions::run(plan, report, &tested_stacks, &echo)
}

fn print(
    report: &mut Report<'_>,
    what: &str,
    tested_stacks: &[TestedStack; 2],
    samples: &[Vec<Account>],
) -> Result<(), Error> {
    let unit = "cycles/request";
    let rows = LAYERS.map(Site::Server).into_iter().chain(LAYERS.map(Site::Receiving));
    for place in rows.chain([Site::OtherSide, Site::Strangers]) {
        let column = |which: usize| -> Vec<f64> {
            let of = |account: &Account| account.by_layer.get(&place).copied().unwrap_or(0.0);
            samples[which].iter().map(of).collect()
        };
        let (own, linux) = (column(0), column(1));
        // Neither the client's own work nor what nobody does is a row.
        if own.iter().chain(&linux).all(|&cycles| cycles < 1.0) {
            continue;
        }
        let name = format!("{what}: {}, {}", tested_stacks[0].name(), place.name());
        report.figure(Figure::new(name, unit, &own).against(
            tested_stacks[1].name(),
            &own,
            &linux,
        ))?;
    }
    for (tested_stack, accounts) in tested_stacks.iter().zip(samples) {
        let rates: Vec<f64> = accounts.iter().map(|account| account.per_second).collect();
        let name = format!("{what}: {}, answered with perf beside it", tested_stack.name());
        report.figure(Figure::new(name, "requests/s", &rates))?;
        for (function, cycles) in top(accounts) {
            let name = format!("{what}: {}, in {function}", tested_stack.name());
            report.figure(Figure::new(name, unit, &cycles))?;
        }
    }
    Ok(())
}

/// The functions that most of the time is spent in, with a figure of each round.
fn top(accounts: &[Account]) -> Vec<(String, Vec<f64>)> {
    let names: BTreeSet<&String> = accounts.iter().flat_map(|one| one.by_function.keys()).collect();
    let figures = |name: &String| -> Vec<f64> {
        accounts.iter().map(|one| one.by_function.get(name).copied().unwrap_or(0.0)).collect()
    };
    let mut table: Vec<(String, Vec<f64>)> =
        names.into_iter().map(|name| (name.clone(), figures(name))).collect();
    table.sort_by(|(_, a), (_, b)| {
        let (a, b) = (median(a).unwrap_or(0.0), median(b).unwrap_or(0.0));
        b.total_cmp(&a)
    });
    table.truncate(FUNCTIONS);
    table
}

fn measure(
    plan: &Plan,
    tested_stack: &TestedStack,
    perf: &std::path::Path,
    echo: &Compiled,
    connections: usize,
    hertz: f64,
) -> Result<Account, Error> {
    let server = echo::start(tested_stack, Profile::Latency, echo, false)?;
    let folder = ScratchDir::new("perf").or_needs("folder for perf")?;
    let data = folder.path().join("perf.data");
    let (seconds, length) =
        plan.pick(("0.7", Nanos::from_millis(1500)), ("0.2", Nanos::from_millis(900)));
    let cpus = format!("{},{}", plan.cpus.client, plan.cpus.server);
    let mut record = Command::new(perf);
    record.args(["record", "-q", "-g", "-e", "cpu-clock", "-F", FREQUENCY, "-m", "2048"]);
    record.args(["-C", &cpus, "-o"]).arg(&data).args(["sleep", seconds]);
    let (recorded, answers) = tested_stack.witnessed(|| {
        on_cpu(plan.cpus.client, || {
            let mut clients =
                Clients::connect(tested_stack.client(), tested_stack.address(PORT), connections)?;
            clients.ask(&mut Dialogue::Echo, connections, Nanos::from_millis(100))?;
            record.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let recording = record.spawn().or_needs("perf record")?;
            // For longer than it takes.
            let answers = clients.ask(&mut Dialogue::Echo, connections, length);
            Ok((recording.wait_with_output().or_needs("perf record")?, answers?))
        })
    })?;
    if !recorded.status.success() {
        return Err(String::from_utf8_lossy(&recorded.stderr)).or_needs("perf record");
    }
    let mut script = Command::new(perf);
    script.args(["script", "-F", "comm,pid,tid,cpu,ip,sym,dso", "-i"]).arg(&data);
    let output = script.stdin(Stdio::null()).output().or_needs("perf script")?;
    let samples = samples_in(&String::from_utf8_lossy(&output.stdout));
    let ours = processes(tested_stack, &server);
    let account = Account::new(plan.cpus, &samples, &ours, hertz / answers.per_second);
    let account = account.ok_or("there are too few").or_needs("samples of perf")?;
    Ok(Account { per_second: answers.per_second, ..account })
}

/// Processes whose work on the server's CPU is the server's.
fn processes(tested_stack: &TestedStack, server: &Running) -> BTreeSet<u32> {
    let mut all: BTreeSet<u32> = [server.pid()].into_iter().chain(tested_stack.daemon()).collect();
    for root in [Some(server.pid()), tested_stack.daemon()].into_iter().flatten() {
        sys::process_tree::each_process(root, |process| {
            all.insert(process.pid());
        });
    }
    all
}

impl Account {
    /// Of these samples; `scale` cycles of a CPU go by for each request.
    fn new(cpus: Cpus, samples: &[Sample], ours: &BTreeSet<u32>, scale: f64) -> Option<Self> {
        let count = |cpu| samples.iter().filter(|sample| sample.cpu == cpu).count();
        let (on_client, on_server) = (count(cpus.client), count(cpus.server));
        if on_client < 50 || on_server < 50 {
            return None;
        }
        let mut account = Self::default();
        for sample in samples {
            let layer = sample.layer(EPOLL_ECHO.name(), &LIBRARIES);
            let (place, all) = if sample.cpu == cpus.server {
                let place = match layer {
                    Layer::Idle => Site::Server(layer),
                    _ if sample.is_other_side() => Site::OtherSide,
                    // Packets are handed over by threads of the kernel, too.
                    _ if ours.contains(&sample.pid) || sample.thread.starts_with("ksoftirqd") => {
                        Site::Server(layer)
                    }
                    _ if sample.pid == 0 => Site::Server(layer),
                    _ => Site::Strangers,
                };
                (place, on_server)
            } else if sample.cpu == cpus.client && sample.is_other_side() {
                (Site::Receiving(layer), on_client)
            } else {
                continue;
            };
            let cycles = scale / all as f64;
            *account.by_layer.entry(place).or_default() += cycles;
            let is_work = !matches!(place, Site::Strangers | Site::Server(Layer::Idle));
            if let (true, Some(frame)) = (is_work, sample.frames.first()) {
                let file = frame.object.rsplit('/').next().unwrap_or_default();
                let name = format!("{} ({file})", frame.symbol);
                *account.by_function.entry(name).or_default() += cycles;
            }
        }
        Some(account)
    }
}

#[cfg(test)]
mod tests {
    use super::super::account::Frame;
    use super::*;

    fn sample(cpu: usize, pid: u32, symbols: &[&str]) -> Sample {
        let frame = |symbol: &&str| Frame {
            symbol: (*symbol).to_owned(),
            object: "[kernel.kallsyms]".to_owned(),
        };
        let frames = symbols.iter().map(frame).collect();
        Sample { thread: "a thread".to_owned(), pid, cpu, frames }
    }

    #[test]
    fn each_half_of_a_wire_is_its_receivers_whoever_runs_it() {
        let cpus = Cpus { client: 0, server: 1 };
        let all = [
            vec![sample(1, 7, &["tcp_sendmsg"]); 50],
            vec![sample(1, 7, &["tcp_v4_rcv", "net_rx_action", "tcp_sendmsg"]); 25],
            vec![sample(1, 99, &["vfs_read"]); 25],
            vec![sample(0, 5, &["tcp_v4_rcv", "net_rx_action", "tcp_sendmsg"]); 30],
            vec![sample(0, 5, &["tcp_recvmsg"]); 70],
        ]
        .concat();
        let account = Account::new(cpus, &all, &BTreeSet::from([7]), 1000.0).expect("enough");
        let rows: Vec<(Site, f64)> =
            account.by_layer.iter().map(|(&place, &cycles)| (place, cycles.round())).collect();
        assert_eq!(
            rows,
            [
                (Site::Server(Layer::Protocol), 500.0),
                (Site::Receiving(Layer::Protocol), 300.0),
                (Site::OtherSide, 250.0),
                (Site::Strangers, 250.0),
            ]
        );
        let functions: Vec<String> = top(&[account]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            functions,
            ["tcp_v4_rcv ([kernel.kallsyms])", "tcp_sendmsg ([kernel.kallsyms])"]
        );
        assert!(Account::new(cpus, &all[..60], &BTreeSet::new(), 1.0).is_none());
    }
}
