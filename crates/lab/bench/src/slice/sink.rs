//! The end of the way: every packet of ours is counted and dropped by XDP, as early as can be.

use std::time::Duration;

use super::tools::Tools;
use super::wires::{OUT, Wires};
use crate::error::{Error, OrNeeds};
use crate::process::Process;

/// What came by in a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) packets: u64,
    /// Those of them that a router has seen: one hop less to go.
    pub(super) routed: u64,
    pub(super) seconds: f64,
}

impl Window {
    /// Millions of packets a second.
    pub(super) fn mpps(self) -> f64 {
        self.packets as f64 / self.seconds / 1e6
    }
}

/// Ended when dropped, and its program in the kernel with it.
pub(super) struct Sink(Process);

impl Sink {
    /// Takes what comes by the second wire, from now on.
    pub(super) fn start(tools: &Tools, wires: &Wires, cpu: usize) -> Result<Self, Error> {
        let mut command = wires.outer().command(tools.xdp.path());
        command.args(["drop", OUT]);
        let mut process = Process::talk(command, cpu)?;
        process.heard("ready")?;
        Ok(Self(process))
    }

    /// Counts for that time.
    pub(super) fn count(&mut self, length: Duration) -> Result<Window, Error> {
        self.0.say(&length.as_millis().to_string())?;
        let line = self.0.line()?;
        window_in(&line).ok_or(format!("it says {line:?}")).or_needs("count of the sink")
    }
}

/// Of "PACKETS ROUTED NANOSECONDS".
fn window_in(line: &str) -> Option<Window> {
    let mut words = line.split(' ').map(str::parse::<u64>);
    let mut next = || words.next()?.ok();
    let (packets, routed, nanos) = (next()?, next()?, next()?);
    (nanos > 0).then_some(Window { packets, routed, seconds: nanos as f64 / 1e9 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_three_numbers_and_takes_time() {
        let window = window_in("500000 20 250000000").expect("three numbers");
        assert_eq!(window, Window { packets: 500_000, routed: 20, seconds: 0.25 });
        assert_eq!(window.mpps(), 2.0);
        for bad in ["", "1 2", "1 2 0", "1 -2 3", "ready"] {
            assert_eq!(window_in(bad), None, "{bad:?}");
        }
    }
}
