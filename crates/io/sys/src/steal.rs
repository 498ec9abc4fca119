//! Time that the hypervisor took from our CPUs: the steal column of /proc/stat.

use base::Nanos;

/// Stolen time since boot, one entry per CPU line in the file's order: (CPU number, time).
/// Empty where /proc/stat cannot be read. The kernel counts in ticks, usually of 10 ms.
pub fn per_cpu() -> Vec<(usize, Nanos)> {
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    parse(&stat, ticks_per_second)
}

/// Stolen time since boot on `cpu`; zero when it is not listed.
pub fn of_cpu(cpu: usize) -> Nanos {
    per_cpu().into_iter().find(|&(number, _)| number == cpu).map_or(Nanos::ZERO, |(_, time)| time)
}

fn parse(stat: &str, ticks_per_second: u64) -> Vec<(usize, Nanos)> {
    let tick = Nanos(1_000_000_000 / ticks_per_second.max(1));
    stat.lines()
        .filter_map(|line| {
            // The line "cpu  1 2 3", all CPUs together, has no number after its name.
            let rest = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?;
            let mut words = rest.split_ascii_whitespace();
            let cpu = words.next()?.parse().ok()?;
            // proc(5): user nice system idle iowait irq softirq steal.
            let steal: u64 = words.nth(7)?.parse().ok()?;
            Some((cpu, Nanos(steal.saturating_mul(tick.0))))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_number_of_each_cpu_line_is_its_stolen_time() {
        let stat = "cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 1 2 3 4 5 6 7 12 0 0\n\
                    cpu7 0 0 0 0 0 0 0 3 0 0\nintr 5 6\nctxt 9\n";
        let times = parse(stat, 100);
        assert_eq!(times, [(0, Nanos::from_millis(120)), (7, Nanos::from_millis(30))]);
    }

    #[test]
    fn a_line_of_an_old_kernel_without_the_column_is_skipped() {
        assert!(parse("cpu0 1 2 3 4\n", 100).is_empty());
        assert!(parse("", 100).is_empty());
    }
}
