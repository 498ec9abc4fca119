//! How long CPUs have run anything at all, as the kernel counts it.

use base::Nanos;

/// The unit of /proc/stat: USER_HZ, which is 100 on every Linux that user space sees.
const TICK: Nanos = Nanos::from_millis(10);

/// Time for which these CPUs have not been idle so far, the hypervisor's part included. None when
/// the kernel does not tell.
pub(super) fn busy(cpus: &[usize]) -> Option<Nanos> {
    sum(&std::fs::read_to_string("/proc/stat").ok()?, cpus)
}

/// The same of the text of /proc/stat.
fn sum(stat: &str, cpus: &[usize]) -> Option<Nanos> {
    cpus.iter().try_fold(Nanos::ZERO, |sum, cpu| {
        let name = format!("cpu{cpu}");
        let line = stat.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '))?;
        let fields = line.split_whitespace().map(|field| field.parse::<u64>().ok());
        let fields = fields.take(8).collect::<Option<Vec<_>>>()?;
        // proc_stat(5); guests are counted among user and nice already.
        let &[user, nice, system, _idle, _iowait, irq, softirq, steal] = &fields[..] else {
            return None;
        };
        let ticks =
            [nice, system, irq, softirq, steal].iter().fold(user, |a, b| a.saturating_add(*b));
        Some(sum + Nanos(ticks.saturating_mul(TICK.0)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_busy_with_everything_but_waiting() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 100 50 4 5 6 7 8\ncpu12 1 0 0 9 9 0 0 0 0 0\n";
        assert_eq!(sum(stat, &[1]), Some(Nanos::from_millis(210)));
        assert_eq!(sum(stat, &[1, 12]), Some(Nanos::from_millis(220)));
        for (stat, cpu) in [(stat, 2), ("cpu1 1 2 3\n", 1), ("cpu1 1 2 3 4 5 6 7 x\n", 1)] {
            assert_eq!(sum(stat, &[cpu]), None, "{stat}");
        }
    }
}
