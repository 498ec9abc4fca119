//! Threads: where they run and what they are called.

use rustix::thread::{CpuSet, Pid};

use crate::SysError;

pub use rustix::thread::sched_yield;

/// Lets the calling thread run on CPU `cpu` only.
///
/// # Errors
/// No such CPU, or a cpuset forbids it.
pub fn pin(cpu: usize) -> Result<(), SysError> {
    pin_to(None, &[cpu])
}

/// Lets the calling thread run on any of `cpus`.
///
/// # Errors
/// As [`pin`].
pub fn pin_to_any(cpus: &[usize]) -> Result<(), SysError> {
    pin_to(None, cpus)
}

/// Lets thread `tid` run on CPU `cpu` only. Another process's threads need CAP_SYS_NICE; that
/// `tid` is still the thread that was meant is for the caller to know (see [`crate::pidfd`]).
///
/// # Errors
/// As [`pin`].
pub fn pin_other(tid: u32, cpu: usize) -> Result<(), SysError> {
    let tid = i32::try_from(tid).ok().and_then(Pid::from_raw);
    let Some(tid) = tid else {
        let errno = rustix::io::Errno::SRCH;
        return Err(SysError::new("pin a thread", errno, "its id is not one"));
    };
    pin_to(Some(tid), &[cpu])
}

fn pin_to(tid: Option<Pid>, cpus: &[usize]) -> Result<(), SysError> {
    let refused = |errno| {
        let text = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let allowed = allowed_cpus().iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let advice = format!("choose among CPUs {allowed}");
        SysError::new(format!("run on CPU {text}"), errno, advice)
    };
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(refused(rustix::io::Errno::INVAL));
        }
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(tid, &set).map_err(refused)
}

/// The CPUs that the calling thread may run on, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// The CPU that the calling thread runs on at this moment.
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// The kernel's id of the calling thread.
pub fn tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Names the calling thread, as `top -H` and `perf` show it. Names longer than the 15 bytes that
/// the kernel keeps are cut.
pub fn set_name(name: &str) {
    let mut bytes = [0u8; 16];
    for (to, &from) in bytes.iter_mut().take(15).zip(name.as_bytes().iter().filter(|&&b| b != 0)) {
        *to = from;
    }
    let name = std::ffi::CStr::from_bytes_until_nul(&bytes).expect("the last byte stays zero");
    // A thread without a name runs just as well.
    let _ = rustix::thread::set_name(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_where_it_was_put() {
        let cpu = *allowed_cpus().last().expect("some CPU runs this");
        std::thread::spawn(move || {
            pin(cpu).expect("the CPU was allowed a moment ago");
            assert_eq!(current_cpu(), cpu);
            assert_eq!(allowed_cpus(), [cpu]);
        })
        .join()
        .expect("no assertion failed");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_and_the_real_ones_are_named() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            let error = pin(cpu).expect_err("nobody has that many CPUs").to_string();
            assert!(error.contains("choose among CPUs 0"), "{error}");
        }
    }

    #[test]
    fn a_long_name_is_cut_to_what_the_kernel_keeps() {
        std::thread::spawn(|| {
            set_name("calisto-worker-12");
            let name = std::fs::read_to_string("/proc/thread-self/comm").expect("proc is mounted");
            assert_eq!(name, "calisto-worker-\n");
        })
        .join()
        .expect("no assertion failed");
    }
}
