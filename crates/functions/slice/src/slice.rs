//! A slice: its ports, their frames, its CPUs.
//!
//! What must hold: every frame is in the pool, with a port, or in a batch of the caller's. So
//! whatever a caller reads it must write or give back; what it drops is lost to the pool, which
//! counts it.

use std::sync::Arc;

use base::{Nanos, PortId};
use port::{AnyPort, Filter, Opener, Port, PortSpec};
use sched::{WaitConfig, WaitStrategy};
use shm::{Batch, Frame, FramePool, PoolConfig};
use sys::cpu_set::CpuSet;
use sys::eventfd::EventFd;
use sys::numa;
use sys::poll_set::PollSet;

use crate::filter::Filtering;
use crate::{SliceCounters, SliceError, SliceSpec};

/// Ports of a slice, at most: as many as can be waited for beside its waker.
const PORTS_MAX: usize = sys::poll::WAIT_MAX - 1;

/// One queue of every chosen port, some CPUs, and the memory of their packets. One thread owns it.
pub struct Slice<P: Port = AnyPort> {
    pub(crate) name: String,
    pub(crate) ports: Vec<P>,
    pub(crate) pool: FramePool,
    pub(crate) cpus: CpuSet,
    /// The place of the port that is looked at next.
    pub(crate) turn: usize,
    pub(crate) filtering: Filtering,
    /// What a wait has found and no reader has taken yet.
    pub(crate) found: Batch,
    /// By port: what a write sends there. Empty between calls.
    pub(crate) leaving: Vec<Batch>,
    pub(crate) counters: SliceCounters,
    pub(crate) wait_strategy: WaitStrategy,
    pub(crate) wake: Arc<EventFd>,
    /// The descriptors of the waker and the ports, once somebody has asked for it: while the kernel
    /// has to tell it of each packet, each packet costs a lock more.
    pub(crate) readable: Option<PollSet>,
}

impl SliceSpec {
    /// What is wrong with it whatever there is on this machine; its filter, compiled.
    ///
    /// # Errors
    /// As [`Slice::open`], as far as that can be known without a port.
    pub fn check(&self) -> Result<Option<Filter>, SliceError> {
        let slice = || self.name.clone();
        if let Some(port) = twice(&self.ports) {
            return Err(SliceError::SameQueue { slice: slice(), port });
        }
        check_count(&self.name, self.ports.len())?;
        let filter = self.filter.as_deref().map(Filter::compile).transpose();
        filter.map_err(|error| SliceError::Filter { slice: slice(), error })
    }
}

impl Slice<AnyPort> {
    /// Opens the ports of `spec`, in the calling thread's network namespace, over memory that is
    /// near its CPUs.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn open(spec: &SliceSpec) -> Result<Self, SliceError> {
        let filter = spec.check()?;
        let SliceSpec { name, ports: _, cpus, frames, frame_bytes, filter: _ } = spec;
        let numa_node = node_of(cpus);
        let config = PoolConfig { frames: *frames, chunk_bytes: *frame_bytes, numa_node };
        let mut pool = numa::prefer(numa_node, || FramePool::new(config)).map_err(|error| {
            SliceError::Frames { slice: name.clone(), reason: error.to_string() }
        })?;
        let mut opener = Opener::new(&pool);
        opener.set_filter(filter.clone());
        let mut ports = Vec::with_capacity(spec.ports.len());
        for (index, port) in spec.whole_ports().enumerate() {
            match opener.open(&port, PortId(index as u16), &mut pool) {
                Ok(port) => ports.push(port),
                Err(error) => {
                    ports.iter_mut().for_each(|port: &mut AnyPort| port.close(&mut pool));
                    return Err(SliceError::port(name, &port, error));
                }
            }
        }
        let mut slice = Self::over(ports, pool, *cpus)?;
        slice.name.clone_from(name);
        if let Some(filter) = &filter {
            slice.attach_filter(filter)?;
        }
        Ok(slice)
    }
}

impl<P: Port> Slice<P> {
    /// A slice of ports that are open, over the pool that they were opened with; the n-th of them
    /// is `PortId(n)`.
    ///
    /// # Errors
    /// No ports or too many, or the process has no descriptors left.
    pub fn over(ports: Vec<P>, pool: FramePool, cpus: CpuSet) -> Result<Self, SliceError> {
        let name = "slice";
        check_count(name, ports.len())?;
        let wake = Arc::new(EventFd::new()?);
        Ok(Self {
            name: name.to_owned(),
            leaving: ports.iter().map(|_| Batch::new()).collect(),
            ports,
            pool,
            cpus,
            turn: 0,
            filtering: Filtering::default(),
            found: Batch::new(),
            counters: SliceCounters::default(),
            wait_strategy: WaitStrategy::new(WaitConfig::default()),
            wake,
            readable: None,
        })
    }

    /// An empty frame, for a packet of one's own; `None` when all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        self.pool.take()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its ports, in the order of their ids: what they are, what they have counted, what is wrong.
    pub fn ports(&self) -> &[P] {
        &self.ports
    }

    /// Its frames: for whoever holds the other end of a wire in memory, and to count them.
    pub fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    /// The CPUs that its thread is to run on; none: wherever it is.
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Changes the CPUs of its thread, which [`Slice::pin`] then takes.
    pub fn set_cpus(&mut self, cpus: CpuSet) {
        self.cpus = cpus;
    }

    /// Lets the calling thread, which is to be the slice's own, run on the slice's CPUs only.
    ///
    /// # Errors
    /// None of them exists, or the cpuset forbids them all.
    pub fn pin(&self) -> Result<(), SliceError> {
        if self.cpus.is_empty() { Ok(()) } else { Ok(self.cpus.apply_to_self()?) }
    }

    /// What it has counted; each port has counted more ([`Port::counters`]).
    pub fn counters(&self) -> SliceCounters {
        self.counters
    }

    /// What waiting may cost: more spinning where its CPU is its own.
    pub fn set_wait(&mut self, config: WaitConfig) {
        self.wait_strategy = WaitStrategy::new(config);
    }

    /// Stops all ports and takes their frames home; how many frames are still in the caller's
    /// hands. Nothing moves after it.
    pub fn close(&mut self) -> usize {
        let Self { ports, pool, found, .. } = self;
        found.drain(..).for_each(|frame| pool.give(frame));
        ports.iter_mut().for_each(|port| port.close(pool));
        pool.outstanding()
    }

    /// Pushes on what earlier writes could not finish.
    pub fn flush(&mut self, now: Nanos) {
        let Self { ports, pool, .. } = self;
        ports.iter_mut().for_each(|port| port.flush(pool, now));
    }
}

impl<P: Port> Drop for Slice<P> {
    fn drop(&mut self) {
        self.close();
    }
}

fn check_count(name: &str, ports: usize) -> Result<(), SliceError> {
    match ports {
        0 => Err(SliceError::NoPorts { slice: name.to_owned() }),
        1..=PORTS_MAX => Ok(()),
        _ => Err(SliceError::TooManyPorts { slice: name.to_owned(), ports, max: PORTS_MAX }),
    }
}

/// A port with a queue that another has, too.
fn twice(ports: &[PortSpec]) -> Option<String> {
    let queue = |spec: &PortSpec| match spec {
        PortSpec::Xdp { interface, queue, .. } => Some((interface.clone(), *queue)),
        _ => None,
    };
    let again = |(index, spec)| {
        let of_this = queue(spec)?;
        let shares = |other: &PortSpec| {
            let (interface, number) = &of_this;
            queue(other).is_some_and(|(there, taken)| {
                there == *interface && (taken == *number || taken.is_none() || number.is_none())
            })
        };
        ports[..index].iter().any(shares).then_some(spec)
    };
    ports.iter().enumerate().find_map(again).map(ToString::to_string)
}

/// The node of all of `cpus`; `None`: they have several, or none that is known.
fn node_of(cpus: &CpuSet) -> Option<u16> {
    let mut nodes = cpus.iter().map(|cpu| numa::of_cpu(u16::try_from(cpu).ok()?));
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}
