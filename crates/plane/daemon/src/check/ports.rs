//! `ports`: whether the interfaces, queues and files are there and can carry what is asked.

use config::Config;
use port::PortSpec;
use shm::pool::HEADROOM_BYTES;
use sys::interface::Interface;

use super::finding::Finding;
use super::machine::Machine;

/// Ethernet header and two VLAN tags (IEEE 802.1ad) come on top of an MTU.
const LINK_BYTES: u32 = 22;

/// The loopback interface's MTU is larger than any frame, and allowed.
const LOOPBACK_MTU: u32 = 65_536;

pub(super) fn check(
    config: &Config,
    specs: &[(usize, PortSpec)],
    machine: Option<&Machine>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let wrong = |at: usize, says: String| Finding::wrong("ports", Some(at), says);
    for (nth, (at, spec)) in specs.iter().enumerate() {
        let earlier = &specs[..nth];
        if let Some(says) = clash(spec, earlier) {
            found.push(wrong(*at, says));
        }
        let missing = machine.and_then(|machine| unfit(config, spec, machine));
        found.extend(missing.map(|says| wrong(*at, says)));
    }
    found
}

/// What keeps a port from being opened beside those before it.
fn clash(spec: &PortSpec, earlier: &[(usize, PortSpec)]) -> Option<String> {
    if earlier.iter().any(|(_, other)| is_same(spec, other)) {
        return Some(format!(
            "{spec} is there twice: a queue can be opened once, and without @ a port takes all \
             queues; remove one"
        ));
    }
    let PortSpec::Xdp { interface, attach, take, .. } = spec else { return None };
    let differs = |other: &PortSpec| {
        matches!(other, PortSpec::Xdp { interface: there, attach: mode, take: taken, .. }
            if there == interface && (mode, taken) != (attach, take))
    };
    earlier.iter().any(|(_, other)| differs(other)).then(|| {
        format!(
            "the queues of {interface} share one XDP program: give them all the same mode= and \
             take="
        )
    })
}

fn is_same(spec: &PortSpec, other: &PortSpec) -> bool {
    match (spec, other) {
        (
            PortSpec::Xdp { interface, queue, .. },
            PortSpec::Xdp { interface: there, queue: taken, .. },
        ) => interface == there && (queue == taken || queue.is_none() || taken.is_none()),
        (PortSpec::AfPacket { options, .. }, _) if options.fanout.is_some() => false,
        _ => spec == other,
    }
}

/// What keeps a port from being opened here.
fn unfit(config: &Config, spec: &PortSpec, machine: &Machine) -> Option<String> {
    match spec {
        // A TAP is made if it is not there.
        PortSpec::Tap { .. } => None,
        PortSpec::Pcap(options) => {
            let input = options.input.as_ref()?;
            let error = std::fs::metadata(input).err()?;
            Some(format!("the capture {input} cannot be read: {error}"))
        }
        PortSpec::Xdp { interface, queue, .. } => {
            let Some(there) = machine.interface(interface) else {
                return Some(no_interface(interface, machine));
            };
            let queues = machine.queues.get(interface).copied().unwrap_or(1);
            match queue.map(|queue| u32::from(queue.0)) {
                Some(queue) if queue >= queues => Some(format!(
                    "{interface} has no queue {queue}: it has {queues}, counted from 0; `ethtool \
                     -L {interface} combined {}` gives it more, if its driver can",
                    queue + 1
                )),
                _ => long_packets(config, there),
            }
        }
        PortSpec::AfPacket { interface, .. } => match machine.interface(interface) {
            None => Some(no_interface(interface, machine)),
            Some(there) if there.mtu == LOOPBACK_MTU => None,
            Some(there) => long_packets(config, there),
        },
    }
}

fn no_interface(name: &str, machine: &Machine) -> String {
    let near = config::nearest(name, machine.interfaces.iter().map(|there| there.name.as_str()));
    let meant = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    format!("there is no interface {name} here: there are {}{meant}", machine.interface_names())
}

/// Whether its packets may be longer than a frame.
fn long_packets(config: &Config, interface: &Interface) -> Option<String> {
    let Interface { name, mtu, .. } = interface;
    let max = config.frames.bytes - HEADROOM_BYTES - LINK_BYTES;
    let larger = match config.frames.bytes {
        4096 => "",
        _ => ", or set `frames.bytes` to 4096",
    };
    (*mtu > max).then(|| {
        format!(
            "the MTU of {name} is {mtu}, and frames of {} bytes allow {max}: lower it with `ip \
             link set dev {name} mtu {max}`{larger}",
            config.frames.bytes
        )
    })
}
