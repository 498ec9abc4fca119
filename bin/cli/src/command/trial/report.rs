//! What a trial has found, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::daemon_side::Carried;
use super::turn::Turn;
use crate::command::run::accelerate::Plan;
use crate::failure::Failure;
use crate::table::{Cell, Table, grouped};

/// Of the JSON; a reader that knows another one should not guess.
const SCHEMA_VERSION: u32 = 1;

/// A trial.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    schema_version: u32,
    /// What was said before.
    plan: Plan,
    /// The run on the kernel's stack, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<Turn>,
    accelerated: Turn,
    carried: Carried,
}

impl Report {
    pub(super) fn new(
        plan: Plan,
        kernel: Option<Turn>,
        accelerated: Turn,
        carried: Carried,
    ) -> Self {
        Self { schema_version: SCHEMA_VERSION, plan, kernel, accelerated, carried }
    }

    /// For people, or as a line of JSON.
    pub(super) fn render(&self, json: bool) -> Result<String, Failure> {
        match json {
            true => Ok(serde_json::to_string(self).map_err(Failure::new)? + "\n"),
            false => Ok(format!("\n{self}")),
        }
    }

    fn times(&self) -> String {
        let mut table = Table::new(["", "exit code", "time", "CPU time", "of the daemon"]);
        let mut row = |name: &str, turn: &Turn, daemon: Option<f64>| {
            table.row([
                name.into(),
                u64::from(turn.exit_code).into(),
                Cell::decimal(turn.wall_seconds, 2, " s"),
                Cell::decimal(turn.cpu_seconds, 2, " s"),
                Cell::decimal(daemon.unwrap_or(f64::NAN), 2, " s"),
            ]);
        };
        if let Some(kernel) = &self.kernel {
            row("kernel", kernel, None);
        }
        row("Calisto", &self.accelerated, Some(self.carried.daemon_cpu_seconds));
        table.render()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Carried { connections, bytes_received, bytes_sent, .. } = self.carried;
        let Carried { sockets_seen, within_host_seen, .. } = self.carried;
        let is_idle = connections + bytes_received + bytes_sent + sockets_seen == 0;
        f.write_str(match is_idle {
            true => "Nothing went through the data plane.\n",
            false => "Through the data plane:\n",
        })?;
        if !is_idle {
            writeln!(
                f,
                "  over the wire  {} connections, {} bytes received, {} bytes sent\n  \
                 sockets seen   {}, of which {} were connections within the host",
                grouped(connections),
                grouped(bytes_received),
                grouped(bytes_sent),
                grouped(sockets_seen),
                grouped(within_host_seen),
            )?;
        }
        if self.carried.has_others {
            f.write_str("  Other programs were attached meanwhile, and are counted too.\n")?;
        }
        match self.carried.left_to_kernel.is_empty() {
            true => f.write_str("No socket was left to the kernel.\n")?,
            false => f.write_str("Left to the kernel:\n")?,
        }
        for (reason, count) in &self.carried.left_to_kernel {
            writeln!(f, "  {} sockets: {reason}", grouped(*count))?;
        }
        write!(f, "\n{}", self.times())?;
        if self.kernel.is_some() {
            // A worker that waits on its CPU has that as its time, whatever it does.
            f.write_str(
                "The daemon's CPU time holds what its workers have waited on their CPUs.\n",
            )?;
        }
        Ok(())
    }
}
