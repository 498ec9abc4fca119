//! The questions that several commands ask, each with the answer of its kind.

use admin::{AppStatus, Command, CoresStatus, FlowRow, ReplyBody, Status, SteerStatus};
use admin::{FallbackTotal, ThreadCounters};

use super::Daemon;
use crate::failure::Failure;

impl Daemon {
    /// The daemon as it is.
    ///
    /// # Errors
    ///
    /// The daemon cannot be asked, or answers something else; so with all of these.
    pub fn status(&self) -> Result<Status, Failure> {
        match self.ask(Command::Status)? {
            ReplyBody::Status(status) => Ok(status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Every counter, thread by thread.
    ///
    /// # Errors
    ///
    /// As with [`Self::status`].
    pub fn counters(&self) -> Result<Vec<ThreadCounters>, Failure> {
        match self.ask(Command::Stats)? {
            ReplyBody::Stats { threads } => Ok(threads),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The cores that it gives out.
    ///
    /// # Errors
    ///
    /// As with [`Self::status`].
    pub fn cores(&self) -> Result<CoresStatus, Failure> {
        match self.ask(Command::Cores)? {
            ReplyBody::Cores(cores) => Ok(cores),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The applications that are attached, then those that are gone.
    ///
    /// # Errors
    ///
    /// As with [`Self::status`].
    pub fn apps(&self) -> Result<Vec<AppStatus>, Failure> {
        match self.ask(Command::Apps)? {
            ReplyBody::Apps { apps } => Ok(apps),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The heaviest flows, at most `count`.
    ///
    /// # Errors
    ///
    /// As with [`Self::status`].
    pub fn flows(&self, count: u32) -> Result<Vec<FlowRow>, Failure> {
        match self.ask(Command::Flows { count })? {
            ReplyBody::Flows { flows } => Ok(flows),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The steering as it is.
    ///
    /// # Errors
    ///
    /// As with [`Self::status`].
    pub fn steering(&self) -> Result<SteerStatus, Failure> {
        match self.ask(Command::SteerShow)? {
            ReplyBody::Steer(status) => Ok(status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// How many sockets the kernel has kept, by reason. Only a daemon that serves the sockets of
    /// programs answers.
    ///
    /// # Errors
    ///
    /// As with [`Self::status`].
    pub fn fallbacks(&self) -> Result<Vec<FallbackTotal>, Failure> {
        match self.ask(Command::Fallbacks)? {
            ReplyBody::Fallbacks { totals, .. } => Ok(totals),
            other => Err(self.unexpected(&other)),
        }
    }
}
