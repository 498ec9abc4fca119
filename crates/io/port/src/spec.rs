//! A port as people write it: `xdp:eth1`, `xdp:eth1@2,mode=generic`, `af_packet:eth1`, `tap:tap0`,
//! `pcap:in.pcap,out.pcap`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use base::QueueId;

use crate::af_packet::{AfPacketOptions, FanoutMode};
use crate::pcap::{Pace, PcapOptions};
use crate::tap::TapOptions;
use crate::xdp::{AttachMode, CopyMode, Take, XdpOptions};

/// A port and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSpec {
    /// Queues of an interface by AF_XDP.
    Xdp {
        /// The interface.
        interface: String,
        /// One of its queues; `None`: all that it uses when the port opens.
        queue: Option<QueueId>,
        /// How the program hooks in.
        attach: AttachMode,
        /// What it takes.
        take: Take,
        /// Settings of each queue.
        options: XdpOptions,
    },
    /// An interface by a packet socket.
    AfPacket {
        /// The interface.
        interface: String,
        /// Settings of the socket.
        options: AfPacketOptions,
    },
    /// A TAP interface.
    Tap {
        /// Its name.
        interface: String,
        /// Its settings.
        options: TapOptions,
    },
    /// Capture files.
    Pcap(PcapOptions),
}

/// A text that names no port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(String);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

const KINDS: [&str; 4] = ["xdp", "af_packet", "tap", "pcap"];
const XDP_OPTIONS: [&str; 9] =
    ["queue", "mode", "copy", "zerocopy", "busy_poll", "trust_link", "take", "ring", "fill"];
const AF_PACKET_OPTIONS: [&str; 4] = ["fanout", "fanout_mode", "qdisc", "trust_link"];
const TAP_OPTIONS: [&str; 4] = ["address", "up", "mtu", "multi_queue"];
const PCAP_OPTIONS: [&str; 1] = ["pace"];

/// How long a busy poll lasts when nothing else is said.
const BUSY_POLL_MICROS: u32 = 20;

impl PortSpec {
    /// The interface, where there is one.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Xdp { interface, .. }
            | Self::AfPacket { interface, .. }
            | Self::Tap { interface, .. } => Some(interface),
            Self::Pcap(_) => None,
        }
    }
}

impl FromStr for PortSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (kind, rest) = text.split_once(':').ok_or_else(|| {
            SpecError(format!(
                "{text:?} names no port: write KIND:NAME, as in xdp:eth1; kinds are {}",
                KINDS.join(", ")
            ))
        })?;
        let mut parts = rest.split(',');
        let name = parts.next().unwrap_or_default();
        match kind {
            "xdp" => xdp(name, parts),
            "af_packet" => af_packet(name, parts),
            "tap" => tap(name, parts),
            "pcap" => pcap(name, parts),
            _ => Err(unknown("kind of port", kind, &KINDS)),
        }
    }
}

/// `key` or `key=value`.
fn option<'a>(
    text: &'a str,
    of: &str,
    known: &[&'static str],
) -> Result<(&'a str, Option<&'a str>), SpecError> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (text, None),
    };
    if known.contains(&key) {
        Ok((key, value))
    } else {
        Err(unknown(&format!("option of {of}"), key, known))
    }
}

fn xdp<'a>(name: &str, parts: impl Iterator<Item = &'a str>) -> Result<PortSpec, SpecError> {
    let (interface, mut queue) = match name.split_once('@') {
        None => (name, None),
        Some((interface, queue)) => (interface, Some(number("queue", Some(queue))?)),
    };
    let mut options = XdpOptions::default();
    let (mut attach, mut take) = (AttachMode::Probe, Take::Ours);
    for part in parts {
        let (key, value) = option(part, "xdp", &XDP_OPTIONS)?;
        match key {
            "queue" if queue.is_none() => queue = Some(number(key, value)?),
            "queue" => {
                return Err(SpecError(format!("{name} says its queue twice: leave one out")));
            }
            "mode" => {
                attach = match value {
                    Some("native") => AttachMode::Native,
                    Some("generic") => AttachMode::Generic,
                    _ => return Err(choose("mode", value, &["native", "generic"])),
                }
            }
            "take" => {
                take = match value {
                    Some("ours") => Take::Ours,
                    Some("all") => Take::Everything,
                    _ => return Err(choose("take", value, &["ours", "all"])),
                }
            }
            "copy" => options.copy = flag(key, value, CopyMode::Copy)?,
            "zerocopy" => options.copy = flag(key, value, CopyMode::ZeroCopy)?,
            "trust_link" => options.trust_link = flag(key, value, true)?,
            "busy_poll" => {
                options.busy_poll_micros = Some(match value {
                    None => BUSY_POLL_MICROS,
                    value => number(key, value)?,
                });
            }
            "ring" => options.ring_entries = number(key, value)?,
            _ => options.fill_frames = Some(number(key, value)?),
        }
    }
    let interface = interface_name(interface)?;
    Ok(PortSpec::Xdp { interface, queue: queue.map(QueueId), attach, take, options })
}

fn af_packet<'a>(name: &str, parts: impl Iterator<Item = &'a str>) -> Result<PortSpec, SpecError> {
    let mut options = AfPacketOptions::default();
    let mut mode = None;
    for part in parts {
        let (key, value) = option(part, "af_packet", &AF_PACKET_OPTIONS)?;
        match key {
            "fanout" => {
                options.fanout = Some((number(key, value)?, FanoutMode::Hash));
            }
            "fanout_mode" => {
                mode = Some(match value {
                    Some("hash") => FanoutMode::Hash,
                    Some("cpu") => FanoutMode::Cpu,
                    Some("queue") => FanoutMode::Queue,
                    _ => return Err(choose(key, value, &["hash", "cpu", "queue"])),
                });
            }
            "qdisc" => options.qdisc_bypass = !flag(key, value, true)?,
            _ => options.trust_link = flag(key, value, true)?,
        }
    }
    if let Some(mode) = mode {
        let Some((_, of_group)) = &mut options.fanout else {
            return Err(SpecError("fanout_mode needs a group: add fanout=NUMBER".to_owned()));
        };
        *of_group = mode;
    }
    Ok(PortSpec::AfPacket { interface: interface_name(name)?, options })
}

fn tap<'a>(name: &str, parts: impl Iterator<Item = &'a str>) -> Result<PortSpec, SpecError> {
    let mut options = TapOptions::default();
    for part in parts {
        let (key, value) = option(part, "tap", &TAP_OPTIONS)?;
        match key {
            "address" => {
                let parsed = value.and_then(|value| {
                    let (address, bits) = value.split_once('/')?;
                    let address: IpAddr = address.parse().ok()?;
                    let bits: u8 = bits.parse().ok()?;
                    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
                });
                options.address = Some(parsed.ok_or_else(|| {
                    SpecError(format!(
                        "address={} is none: write address=10.0.0.1/24",
                        value.unwrap_or_default()
                    ))
                })?);
            }
            "mtu" => options.mtu = Some(number(key, value)?),
            "up" => options.up = flag(key, value, true)?,
            _ => options.multi_queue = flag(key, value, true)?,
        }
    }
    Ok(PortSpec::Tap { interface: interface_name(name)?, options })
}

fn pcap<'a>(input: &str, parts: impl Iterator<Item = &'a str>) -> Result<PortSpec, SpecError> {
    let file = |path: &str| (!path.is_empty() && path != "-").then(|| path.to_owned());
    let mut options = PcapOptions { input: file(input), ..PcapOptions::default() };
    for (index, part) in parts.enumerate() {
        if index == 0 && !part.contains('=') {
            options.output = file(part);
            continue;
        }
        let (_, value) = option(part, "pcap", &PCAP_OPTIONS)?;
        options.pace = match value {
            Some("fast") => Pace::Fast,
            Some("recorded") => Pace::Recorded,
            _ => return Err(choose("pace", value, &["fast", "recorded"])),
        };
    }
    if options.input.is_none() && options.output.is_none() {
        return Err(SpecError(
            "pcap needs a file: write pcap:IN, pcap:IN,OUT or pcap:-,OUT".into(),
        ));
    }
    Ok(PortSpec::Pcap(options))
}

fn interface_name(name: &str) -> Result<String, SpecError> {
    let max = sys::interface::NAME_BYTES_MAX;
    if name.is_empty() || name.len() > max || name.contains(['/', ' ', '=', '%']) {
        return Err(SpecError(format!(
            "{name:?} cannot be the name of an interface: names have 1 to {max} letters and digits"
        )));
    }
    Ok(name.to_owned())
}

fn number<N: FromStr>(key: &str, value: Option<&str>) -> Result<N, SpecError> {
    let parsed = value.and_then(|value| value.parse().ok());
    parsed.ok_or_else(|| {
        let value = value.unwrap_or_default();
        SpecError(format!("{key} takes a number in its range, not {value:?}"))
    })
}

fn flag<T>(key: &str, value: Option<&str>, on: T) -> Result<T, SpecError> {
    match value {
        None => Ok(on),
        Some(value) => {
            Err(SpecError(format!("{key} takes no value: write {key} alone, not {key}={value}")))
        }
    }
}

fn choose(key: &str, value: Option<&str>, choices: &[&str]) -> SpecError {
    let value = value.unwrap_or_default();
    SpecError(format!("{key}={value} is none of {}", choices.join(", ")))
}

fn unknown(what: &str, word: &str, known: &[&str]) -> SpecError {
    let nearest = known.iter().map(|known| (distance(word, known), known)).min();
    let hint = match nearest {
        Some((distance, known)) if distance <= 1 + word.len() / 3 => {
            format!("did you mean {known}?")
        }
        _ => format!("known are {}", known.join(", ")),
    };
    SpecError(format!("unknown {what} {word:?}: {hint}"))
}

/// How many letters to change, insert or remove to make one word the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.chars().enumerate() {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

impl fmt::Display for PortSpec {
    /// The shortest text that is read as this port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xdp { interface, queue, attach, take, options } => {
                write!(f, "xdp:{interface}")?;
                if let Some(queue) = queue {
                    write!(f, "@{}", queue.0)?;
                }
                match attach {
                    AttachMode::Probe => {}
                    AttachMode::Native => f.write_str(",mode=native")?,
                    AttachMode::Generic => f.write_str(",mode=generic")?,
                }
                if *take == Take::Everything {
                    f.write_str(",take=all")?;
                }
                write_xdp_options(f, options)
            }
            Self::AfPacket { interface, options } => {
                let AfPacketOptions { fanout, qdisc_bypass, trust_link } = options;
                write!(f, "af_packet:{interface}")?;
                if let Some((group, mode)) = fanout {
                    write!(f, ",fanout={group}")?;
                    match mode {
                        FanoutMode::Hash => {}
                        FanoutMode::Cpu => f.write_str(",fanout_mode=cpu")?,
                        FanoutMode::Queue => f.write_str(",fanout_mode=queue")?,
                    }
                }
                write_flag(f, "qdisc", !qdisc_bypass)?;
                write_flag(f, "trust_link", *trust_link)
            }
            Self::Tap { interface, options } => {
                let TapOptions { address, up, mtu, multi_queue } = options;
                write!(f, "tap:{interface}")?;
                if let Some((address, bits)) = address {
                    write!(f, ",address={address}/{bits}")?;
                }
                write_flag(f, "up", *up)?;
                if let Some(mtu) = mtu {
                    write!(f, ",mtu={mtu}")?;
                }
                write_flag(f, "multi_queue", *multi_queue)
            }
            Self::Pcap(PcapOptions { input, output, pace, epoch: _ }) => {
                write!(f, "pcap:{}", input.as_deref().unwrap_or("-"))?;
                if let Some(output) = output {
                    write!(f, ",{output}")?;
                }
                match pace {
                    Pace::Fast => Ok(()),
                    Pace::Recorded => f.write_str(",pace=recorded"),
                }
            }
        }
    }
}

fn write_xdp_options(f: &mut fmt::Formatter<'_>, options: &XdpOptions) -> fmt::Result {
    let XdpOptions { copy, ring_entries, fill_frames, busy_poll_micros, trust_link } = options;
    match copy {
        CopyMode::Probe => {}
        CopyMode::Copy => f.write_str(",copy")?,
        CopyMode::ZeroCopy => f.write_str(",zerocopy")?,
    }
    match busy_poll_micros {
        None => {}
        Some(BUSY_POLL_MICROS) => f.write_str(",busy_poll")?,
        Some(micros) => write!(f, ",busy_poll={micros}")?,
    }
    write_flag(f, "trust_link", *trust_link)?;
    if *ring_entries != XdpOptions::default().ring_entries {
        write!(f, ",ring={ring_entries}")?;
    }
    match fill_frames {
        None => Ok(()),
        Some(frames) => write!(f, ",fill={frames}"),
    }
}

fn write_flag(f: &mut fmt::Formatter<'_>, key: &str, on: bool) -> fmt::Result {
    if on { write!(f, ",{key}") } else { Ok(()) }
}

#[cfg(test)]
mod tests;
