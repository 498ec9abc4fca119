//! A set of CPUs, written as Linux writes it: "0-3,6".

use std::fmt;
use std::str::FromStr;

use rustix::io::Errno;
use rustix::thread::CpuSet as Mask;

use crate::{SysError, thread};

/// Some of the machine's CPUs. Copying it is copying 128 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuSet {
    mask: Mask,
}

impl CpuSet {
    /// CPUs have numbers below this.
    pub const CPU_MAX: usize = Mask::MAX_CPU;

    /// No CPU.
    pub fn new() -> Self {
        Self::default()
    }

    /// CPU `cpu` alone; nothing if there can be no such CPU.
    pub fn only(cpu: usize) -> Self {
        Self::from_iter([cpu])
    }

    /// The CPUs that the calling thread may run on: its affinity, which its cpuset has narrowed
    /// already.
    pub fn allowed() -> Self {
        Self { mask: rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| Mask::new()) }
    }

    /// The CPUs that the calling thread's cpuset leaves it, whatever its affinity: what it could
    /// allow itself or its children. Asks for all CPUs and puts the affinity back.
    ///
    /// # Errors
    /// The kernel refuses to change the affinity at all (a seccomp filter may).
    pub fn attainable() -> Result<Self, SysError> {
        let before = Self::allowed();
        (0..Self::CPU_MAX).collect::<Self>().apply_to_self()?;
        let all = Self::allowed();
        before.apply_to_self()?;
        Ok(all)
    }

    /// The CPUs that this machine may ever have, present or not: the kernel keeps what is per CPU
    /// for each of them.
    ///
    /// # Errors
    /// There is no sysfs, or it names more CPUs than a set holds.
    pub fn possible() -> Result<Self, SysError> {
        const PATH: &str = "/sys/devices/system/cpu/possible";
        let failed = |errno| SysError::new(format!("read {PATH}"), errno, "");
        let text = std::fs::read_to_string(PATH)
            .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        text.parse().map_err(|_| failed(Errno::OVERFLOW))
    }

    /// Lets the calling thread run on these CPUs, of which its cpuset may leave fewer.
    ///
    /// # Errors
    /// None of them exists, or the cpuset forbids them all.
    pub fn apply_to_self(&self) -> Result<(), SysError> {
        rustix::thread::sched_setaffinity(None, &self.mask).map_err(|errno| self.refused(errno))
    }

    /// Adds `cpu`; false if there can be no such CPU.
    pub fn insert(&mut self, cpu: usize) -> bool {
        let possible = cpu < Self::CPU_MAX;
        if possible {
            self.mask.set(cpu);
        }
        possible
    }

    /// Whether `cpu` is one of them.
    pub fn contains(&self, cpu: usize) -> bool {
        cpu < Self::CPU_MAX && self.mask.is_set(cpu)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.mask.count() as usize
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..Self::CPU_MAX).filter(|&cpu| self.mask.is_set(cpu))
    }

    /// Those that are in `other` too.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.iter().filter(|&cpu| other.contains(cpu)).collect()
    }

    /// The kernel's form of it.
    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// What to tell a person whom the kernel refused these CPUs.
    pub(crate) fn refused(&self, errno: rustix::io::Errno) -> SysError {
        let advice = format!("choose among CPUs {}", Self::from_iter(thread::allowed_cpus()));
        SysError::new(format!("run on CPU {self}"), errno, advice)
    }
}

impl From<Mask> for CpuSet {
    fn from(mask: Mask) -> Self {
        Self { mask }
    }
}

impl FromIterator<usize> for CpuSet {
    /// Numbers that no CPU can have are left out.
    fn from_iter<T: IntoIterator<Item = usize>>(cpus: T) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut cpu = 0;
        while cpu < Self::CPU_MAX {
            if !self.contains(cpu) {
                cpu += 1;
                continue;
            }
            let first = cpu;
            while self.contains(cpu + 1) {
                cpu += 1;
            }
            write!(f, "{separator}{first}")?;
            if cpu > first {
                write!(f, "-{cpu}")?;
            }
            separator = ",";
            cpu += 1;
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

/// A text that is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCpuList(String);

impl fmt::Display for BadCpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = CpuSet::CPU_MAX - 1;
        write!(f, "{:?} is no CPU and no range of CPUs, as in 0-3,6 (0 to {last})", self.0)
    }
}

impl std::error::Error for BadCpuList {}

impl FromStr for CpuSet {
    type Err = BadCpuList;

    /// Numbers and ranges with commas between; nothing is the empty set.
    fn from_str(text: &str) -> Result<Self, BadCpuList> {
        let mut set = Self::new();
        for item in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let bad = || BadCpuList(item.chars().take(40).collect());
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let number = |text: &str| text.trim().parse::<usize>().map_err(|_| bad());
            let (first, last) = (number(first)?, number(last)?);
            if first > last || last >= Self::CPU_MAX {
                return Err(bad());
            }
            for cpu in first..=last {
                set.insert(cpu);
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_printed_as_it_was_read() {
        for text in ["", "0", "1023", "0-3,6", "1,3,5-7", "0-1023"] {
            let set: CpuSet = text.parse().expect("a list");
            assert_eq!(set.to_string(), text);
        }
        let set: CpuSet = " 6, 2-3,3,0-1 \n".parse().expect("order and overlap do not matter");
        assert_eq!(set.to_string(), "0-3,6");
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 6]);
        assert_eq!(set.len(), 5);
    }

    #[test]
    fn what_is_no_list_is_refused_and_quoted() {
        for text in ["x", "-1", "3-1", "1024", "0-9999999999", "1,,2", "0-3:2", ",", "1-2-3"] {
            let error = text.parse::<CpuSet>().expect_err(text).to_string();
            assert!(error.contains("as in 0-3,6"), "{error}");
        }
    }

    #[test]
    fn what_this_thread_may_use_is_within_what_its_cpuset_leaves_it() {
        std::thread::spawn(|| {
            let cpu = CpuSet::allowed().iter().last().expect("some CPU runs this");
            let all = CpuSet::attainable().expect("affinity may change");
            CpuSet::only(cpu).apply_to_self().expect("the CPU was allowed a moment ago");
            assert_eq!(CpuSet::allowed(), CpuSet::only(cpu));
            assert_eq!(CpuSet::attainable().expect("affinity may change"), all);
            assert_eq!(CpuSet::allowed(), CpuSet::only(cpu), "the affinity is as it was");
            assert_eq!(all.intersection(&CpuSet::allowed()), CpuSet::allowed());
        })
        .join()
        .expect("no assertion failed");
    }

    #[test]
    fn no_cpu_at_all_is_refused_with_those_that_there_are() {
        let error = CpuSet::new().apply_to_self().expect_err("nothing can run nowhere");
        assert!(error.to_string().contains("choose among CPUs"), "{error}");
        assert!(!CpuSet::new().insert(CpuSet::CPU_MAX) && !CpuSet::allowed().contains(usize::MAX));
    }
}
