//! A chain without ports: packets go through its functions one at a time, and everything that each
//! function does is written down. The functions, their order and what lets packets wait are those
//! of a chain that runs; only ports and neighbours are not there.
//!
//! Packets of one [`Tracer`] follow one another: what one has begun, the next belongs to.

mod figures;
mod packet;
mod scene;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use base::{Nanos, PortId};
use calisto_nf::{Neighbour, NextHop, Verdict, Verdicts};
use calisto_slice::{SliceError, SliceSpec};
use port::Filter;
use shm::{Batch, Frame, FramePool, PoolConfig};
use wire::ethernet;

pub use figures::{Asked, Decided, End, Moved, SCHEMA_VERSION, Step, Trace, Way};
pub use packet::{IpFigures, PacketFigures};
pub use scene::Place;

use crate::error::ChainError;
use crate::file::ChainFile;
use crate::filter::wanted::{filter_of, has};
use crate::health::Health;
use crate::runner::make::{Parts, all_stages};
use crate::stage::Stage;
use crate::walk::{Half, walk};
use scene::Scene;

/// Frames: the packet, and all that may come of it.
const FRAMES: u32 = 256;
/// Ways that one packet may lead to: a cut one has as many as it has pieces.
const WAYS_MAX: usize = 256;

/// A chain that is traced.
pub struct Tracer {
    scene: Scene,
    stages: Vec<Stage>,
    pool: FramePool,
    /// What the chain takes; nothing: all.
    expression: Option<String>,
    /// The same, if there is who compiles it.
    filter: Option<Filter>,
    traced: u64,
    notes: Vec<String>,
}

impl Tracer {
    /// Makes the functions of the first slice of `file`, as a chain that starts now would have
    /// them. `folder` is where the chain's file lies.
    ///
    /// # Errors
    /// A file that it names is wrong, a function cannot be made, or `place` is not to be had.
    pub fn new(file: &ChainFile, folder: &Path, place: &Place) -> Result<Self, ChainError> {
        let scene = Scene::look(file, folder, place)?;
        let mut file = file.clone();
        file.slices.truncate(1);
        let health = Health::of(&file, &Health::default());
        let parts = Parts {
            folder,
            ports: &scene.ports,
            rib: Some(&scene.rib),
            gateway: scene.gateway.as_ref(),
            health: &health,
            follows: None,
        };
        let stages = all_stages(&parts, &file, &|_| false)?.pop().unwrap_or_default();
        let slice = file.slices.first();
        let by_itself = || {
            let filter = || filter_of(&file, scene.own.iter().copied());
            let filter = has(&file, "router").then(filter).flatten();
            filter.map(|filter| filter.expression)
        };
        let expression = slice.and_then(|slice| slice.filter.clone()).or_else(by_itself);
        let mut notes = Vec::new();
        if scene.is_imagined {
            notes.push(format!(
                "this machine was not asked: link addresses of {} are made up, and what is for one \
                 station of the link is taken to be for theirs",
                scene.ports.names()
            ));
        }
        let compiled = expression.as_deref().map(Filter::compile).transpose();
        let filter = compiled.or_else(|error| match error {
            port::FilterError::Compile {
                error: wrong @ sys::pcap::PcapError::NoLibrary { .. },
                ..
            } => {
                notes.push(format!("whether the chain takes a packet is not known: {wrong}"));
                Ok(None)
            }
            error => Err(SliceError::Filter { slice: format!("{}-0", file.name), error }),
        })?;
        let spec = SliceSpec::new("", Vec::new());
        let chunk_bytes = slice.and_then(|slice| slice.frame_bytes).unwrap_or(spec.frame_bytes);
        let config = PoolConfig { frames: FRAMES, chunk_bytes, numa_node: None };
        let pool = FramePool::new(config).map_err(|error| SliceError::Frames {
            slice: file.name.clone(),
            reason: error.to_string(),
        })?;
        Ok(Self { scene, stages, pool, expression, filter, traced: 0, notes })
    }

    /// What whoever reads traces of it should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The port of that name.
    pub fn port_named(&self, name: &str) -> Option<PortId> {
        self.scene.ports.named(name)
    }

    /// The names of its ports, for sentences.
    pub fn port_names(&self) -> String {
        self.scene.ports.names()
    }

    /// Lets a packet, which begins with its Ethernet header, through the chain. Without a port it
    /// comes by the one that it is for by its link address, or by which its sender is reached. A
    /// link address of zeros is that of its port, whichever that is. `now` does not go back from
    /// one packet to the next.
    ///
    /// # Errors
    /// Bytes that a frame of the chain has room for, when the packet has more.
    pub fn trace(
        &mut self,
        packet: &[u8],
        port: Option<PortId>,
        now: Nanos,
    ) -> Result<Trace, usize> {
        let Some(mut frame) = self.pool.take() else { return Err(0) };
        let room = frame.room();
        if !frame.fill(packet) {
            self.pool.give(frame);
            return Err(room);
        }
        let (port, because) = match port {
            Some(port) => (port, "as was asked for"),
            None => self.port_of(frame.bytes()),
        };
        let shown = PacketFigures::of(packet);
        if self.scene.is_imagined || frame.bytes().starts_with(&[0; 6]) {
            self.readdress(&mut frame, port);
        }
        frame.meta_mut().port = port;
        self.traced += 1;
        let is_taken = match (&self.expression, &self.filter) {
            (None, _) => Some(true),
            (Some(_), filter) => filter.as_ref().map(|filter| filter.matches(frame.bytes())),
        };
        let mut trace = Trace {
            schema_version: SCHEMA_VERSION,
            number: self.traced,
            port: self.name_of(port),
            port_because: because,
            packet: shown,
            filter: self.expression.clone(),
            is_taken,
            ways: Vec::new(),
        };
        if is_taken == Some(false) {
            self.pool.give(frame);
            return Ok(trace);
        }
        let mut batch = Batch::from_iter([frame]);
        let way = self.go(0, &mut batch, now);
        trace.ways.push(way);
        while trace.ways.len() < WAYS_MAX
            && let Some(from) = self.stages.iter().position(|stage| stage.is_due(now))
        {
            // One at a time, so that what functions count is of this one.
            let Self { stages, pool, .. } = self;
            let mut is_first = true;
            stages[from].release(&mut batch, now, &mut || {
                std::mem::take(&mut is_first).then(|| pool.take()).flatten()
            });
            if batch.is_empty() {
                break;
            }
            let way = self.go(from, &mut batch, now);
            trace.ways.push(way);
        }
        mark_waiting(&mut trace.ways);
        Ok(trace)
    }

    /// Takes the one packet of `batch`, which is empty then, through the functions from this place
    /// on.
    fn go(&mut self, from: usize, batch: &mut Batch, now: Nanos) -> Way {
        let Self { stages, scene, pool, .. } = self;
        let ports = &scene.ports;
        let mut counts: Vec<Vec<u64>> = stages.iter().map(counts_of).collect();
        let mut bytes = batch.first().map(|frame| frame.bytes().to_vec()).unwrap_or_default();
        let packet = PacketFigures::of(&bytes);
        let (mut steps, mut verdict) = (Vec::new(), Verdict::Next);
        let mut dropped_by = None;
        let mut verdicts = Verdicts::new();
        walk(stages, from, batch, &mut verdicts, now, |half, place, stage, batch, verdicts| {
            let counters = moved(stage, &mut counts[place]);
            let after = batch.first().map(Frame::bytes).unwrap_or_default();
            let (has_changed, has_decided) = (after != bytes, verdicts[0] != verdict);
            let was_asked = half == Half::Forth && verdict == Verdict::Next;
            if has_changed || has_decided || was_asked || !counters.is_empty() {
                steps.push(Step {
                    place: place + 1,
                    function: stage.name(),
                    is_leaving: half == Half::Back,
                    verdict: decided(verdicts[0], ports),
                    counters,
                    packet: has_changed.then(|| PacketFigures::of(after)),
                });
            }
            if has_decided && verdicts[0] == Verdict::Drop {
                dropped_by = Some(stage.name());
            }
            bytes.clear();
            bytes.extend_from_slice(after);
            verdict = verdicts[0];
        });
        batch.drain(..).for_each(|frame| pool.give(frame));
        let end = match verdict {
            Verdict::Out(port) => End::Leaves(name_of(ports, port)),
            Verdict::Drop => End::Dropped(dropped_by.unwrap_or_default().to_owned()),
            Verdict::Next => End::Undecided,
        };
        Way { packet, steps, end, asked: self.answer() }
    }

    /// Lets neighbours that were asked for answer, unless they are known not to.
    fn answer(&mut self) -> Vec<Asked> {
        let Self { stages, scene, .. } = self;
        let mut wanted = Vec::new();
        for stage in stages.iter_mut() {
            stage.take_wanted(|port, address| wanted.push((port, address)));
        }
        let mut asked = Vec::new();
        for (port, address) in wanted {
            let is_silent = scene.rib.neighbour(port, address).is_some();
            let mac = made_up(address);
            if !is_silent {
                let mut steps = Vec::new();
                scene.rib.set_neighbour(port, address, Some(Neighbour::At(mac)), &mut steps);
                for step in &steps {
                    stages.iter_mut().for_each(|stage| stage.apply(step));
                }
            }
            let port = name_of(&scene.ports, port);
            asked.push(Asked { port, address, assumed: (!is_silent).then(|| packet::mac(&mac)) });
        }
        asked
    }

    /// By which port a packet comes, as far as it says so, and how that is known.
    fn port_of(&self, frame: &[u8]) -> (PortId, &'static str) {
        let link = ethernet::Header::parse(frame).ok().map(|link| link.destination);
        let mut ports = self.scene.ports.each();
        if let Some((port, _)) = ports.find(|(_, at)| Some(at.mac) == link) {
            return (port, "which has the link address that it is for");
        }
        let source = PacketFigures::of(frame).ip.map(|ip| ip.source);
        match source.and_then(|source| self.way_to(source)) {
            Some(port) => (port, "by which its sender is reached"),
            None => (PortId(0), "the first one"),
        }
    }

    /// The port by which the router reaches an address.
    fn way_to(&self, address: IpAddr) -> Option<PortId> {
        let router = self.stages.iter().find_map(|stage| match stage {
            Stage::Router(router) => Some(router),
            _ => None,
        })?;
        let fib = router.fib();
        let hop = match address {
            IpAddr::V4(four) => fib.four.lookup(Ipv4Addr::to_bits(four)),
            IpAddr::V6(six) => fib.six.lookup(Ipv6Addr::to_bits(six)),
        };
        match fib.hop(hop)?.to {
            NextHop::Gateway { port, .. } | NextHop::OnLink { port } => Some(port),
            _ => None,
        }
    }

    /// Where nobody knows the port's link address, the packet is for that.
    fn readdress(&self, frame: &mut Frame, port: PortId) {
        let Some(at) = self.scene.ports.interface(port) else { return };
        if let Some(to) = frame.bytes_mut().first_chunk_mut::<6>()
            && !ethernet::is_group(*to)
        {
            *to = at.mac;
        }
    }

    fn name_of(&self, port: PortId) -> String {
        name_of(&self.scene.ports, port)
    }
}

fn name_of(ports: &crate::ports::Ports, port: PortId) -> String {
    ports.interface(port).map_or_else(|| format!("port {}", port.0), |at| at.name.clone())
}

fn decided(verdict: Verdict, ports: &crate::ports::Ports) -> Decided {
    match verdict {
        Verdict::Next => Decided::Next,
        Verdict::Out(port) => Decided::Leaves(name_of(ports, port)),
        Verdict::Drop => Decided::Drop,
    }
}

fn counts_of(stage: &Stage) -> Vec<u64> {
    let mut counts = Vec::new();
    stage.counters(&mut |_, _, value| counts.push(value));
    counts
}

/// Counters that are not what they were, which they are then.
fn moved(stage: &Stage, before: &mut [u64]) -> Vec<Moved> {
    let mut moved = Vec::new();
    let mut before = before.iter_mut();
    stage.counters(&mut |name, help, value| {
        let Some(before) = before.next() else { return };
        let by = value.wrapping_sub(std::mem::replace(before, value)).cast_signed();
        if by != 0 {
            let (name, help) = (name.as_ref().to_owned(), help.as_ref().to_owned());
            moved.push(Moved { name, by, help });
        }
    });
    moved
}

/// A link address for a neighbour that nobody has seen: its own for each of a link.
fn made_up(address: IpAddr) -> [u8; 6] {
    let last = match address {
        IpAddr::V4(four) => four.to_bits(),
        IpAddr::V6(six) => six.to_bits() as u32,
    };
    let [a, b, c, d] = last.to_be_bytes();
    [2, 1, a, b, c, d]
}

/// Whoever was kept for a neighbour is the packet of the next way.
fn mark_waiting(ways: &mut [Way]) {
    for at in 1..ways.len() {
        let has_waited = !ways[at - 1].asked.is_empty();
        if has_waited && matches!(ways[at - 1].end, End::Dropped(_)) {
            ways[at - 1].end = End::Waits;
        }
    }
}

#[cfg(test)]
mod tests;
