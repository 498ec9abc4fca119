//! How much CPU a program gives for a shorter wait.

use std::fmt;
use std::str::FromStr;

use base::Nanos;

/// How the daemon and the program wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// The daemon spins for a while before it sleeps, and a program lets it run before it sleeps
    /// itself: the shortest answers.
    #[default]
    Latency,
    /// The daemon spins, a program sleeps at once: for programs that have other work to do.
    Throughput,
    /// Nobody spins: an idle moment costs nothing.
    Safe,
}

impl Profile {
    /// Its name, as `calisto run --profile` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Safe => "safe",
        }
    }

    /// For so many microseconds the daemon looks before it sleeps.
    pub const fn spin_us(self) -> u32 {
        match self {
            // A halted CPU needs 25 us and more to answer: less would be given away.
            Self::Latency | Self::Throughput => 50,
            Self::Safe => 0,
        }
    }

    /// For so many microseconds a program that waits lets others run and looks before it sleeps.
    pub const fn yield_us(self) -> u32 {
        match self {
            Self::Latency => 10,
            Self::Throughput | Self::Safe => 0,
        }
    }

    pub(crate) const fn yield_for(self) -> Nanos {
        Nanos::from_micros(self.yield_us() as u64)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No profile has this name; as a sentence it names those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchProfile;

impl fmt::Display for NoSuchProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such profile: use latency, throughput or safe")
    }
}

impl std::error::Error for NoSuchProfile {}

impl FromStr for Profile {
    type Err = NoSuchProfile;

    fn from_str(name: &str) -> Result<Self, NoSuchProfile> {
        let all = [Self::Latency, Self::Throughput, Self::Safe];
        all.into_iter().find(|profile| profile.name() == name).ok_or(NoSuchProfile)
    }
}

/// What somebody who has found nothing does before the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Lets others on this CPU run: sched_yield(2).
    Yield,
    /// Sleeps until woken.
    Sleep,
}

/// One wait: yields for as long as the profile says, then sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    yield_for: Nanos,
    since: Option<Nanos>,
}

impl Patience {
    pub(crate) fn new(profile: Profile) -> Self {
        Self { yield_for: profile.yield_for(), since: None }
    }

    /// Whether the first step needs no clock: nobody yields.
    pub(crate) fn sleeps_at_once(&self) -> bool {
        self.yield_for == Nanos::ZERO
    }

    /// Nothing was there at `now`.
    pub(crate) fn nothing(&mut self, now: Nanos) -> Step {
        let waited = now.since(*self.since.get_or_insert(now));
        if waited < self.yield_for { Step::Yield } else { Step::Sleep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_have_the_names_that_the_command_line_takes() {
        for profile in [Profile::Latency, Profile::Throughput, Profile::Safe] {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let error = "fast".parse::<Profile>().expect_err("there is none");
        assert!(error.to_string().contains("throughput"));
    }

    #[test]
    fn a_latency_program_yields_for_its_time_and_then_sleeps() {
        let mut patience = Patience::new(Profile::Latency);
        let start = Nanos::from_millis(5);
        assert_eq!(patience.nothing(start), Step::Yield);
        assert_eq!(patience.nothing(start + Nanos(9_999)), Step::Yield);
        assert_eq!(patience.nothing(start + Nanos(10_000)), Step::Sleep);
        assert!(!patience.sleeps_at_once());
    }

    #[test]
    fn other_programs_sleep_at_once() {
        for profile in [Profile::Throughput, Profile::Safe] {
            let mut patience = Patience::new(profile);
            assert!(patience.sleeps_at_once());
            assert_eq!(patience.nothing(Nanos::from_millis(5)), Step::Sleep);
        }
    }
}
