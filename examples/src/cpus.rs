//! A list of CPUs, as people write it.

use std::str::FromStr;

/// CPUs, such as `0,2-3`; worker n runs on the n-th, from the front again when there are too few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(Vec<usize>);

/// Beyond this a number is a slip.
const CPU_MAX: usize = 4095;

impl Cpus {
    /// The CPU of a worker.
    pub fn of(&self, worker: usize) -> usize {
        self.0[worker % self.0.len()]
    }
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("write CPUs up to {CPU_MAX} as a list, such as 0,2-3");
        let number = |text: &str| {
            text.trim().parse::<usize>().ok().filter(|&cpu| cpu <= CPU_MAX).ok_or_else(wrong)
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_go_through_the_list_and_begin_again() {
        let cpus: Cpus = "3,0-1".parse().expect("a list");
        assert_eq!((0..5).map(|worker| cpus.of(worker)).collect::<Vec<_>>(), [3, 0, 1, 3, 0]);
    }

    #[test]
    fn what_is_no_list_is_refused_with_an_example() {
        for text in ["", "1,", "a", "3-1", "-1", "1-2-3", "4096", "0-99999999999"] {
            let error = text.parse::<Cpus>().expect_err(text);
            assert!(error.contains("such as 0,2-3"), "{error}");
        }
    }
}
