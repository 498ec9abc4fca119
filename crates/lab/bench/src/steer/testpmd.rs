//! DPDK's testpmd forwarding between two null devices: packets that nobody ever touches.

use std::process::Command;
use std::time::Duration;

use base::Nanos;
use rustix::process::Signal;

use crate::place::Cpus;
use crate::running::Running;

/// How long it may take to start and to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Packets a second of its forwarding thread's CPU time, measured for `length`.
pub(super) fn run(cpus: Cpus, length: Duration) -> Result<f64, String> {
    let Cpus { client, server } = cpus;
    if !cpus.are_two() {
        return Err("testpmd needs two CPUs".to_owned());
    }
    let mut command = Command::new("dpdk-testpmd");
    // The first core of the list is the one that does not forward.
    command.args(["--lcores", &format!("0@{client},1@{server}")]);
    command.args(["--no-huge", "-m", "512", "--no-pci", "--no-telemetry", "--no-shconf"]);
    command.args(["--vdev=net_null0", "--vdev=net_null1", "--"]);
    command.args(["--forward-mode=io", "--nb-cores=1", "--total-num-mbufs=16384"]);
    // Not interactive, and quiet until it is told to stop.
    command.args(["--stats-period", "600"]);
    let mut testpmd = Running::start(command, client)
        .map_err(|error| format!("absent (apt-get install dpdk-dev): {error}"))?;
    measure(&mut testpmd, length)
}

fn measure(testpmd: &mut Running, length: Duration) -> Result<f64, String> {
    let pid = testpmd.pid();
    let began = sys::clock::now();
    while forwarding_time(pid).is_none_or(|time| time < Nanos::from_millis(5)) {
        if sys::clock::now().since(began) > Nanos::from(TIMEOUT) {
            return Err("testpmd does not start to forward".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(length);
    testpmd.signal(Signal::INT);
    // It forwards on until it looks at its flag, up to a second later, and counts on: what its
    // thread spent is known only when the thread is gone.
    let mut spent = Nanos::ZERO;
    let asked = sys::clock::now();
    while !testpmd.has_ended().map_err(|error| error.to_string())? {
        spent = forwarding_time(pid).map_or(spent, |time| time.max(spent));
        if sys::clock::now().since(asked) > Nanos::from(TIMEOUT) {
            return Err("testpmd does not end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if spent == Nanos::ZERO {
        return Err("testpmd has ended by itself".to_owned());
    }
    let text = testpmd.log();
    let packets = accumulated(&text).ok_or_else(|| format!("testpmd says no total: {text}"))?;
    Ok(packets as f64 / spent.as_secs_f64())
}

/// CPU time of the thread that forwards; nothing when there is none (yet, or any more).
fn forwarding_time(pid: u32) -> Option<Nanos> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    tasks.flatten().find_map(|task| {
        let comm = std::fs::read_to_string(task.path().join("comm")).ok()?;
        // "lcore-worker-1"; the kernel keeps 15 bytes of a name, "rte-worker-1" since 23.03.
        if !comm.contains("worker-1") {
            return None;
        }
        // First number: time on a CPU in nanoseconds (Documentation/scheduler/sched-stats.rst).
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_ascii_whitespace().next()?.parse().ok().map(Nanos)
    })
}

/// The sum over all ports that it prints at its end.
fn accumulated(text: &str) -> Option<u64> {
    let (_, end) = text.split_once("Accumulated forward statistics")?;
    let line = end.lines().find_map(|line| line.trim_start().strip_prefix("TX-packets:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_what_all_ports_have_sent() {
        let text = "  ---- Forward statistics for port 0\n  TX-packets: 5  TX-dropped: 0\n\
                    +++ Accumulated forward statistics for all ports+++\n\
                    \x20 RX-packets: 20248320 RX-dropped: 0\n  TX-packets: 20248319   TX-dropped: 1\n";
        assert_eq!(accumulated(text), Some(20_248_319));
        assert_eq!(accumulated("Bye..."), None);
    }

    #[test]
    fn a_process_without_such_a_thread_does_not_forward() {
        assert_eq!(forwarding_time(std::process::id()), None);
        assert_eq!(forwarding_time(u32::MAX), None);
    }
}
