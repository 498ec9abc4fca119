//! Two wires with a generator and a sink: what a forwarder between them hands on.

use std::time::Duration;

use base::Nanos;
use sys::clock::now;

use super::forwarder::Forwarder;
use super::generator::{Generator, Traffic};
use super::sink::Sink;
use super::tools::Tools;
use super::wires::Wires;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::place::Cpus;

/// How long a forwarder may take until packets come through.
const TIMEOUT: Nanos = Nanos::from_secs(10);

/// What comes through at first is not counted.
const WARM_UP: Duration = Duration::from_millis(100);

/// Millions of packets a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Through {
    /// What the generator sent, from its start to its end.
    pub(super) offered_mpps: f64,
    /// What came to the sink.
    pub(super) mpps: f64,
}

/// Everything but the forwarder.
pub(super) struct Rig {
    cpus: Cpus,
    tools: Tools,
    /// Before the wires: it ends with its input, not with its namespace.
    sink: Sink,
    wires: Wires,
}

impl Rig {
    /// Makes the wires and waits at their end.
    pub(super) fn new(cpus: Cpus) -> Result<Self, Error> {
        let tools = Tools::new()?;
        let wires = Wires::new()?;
        let sink = Sink::start(&tools, &wires, cpus.client)?;
        Ok(Self { cpus, tools, sink, wires })
    }

    /// What comes through `forwarder` in a while of `length`.
    pub(super) fn measure(
        &mut self,
        forwarder: Forwarder,
        traffic: Traffic,
        length: Duration,
    ) -> Result<Through, Error> {
        let Self { cpus, tools, sink, wires } = self;
        let to_router = forwarder.routes();
        wires.restore()?;
        wires.let_kernel_forward(forwarder.asks_kernel())?;
        let mut started = forwarder.start(tools, wires, *cpus)?;
        let mut generator = Generator::start(tools, wires, cpus.client, traffic, to_router)?;
        let began = now();
        while sink.count(Duration::from_millis(10))?.packets == 0 {
            unless_interrupted()?;
            started.unless_ended()?;
            generator.unless_ended()?;
            if now().since(began) > TIMEOUT {
                let why = format!("none in {TIMEOUT}; it says: {}", started.said());
                return Err(why).or_needs("packet that comes through");
            }
        }
        sink.count(WARM_UP)?;
        let window = sink.count(length)?;
        started.unless_ended()?;
        generator.unless_ended()?;
        // Else somebody else has forwarded them.
        if window.routed != if to_router { window.packets } else { 0 } {
            let why = format!("{} of {} were routed", window.routed, window.packets);
            return Err(why).or_needs("forwarder that is alone");
        }
        Ok(Through { offered_mpps: generator.end()?, mpps: window.mpps() })
    }
}
