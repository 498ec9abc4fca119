//! Measuring in turns, and who else had the CPUs meanwhile.

use base::Nanos;
use sys::clock::now;

use super::tested_stack::TestedStack;
use crate::cases::Plan;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::Figure;
use crate::place::{Cpus, cpu_time};
use crate::process::{cpu_time as cpu_time_of, idle_time};
use crate::report::Report;
use crate::running::Running;

/// A span in which processes that are not ours had more of a CPU than this is measured again, so
/// often in all; the quietest counts.
const STRANGERS_MAX: f64 = 0.08;
const TRIES: u32 = 3;

/// Shares of the two CPUs that processes which are not measured had.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strangers {
    /// On the client's: what the client did not have and was not idle.
    pub(super) client: f64,
    /// On the server's: what neither server nor daemon had and was not idle.
    pub(super) server: f64,
}

/// Looks at the CPUs for as long as something is measured.
struct Span {
    began: Nanos,
    /// What the client's thread has had, and processes that it has started and seen end.
    client: Nanos,
    server: Nanos,
    /// Of the client's CPU and the server's.
    stolen: [Nanos; 2],
    idle: [Nanos; 2],
}

impl Span {
    /// Begins or ends on the client's thread.
    fn look(plan: &Plan, tested_stack: &TestedStack, server: &Running) -> Result<Self, Error> {
        let Cpus { client, server: cpu } = plan.cpus;
        Ok(Self {
            began: now(),
            client: cpu_time() + ended_children_time()? + packets_time(client)?,
            server: server.cpu_time()? + tested_stack.daemon_cpu_time()? + packets_time(cpu)?,
            stolen: [client, cpu].map(sys::steal::of_cpu),
            idle: [idle_time(client)?, idle_time(cpu)?],
        })
    }

    fn strangers_until(&self, end: &Self) -> Strangers {
        let span = end.began.since(self.began).as_secs_f64();
        let share = |of: fn(&Self) -> Nanos| of(end).since(of(self)).as_secs_f64() / span;
        let client = share(|look| look.client + look.stolen[0] + look.idle[0]);
        let server = share(|look| look.server + look.stolen[1] + look.idle[1]);
        Strangers { client: (1.0 - client).max(0.0), server: (1.0 - server).max(0.0) }
    }
}

/// CPU time of the kernel's thread that takes packets in when they are too many for whoever sent
/// them.
fn packets_time(cpu: usize) -> Result<Nanos, Error> {
    let name = format!("ksoftirqd/{cpu}");
    let processes = std::fs::read_dir("/proc").or_needs("look into /proc")?;
    for process in processes.flatten() {
        let pid = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let comm = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        if let (Some(pid), true) = (pid, comm.trim() == name) {
            return cpu_time_of(pid);
        }
    }
    // Other kernels call it otherwise.
    Ok(Nanos::ZERO)
}

/// CPU time of processes that this one has started and waited for; in steps of 10 ms.
fn ended_children_time() -> Result<Nanos, Error> {
    let text = std::fs::read_to_string("/proc/self/stat").or_needs("look into /proc")?;
    children_time_in(&text).ok_or("it is another").or_needs("look into /proc/self/stat")
}

/// Fields 16 and 17 of proc_pid_stat(5): the third is the first behind the name.
fn children_time_in(stat: &str) -> Option<Nanos> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |at: usize| fields.split_ascii_whitespace().nth(at - 3)?.parse::<u64>().ok();
    Some(Nanos::from_millis(10 * (ticks(16)? + ticks(17)?)))
}

/// Does `work` of the client's thread, again if the CPUs were not ours; the quietest result.
pub(super) fn quietly<T>(
    plan: &Plan,
    tested_stack: &TestedStack,
    server: &Running,
    mut work: impl FnMut() -> Result<T, Error>,
) -> Result<(T, Strangers), Error> {
    let mut best: Option<(T, Strangers)> = None;
    for _ in 0..TRIES {
        unless_interrupted()?;
        let before = Span::look(plan, tested_stack, server)?;
        let done = work()?;
        let strangers = before.strangers_until(&Span::look(plan, tested_stack, server)?);
        let worse = |strangers: Strangers| strangers.client.max(strangers.server);
        if best.as_ref().is_none_or(|(_, least)| worse(strangers) < worse(*least)) {
            best = Some((done, strangers));
        }
        if worse(strangers) <= STRANGERS_MAX {
            break;
        }
    }
    Ok(best.expect("there is at least one try"))
}

/// Prints who else had the CPUs.
pub(super) fn print_strangers(
    report: &mut Report<'_>,
    name: &str,
    strangers: &[Strangers],
) -> Result<(), Error> {
    for (cpu, of) in [
        ("client's", (|strangers| strangers.client) as fn(&Strangers) -> f64),
        ("server's", |strangers| strangers.server),
    ] {
        let shares: Vec<f64> = strangers.iter().map(|one| 100.0 * of(one)).collect();
        report.figure(Figure::new(format!("{name}: strangers on the {cpu} CPU"), "%", &shares))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_what_is_neither_ours_nor_idle_nor_stolen() {
        let look = |began, client, stolen, server, idle| Span {
            began: Nanos::from_millis(began),
            client: Nanos::from_millis(client),
            server: Nanos::from_millis(server),
            stolen: [Nanos::from_millis(stolen); 2],
            idle: [Nanos::from_millis(idle); 2],
        };
        let before = look(1000, 500, 10, 100, 200);
        let seen = before.strangers_until(&look(2000, 1100, 60, 600, 400));
        assert!((seen.client - 0.15).abs() < 1e-9, "{seen:?}");
        assert!((seen.server - 0.25).abs() < 1e-9, "{seen:?}");
    }

    #[test]
    fn the_time_of_ended_children_is_behind_the_name_whatever_that_is() {
        let stat = "12 (a) b) c) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20";
        assert_eq!(children_time_in(stat), Some(Nanos::from_millis(330)));
        assert_eq!(children_time_in("12 a S 4"), None);
    }
}
