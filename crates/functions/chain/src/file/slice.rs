//! `[[slice]]`: queues, CPUs and memory of one thread.

use port::PortSpec;

use super::FileError;
use super::section::{Section, Source, list, number, parsed, text};

/// One slice of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePart {
    /// The queue of each interface; every slice has the same interfaces in the same order.
    pub ports: Vec<PortSpec>,
    /// The CPUs that its thread may run on; none: any.
    pub cpus: Vec<usize>,
    /// Frames of its memory; `None`: enough for its ports.
    pub frames: Option<u32>,
    /// Bytes of each; `None`: a page.
    pub frame_bytes: Option<u32>,
    /// Which packets it takes, as tcpdump(8) writes it, instead of what its functions want.
    pub filter: Option<String>,
}

impl SlicePart {
    /// The number of the port that is a queue of `interface`.
    pub(super) fn port_number(&self, interface: &str) -> Option<u16> {
        let is_it = |port: &PortSpec| PortSpec::interface(port) == Some(interface);
        u16::try_from(self.ports.iter().position(is_it)?).ok()
    }
}

const PORTS_MAX: usize = 64;
/// The kernel's `cpu_set_t` has 1024 bits.
const CPU_MAX: u64 = 1023;
const FILTER_BYTES_MAX: usize = 4096;

pub(crate) fn read(section: &mut Section<'_>) -> Result<SlicePart, FileError> {
    let port = parsed(
        |text| text.parse::<PortSpec>().map_err(|error| error.to_string()),
        "a port, such as \"xdp:eth0\" or \"xdp:eth0@1\"",
    );
    let ports = section.required(
        "ports",
        "ports = [\"xdp:eth0\", \"xdp:eth1\"]",
        list(1..=PORTS_MAX, port),
    )?;
    let cpus = section.optional("cpus", list(0..=1024, number(0..=CPU_MAX)))?.unwrap_or_default();
    let frames = section.optional("frames", number(256..=1 << 20))?;
    let sizes = |value: &toml::de::DeValue<'_>| {
        let bytes = number(2048..=4096)(value).ok().filter(|bytes| bytes.is_power_of_two());
        bytes.ok_or_else(|| "2048 or 4096".to_owned())
    };
    let frame_bytes = section.optional("frame_bytes", sizes)?;
    let filter = section.optional("filter", text(FILTER_BYTES_MAX))?;
    let mut cpus: Vec<usize> = cpus.into_iter().filter_map(|cpu| cpu.try_into().ok()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let least = ports.len() as u64 * FRAMES_PER_PORT_MIN;
    if let Some(frames) = frames.filter(|&frames| frames < least) {
        let says = format!(
            "is {frames} for {} ports; allowed are {FRAMES_PER_PORT_MIN} for each, so {least} or more",
            ports.len()
        );
        return Err(section.error("frames", says));
    }
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let (frames, frame_bytes) = (frames.map(narrow), frame_bytes.map(narrow));
    Ok(SlicePart { ports, cpus, frames, frame_bytes, filter })
}

/// Four batches that are received, worked on, sent and on their way back.
const FRAMES_PER_PORT_MIN: u64 = 256;

/// What must hold between slices: port `n` is the same interface in all of them, and no queue is in
/// two.
pub(crate) fn agree(source: &Source<'_>, slices: &[(SlicePart, usize)]) -> Result<(), FileError> {
    let Some((first, _)) = slices.first() else { return Ok(()) };
    let mut seen: Vec<&PortSpec> = Vec::new();
    for (slice, line) in slices {
        let wrong = |says| Err(source.error(Some(*line), "slice.ports", says));
        let names = |slice: &SlicePart| {
            let names = slice.ports.iter().map(|port| port.interface().unwrap_or("a file"));
            names.collect::<Vec<_>>().join(", ")
        };
        if names(slice) != names(first) {
            return wrong(format!(
                "names {}, the first slice {}: every slice has a queue of the same interfaces, \
                 in the same order",
                names(slice),
                names(first)
            ));
        }
        for port in &slice.ports {
            let is_same_queue = |other: &&PortSpec| match (other, port) {
                (
                    PortSpec::Xdp { interface: one, queue: a, .. },
                    PortSpec::Xdp { interface: other, queue: b, .. },
                ) => one == other && (a == b || a.is_none() || b.is_none()),
                (PortSpec::AfPacket { options, .. }, _) if options.fanout.is_some() => false,
                _ => *other == port,
            };
            if seen.iter().any(is_same_queue) {
                return wrong(format!("has {port}, which is taken: a queue belongs to one slice"));
            }
            seen.push(port);
        }
    }
    Ok(())
}
