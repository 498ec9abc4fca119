//! What a slice is to be made of.

use port::PortSpec;
use port::xdp::Take;
use sys::cpu_set::CpuSet;

/// A slice to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceSpec {
    /// Its name, for messages and statistics.
    pub name: String,
    /// Its ports, each with its queue; the n-th of them is `PortId(n)`.
    pub ports: Vec<PortSpec>,
    /// The CPUs that its thread is to run on; none: wherever it is.
    pub cpus: CpuSet,
    /// Frames that all its ports share.
    pub frames: u32,
    /// Bytes of a frame, room and all: 2048 or 4096.
    pub frame_bytes: u32,
    /// Which packets it takes, in the language of tcpdump; `None`: every packet of its queues. What
    /// it does not take is the kernel's.
    pub filter: Option<String>,
}

/// Frames for each port when nothing else is said: its fill ring takes 2048 of them, its transmit
/// ring may hold as many.
const FRAMES_A_PORT: u32 = 4096;

impl SliceSpec {
    /// A slice of everything that comes to `ports`. What would be taken by destination
    /// ([`Take::Ours`]) is taken whole: which packets a slice takes, its filter says.
    pub fn new(name: impl Into<String>, ports: Vec<PortSpec>) -> Self {
        let frames =
            FRAMES_A_PORT * u32::try_from(ports.len().max(1)).unwrap_or(u32::MAX / FRAMES_A_PORT);
        Self {
            name: name.into(),
            ports,
            cpus: CpuSet::new(),
            frames,
            frame_bytes: 4096,
            filter: None,
        }
    }

    /// Its ports as they are opened.
    pub(crate) fn whole_ports(&self) -> impl Iterator<Item = PortSpec> + '_ {
        self.ports.iter().cloned().map(|mut spec| {
            if let PortSpec::Xdp { take, .. } = &mut spec {
                *take = Take::Everything;
            }
            spec
        })
    }
}
