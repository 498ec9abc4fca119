//! The load of the demo: `calisto load udp` on the client's side, as anybody could run it.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cli::failure::Failure;
use serde::{Deserialize, Serialize};
use testbed::Testbed;

use super::progress::check_stop;
use super::server::UDP_PORT;

/// Beyond its time, for making sockets before and waiting for the last replies after.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The load that is wanted.
#[derive(Clone, Debug)]
pub(super) struct LoadPlan {
    /// Requests a second.
    pub(super) rate: u32,
    /// Flows that send them.
    pub(super) flows: u32,
    /// Seconds for which they are measured.
    pub(super) seconds: u32,
    /// Sent before anything is measured: sockets, caches and neighbours are then warm.
    pub(super) warm_up: Duration,
    /// Iterations of fake work that each request asks for; 100 take about a microsecond.
    pub(super) iterations: u64,
    /// Where the generator runs; none: wherever the kernel puts it.
    pub(super) cpu: Option<usize>,
}

/// A running load generator; dropped, it is ended.
pub(super) struct LoadProcess {
    process: Child,
    deadline: Instant,
}

/// What it has found out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LoadFigures {
    /// Requests sent.
    pub(super) sent: u64,
    /// Requests without a reply.
    pub(super) lost: u64,
    /// Replies that came after one to a younger request of their flow.
    pub(super) reordered: u64,
    /// Half of the replies came sooner, from the intended send time on.
    pub(super) p50_us: f64,
    /// 95 of 100 came sooner.
    pub(super) p95_us: f64,
}

/// The part of its report that is shown.
#[derive(Deserialize)]
struct Report {
    sent: u64,
    lost: u64,
    reordered: u64,
    latency: Percentiles,
}

/// None: it falls on a lost request.
#[derive(Deserialize)]
struct Percentiles {
    p50_us: Option<f64>,
    p95_us: Option<f64>,
}

impl LoadProcess {
    /// Starts it in the client's namespace.
    pub(super) fn start(plan: &LoadPlan, bed: &Testbed) -> Result<Self, Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
        let target = format!("{}:{UDP_PORT}", bed.server().ipv4());
        let mut command = bed.client().command(own);
        command.args(["--json", "load", "udp", &target]).args(words(plan));
        // A group of its own: Ctrl-C is ours to handle.
        command.process_group(0).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = command
            .spawn()
            .map_err(|error| Failure::new(format!("cannot start the load generator: {error}")))?;
        let length = plan.warm_up + Duration::from_secs(plan.seconds.into());
        let deadline = Instant::now() + length + TIMEOUT;
        Ok(Self { process, deadline })
    }

    /// An error once it has failed.
    pub(super) fn check_alive(&mut self) -> Result<(), Failure> {
        match self.process.try_wait() {
            Ok(Some(status)) if !status.success() => Err(self.failed(&status.to_string())),
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    /// Waits for its end and reads what it has found out.
    pub(super) fn finish(mut self) -> Result<LoadFigures, Failure> {
        loop {
            check_stop()?;
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => break,
                Ok(Some(status)) => return Err(self.failed(&status.to_string())),
                Ok(None) if Instant::now() < self.deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(None) => {
                    let threads = threads_of(self.process.id());
                    return Err(Failure::new(format!(
                        "the load generator does not end: {threads}"
                    )));
                }
                Err(error) => return Err(self.failed(&error.to_string())),
            }
        }
        // It has ended, and what it printed (a line) has fitted into the pipe.
        let mut text = String::new();
        if let Some(mut output) = self.process.stdout.take() {
            output.read_to_string(&mut text).map_err(|error| self.failed(&error.to_string()))?;
        }
        figures(&text)
    }

    fn failed(&mut self, status: &str) -> Failure {
        let mut said = String::new();
        if let Some(errors) = self.process.stderr.take() {
            // What can be read is said; that some of it cannot changes nothing.
            let _ = errors.take(4096).read_to_string(&mut said);
        }
        let said = said.trim();
        let said = said.strip_prefix("calisto: ").unwrap_or(said);
        Failure::new(format!("the load generator failed ({status}): {said}"))
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        // It has ended already, or this ends it; either way nothing more can be done.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The options of `calisto load udp` for this plan.
fn words(plan: &LoadPlan) -> Vec<String> {
    let mut options = vec![
        ("--rate", plan.rate.to_string()),
        ("--flows", plan.flows.to_string()),
        ("--warmup", plan.warm_up.as_secs_f64().to_string()),
        ("--seconds", plan.seconds.to_string()),
        ("--arrival", "poisson".to_owned()),
        ("--iterations", plan.iterations.to_string()),
    ];
    options.extend(plan.cpu.map(|cpu| ("--cpu", cpu.to_string())));
    options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect()
}

/// The figures of the report, which is the last line.
fn figures(text: &str) -> Result<LoadFigures, Failure> {
    let line = text.lines().last().unwrap_or_default();
    let Report { sent, lost, reordered, latency } =
        serde_json::from_str(line).map_err(|error| {
            Failure::new(format!("the load generator's report cannot be read: {error}"))
        })?;
    let Percentiles { p50_us, p95_us } = latency;
    let [p50_us, p95_us] = [p50_us, p95_us].map(|latency| latency.unwrap_or(f64::INFINITY));
    Ok(LoadFigures { sent, lost, reordered, p50_us, p95_us })
}

/// What each thread of a process does, for whoever looks why it does not end: name, state, and
/// where it waits in the kernel (proc_pid_stat(5), proc_pid_wchan(5)).
fn threads_of(pid: u32) -> String {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return "it is gone by now".to_owned();
    };
    let threads = tasks.flatten().map(|task| {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let (stat, name, waits_in) = (read("stat"), read("comm"), read("wchan"));
        // The state comes after the name, which is in brackets and may have any character.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        format!("{} ({}, {waits_in})", name.trim_end(), state.unwrap_or('?'))
    });
    threads.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::placement::Placement;
    use super::*;
    use crate::args::Cli;
    use crate::command::Command;

    #[test]
    fn the_options_are_those_of_calisto_load_udp() {
        let cli = Cli::try_parse_from(["calisto", "demo"]).expect("no option is needed");
        let Command::Demo(demo) = cli.command else { panic!("{:?}", cli.command) };
        let words = words(&demo.load(&Placement::of(&[0, 1])));
        let start = ["calisto", "--json", "load", "udp", "10.77.0.2:7"].map(str::to_owned);
        Cli::try_parse_from(start.into_iter().chain(words)).expect("they are read back");
    }

    #[test]
    fn the_figures_are_those_of_the_reports_last_line() {
        let text = "{\"live\":1}\n{\"sent\":100,\"lost\":2,\"reordered\":3,\"late\":9,\
            \"latency\":{\"p50_us\":41.5,\"p90_us\":60,\"p95_us\":70}}\n";
        let figures = figures(text).expect("it is a report");
        let expected = LoadFigures { sent: 100, lost: 2, reordered: 3, p50_us: 41.5, p95_us: 70.0 };
        assert_eq!(figures, expected);
        let lost = text.replace("\"p95_us\":70", "\"p95_us\":null");
        assert_eq!(super::figures(&lost).expect("as above").p95_us, f64::INFINITY);
        assert!(super::figures("").is_err());
        assert!(super::figures("{}").is_err());
    }
}
