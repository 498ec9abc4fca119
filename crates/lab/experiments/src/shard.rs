//! A part of a sweep, so that many machines do it together.

use std::fmt;
use std::str::FromStr;

/// The most parts that a sweep is cut into.
const PARTS_MAX: u32 = 100_000;

/// Part `part` of `parts`, both from 1: every `parts`-th job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    part: u32,
    parts: u32,
}

impl Shard {
    /// The whole.
    pub const WHOLE: Self = Self { part: 1, parts: 1 };

    /// Whether it has this job, counted from 0.
    pub fn has(self, job: usize) -> bool {
        job % self.parts as usize == self.part as usize - 1
    }

    /// Whether it is everything.
    pub fn is_whole(self) -> bool {
        self.parts == 1
    }

    /// What the file of its results is called besides the figure's name.
    pub fn suffix(self) -> String {
        if self.is_whole() {
            String::new()
        } else {
            format!(".shard-{}-of-{}", self.part, self.parts)
        }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{:?} is no part of a sweep: write i/n with i from 1 to n and n up to {PARTS_MAX}, such as 3/16",
                crate::error::shorten(text)
            )
        };
        let (part, parts) = text.split_once('/').ok_or_else(wrong)?;
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| wrong());
        let (part, parts) = (number(part)?, number(parts)?);
        let fits = (1..=PARTS_MAX).contains(&parts) && (1..=parts).contains(&part);
        if fits { Ok(Self { part, parts }) } else { Err(wrong()) }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_in_one_shard() {
        for parts in [1, 2, 7] {
            let shards = (1..=parts).map(|part| Shard { part, parts });
            let shards: Vec<Shard> = shards.collect();
            for job in 0..20 {
                assert_eq!(shards.iter().filter(|shard| shard.has(job)).count(), 1);
            }
        }
    }

    #[test]
    fn what_is_no_shard_is_refused_with_an_example() {
        assert_eq!("2/4".parse(), Ok(Shard { part: 2, parts: 4 }));
        assert_eq!(Shard { part: 2, parts: 4 }.suffix(), ".shard-2-of-4");
        for text in ["", "1", "0/4", "5/4", "1/0", "-1/4", "1/100001", "a/b", "1/4/2"] {
            let sentence = text.parse::<Shard>().expect_err(text);
            assert!(sentence.contains("3/16"), "{sentence}");
        }
    }
}
