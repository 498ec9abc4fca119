//! Frames that the kernel makes by itself ("live frames"), as fast as it can or at a rate.

use std::time::Duration;

use rustix::process::Signal;

use super::tools::Tools;
use super::wires::{DESTINATION, DESTINATION_BITS, IN, INNER_MACS, SINK_MAC, Wires, mac_text};
use crate::error::{Error, OrNeeds};
use crate::process::Process;

/// It ends by itself after this, whatever becomes of us.
const LONGEST: Duration = Duration::from_secs(30);

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Traffic {
    /// Bytes of a frame, without its checksum.
    pub(super) frame_bytes: usize,
    /// Packets a second; nothing for as many as it can.
    pub(super) rate: Option<f64>,
}

/// The generator, under way. Ended when dropped.
pub(super) struct Generator(Process);

impl Generator {
    /// Sends `traffic` into the first wire: `to_router`, to the forwarder's link address, as a
    /// router wants it; else past it, to the sink's, as what a bridge forwards.
    pub(super) fn start(
        tools: &Tools,
        wires: &Wires,
        cpu: usize,
        traffic: Traffic,
        to_router: bool,
    ) -> Result<Self, Error> {
        let Traffic { frame_bytes, rate } = traffic;
        let outer = wires.outer();
        let to = mac_text(if to_router { INNER_MACS[0] } else { SINK_MAC });
        let from = mac_text(outer.mac());
        let mut command = outer.command(tools.xdp.path());
        command.args(["send", IN, &to, &from, &outer.ipv4().to_string()]);
        command.arg(format!("{DESTINATION}/{DESTINATION_BITS}"));
        command.arg(frame_bytes.to_string());
        // Zero is the program's word for "as it can".
        command.arg((rate.unwrap_or(0.0).round() as u64).to_string());
        command.arg(LONGEST.as_millis().to_string());
        let mut process = Process::talk(command, cpu)?;
        process.heard("ready")?;
        Ok(Self(process))
    }

    /// An error if it has ended.
    pub(super) fn unless_ended(&mut self) -> Result<(), Error> {
        self.0.unless_ended()
    }

    /// Ends it; how many millions of packets a second it has sent.
    pub(super) fn end(mut self) -> Result<f64, Error> {
        self.0.signal(Signal::TERM);
        let line = self.0.line()?;
        mpps_in(&line).ok_or(format!("it says {line:?}")).or_needs("count of the generator")
    }
}

/// Of "sent PACKETS NANOSECONDS".
fn mpps_in(line: &str) -> Option<f64> {
    let (packets, nanos) = line.strip_prefix("sent ")?.split_once(' ')?;
    let (packets, nanos): (u64, u64) = (packets.parse().ok()?, nanos.parse().ok()?);
    (nanos > 0).then(|| packets as f64 * 1e3 / nanos as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_a_rate() {
        assert_eq!(mpps_in("sent 3000000 1500000000"), Some(2.0));
        for bad in ["", "sent 3", "sent 3 0", "3 4", "sent x 4"] {
            assert_eq!(mpps_in(bad), None, "{bad:?}");
        }
    }
}
