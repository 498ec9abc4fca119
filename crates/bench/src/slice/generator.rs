//! Frames that the kernel makes by itself ("live frames"), as fast as it can or at a rate.

use std::time::Duration;

use super::tools::Tools;
use super::wires::{DESTINATION, DESTINATION_BITS, IN, SINK_MAC, Wires};
use crate::error::Error;
use crate::sockets::running::Running;

/// It ends by itself after this, whatever becomes of us.
const LONGEST: Duration = Duration::from_secs(30);

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Traffic {
    /// Bytes of a frame, without its checksum.
    pub(super) frame_bytes: usize,
    /// Packets a second; nothing for as many as it can.
    pub(super) rate: Option<f64>,
    /// To the forwarder's link address, as a router wants it; else past it, to the sink's, as what a
    /// bridge forwards.
    pub(super) to_router: bool,
}

/// The generator, under way. Ended when dropped.
pub(super) struct Generator(Running);

impl Generator {
    /// Sends `traffic` into the first wire.
    pub(super) fn start(
        tools: &Tools,
        wires: &Wires,
        cpu: usize,
        traffic: Traffic,
    ) -> Result<Self, Error> {
        let Traffic { frame_bytes, rate, to_router } = traffic;
        let mac = |side: &testbed::Side| side.mac().map(|byte| format!("{byte:02x}")).join(":");
        let (outer, inner) = (wires.outer(), wires.inner());
        let to = if to_router { mac(inner) } else { SINK_MAC.to_owned() };
        let mut command = outer.command(tools.xdp.path());
        command.args(["send", IN, &to, &mac(outer), &outer.ipv4().to_string()]);
        command.arg(format!("{DESTINATION}/{DESTINATION_BITS}"));
        command.arg(frame_bytes.to_string());
        // Zero is the program's word for "as it can".
        command.arg((rate.unwrap_or(0.0).round() as u64).to_string());
        command.arg(LONGEST.as_millis().to_string());
        Running::start(command, cpu).map(Self)
    }

    /// An error if it has ended.
    pub(super) fn unless_ended(&mut self) -> Result<(), Error> {
        self.0.unless_ended()
    }
}
