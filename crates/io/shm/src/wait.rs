//! How a consumer waits: look directly, pause for as long as experience says it pays, then sleep.
//!
//! A spin costs CPU and a sleep costs the wake-up: tens of microseconds on a halted CPU. Which one
//! is cheaper depends on when the next item comes, and the best guess at that is when the last ones
//! came: [`sched::SpinBudget`] learns it, [`WaitStrategy`] turns it into the next step, [`CpuWait`]
//! is the best way to pause that this CPU has. [`Wait`] puts them together over any means of
//! sleeping (futex, eventfd, epoll over sockets and eventfds), which the caller chooses: it knows
//! what else it waits for.
//!
//! [`WaitStrategy`]: sched::WaitStrategy
//! [`CpuWait`]: crate::wait::CpuWait
//! [`Wait`]: crate::Wait

mod cpu;

use base::Nanos;
use sched::{Step, WaitConfig, WaitStrategy};

use crate::doorbell::Doorbell;
use crate::sync::AtomicU64;

pub use cpu::CpuWait;

/// One consumer's way of waiting, with what it has learned.
#[derive(Clone, Debug)]
pub struct Wait {
    wait_strategy: WaitStrategy,
    cpu: CpuWait,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Something is ready.
    Ready,
    /// The deadline has passed.
    TimedOut,
}

/// What a wait asks of its caller, which alone may read clocks and make system calls.
pub trait Surroundings {
    /// Whether there is anything to do: a ready set that is not quiet, a ring that is not empty.
    fn is_ready(&mut self) -> bool;

    /// The time.
    fn now(&mut self) -> Nanos;

    /// Whether a thread on this very CPU owes us something that it can only do when we yield.
    fn is_owed(&mut self) -> bool {
        false
    }

    /// Lets others on this CPU run: sched_yield(2).
    fn yield_cpu(&mut self);

    /// Sleeps until the doorbell was rung or anything else comes that is waited for, for at most so
    /// long ([`Nanos::FAR_FUTURE`]: without an end). The doorbell is armed and nothing was ready
    /// after that. Returning early does no harm.
    fn sleep(&mut self, doorbell: &Doorbell, most: Nanos);
}

impl Wait {
    /// With what this CPU has to offer, found out now.
    pub fn new(config: WaitConfig) -> Self {
        Self { wait_strategy: WaitStrategy::new(config), cpu: CpuWait::probe() }
    }

    /// Waits until something is ready, at most until `deadline` ([`Nanos::FAR_FUTURE`]: for ever).
    /// `doorbell` is the consumer's own, and `word` one that changes when something becomes ready
    /// ([`crate::ReadySet::summary`]).
    pub fn until_ready(
        &mut self,
        doorbell: &Doorbell,
        word: &AtomicU64,
        deadline: Nanos,
        surroundings: &mut impl Surroundings,
    ) -> Waited {
        let mut asleep_since = None;
        loop {
            if surroundings.is_ready() {
                let now = surroundings.now();
                // What ended a sleep came before the wake-up that it cost.
                let woken = Nanos(now.0.saturating_sub(self.wait_strategy.budget().wake_cost().0));
                self.wait_strategy.found(asleep_since.map_or(now, |since| woken.max(since)));
                return Waited::Ready;
            }
            let now = surroundings.now();
            if now >= deadline {
                return Waited::TimedOut;
            }
            match self.wait_strategy.nothing(now, surroundings.is_owed()) {
                Step::Pause => self.cpu.pause(word),
                Step::Yield => surroundings.yield_cpu(),
                Step::Sleep => {
                    doorbell.arm();
                    if !surroundings.is_ready() {
                        asleep_since.get_or_insert(now);
                        let most = match deadline {
                            Nanos::FAR_FUTURE => deadline,
                            deadline => deadline.since(now),
                        };
                        surroundings.sleep(doorbell, most);
                    }
                    doorbell.disarm();
                }
            }
        }
    }

    /// How it pauses.
    pub fn cpu(&self) -> CpuWait {
        self.cpu
    }

    /// The steps and what they have learned.
    pub fn wait_strategy(&mut self) -> &mut WaitStrategy {
        &mut self.wait_strategy
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
