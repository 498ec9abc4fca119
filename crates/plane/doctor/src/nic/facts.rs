//! What there is to know of one interface.

use std::fs;

use sys::bpf_query;
use sys::ethtool::{self, Channels, Coalescing, Driver, Flags, Offload, Rings};
use sys::interface::{Interface, XdpAttached};
use sys::netdev::XdpFeatures;

use crate::kernel::KernelVersion;
use crate::text::{cpu_list, field, read, read_number, read_word};

/// One interface. `None` is what its driver, its kernel or our rights keep to themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NicFacts {
    /// Its name.
    pub name: String,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it has a carrier, too.
    pub running: bool,
    /// Bytes of its largest packet.
    pub mtu: u32,
    /// The program that is attached now.
    pub program: Option<XdpAttached>,
    /// What that program is called.
    pub program_name: Option<String>,
    /// Its driver.
    pub driver: Option<Driver>,
    /// What the kernel says of its XDP.
    pub features: Option<XdpFeatures>,
    /// The kernel's version, for what it does not say.
    pub kernel: Option<KernelVersion>,
    /// Queues in use.
    pub queues: Channels,
    /// Receive queues that it could have.
    pub queues_max: Option<u32>,
    /// The queue of each hash value.
    pub rss_table: Option<Vec<u16>>,
    /// Whether its hash of UDP covers ports.
    pub udp_ports_hashed: Option<bool>,
    /// What it does to packets on the way in.
    pub flags: Option<Flags>,
    /// Offloads that are on.
    pub offloads: Vec<Offload>,
    /// Its rings.
    pub rings: Option<Rings>,
    /// When it interrupts.
    pub coalescing: Option<Coalescing>,
    /// What makes preferred busy polling work.
    pub deferral: Option<Deferral>,
    /// Where its device hangs, with the CPUs that are near; only with several nodes.
    pub node: Option<Node>,
    /// The interrupts of its device that were ever raised.
    pub interrupts: Vec<Interrupt>,
}

/// How long the interrupts of an interface stay off while somebody polls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deferral {
    /// Polls that may find nothing before interrupts are on again.
    pub hard_irqs: u64,
    /// Nanoseconds after which the device is looked at nevertheless.
    pub flush_nanos: u64,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its number.
    pub number: u16,
    /// Its CPUs.
    pub cpus: Vec<u16>,
}

/// An interrupt line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt {
    /// Its number.
    pub number: u32,
    /// The CPUs that it really goes to.
    pub cpus: Vec<u16>,
}

/// Interrupts of one device, at most: a queue has one, and nobody has more queues.
const INTERRUPTS_MAX: usize = 1024;

pub(super) fn gather(interface: &Interface, kernel: Option<KernelVersion>) -> NicFacts {
    let Interface { name, index, .. } = interface;
    let driver = ethtool::driver(name).ok();
    // A PCI address means the same device in every network namespace; /sys/class/net does not.
    let pci = driver.as_ref().and_then(|driver| pci_directory(&driver.bus));
    let made_with = Channels { rx: interface.rx_queues, tx: interface.tx_queues };
    NicFacts {
        name: name.clone(),
        up: interface.up,
        running: interface.running,
        mtu: interface.mtu,
        program: interface.xdp,
        program_name: interface
            .xdp
            .and_then(|program| bpf_query::program_name(program.program_id).ok()),
        features: sys::netdev::xdp_features(*index).ok(),
        kernel,
        queues: ethtool::channels(name).unwrap_or(made_with),
        queues_max: ethtool::queues_max(name).ok(),
        rss_table: ethtool::indirection_table(name).ok().filter(|table| !table.is_empty()),
        udp_ports_hashed: ethtool::udp_hash_has_ports(name).ok(),
        flags: ethtool::flags(name).ok(),
        offloads: Offload::ALL
            .into_iter()
            .filter(|&offload| ethtool::get(name, offload).unwrap_or(false))
            .collect(),
        rings: ethtool::rings(name).ok(),
        coalescing: ethtool::coalescing(name).ok(),
        deferral: deferral(interface),
        node: pci.as_deref().and_then(node),
        interrupts: pci.as_deref().map(interrupts).unwrap_or_default(),
        driver,
    }
}

/// The directory of a PCI device; `None` for another bus.
fn pci_directory(bus: &str) -> Option<String> {
    // domain:bus:device.function, in hexadecimal digits.
    let parts: Vec<&str> = bus.split([':', '.']).collect();
    let digits = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_hexdigit());
    (parts.len() == 4 && parts.iter().all(digits)).then(|| format!("/sys/bus/pci/devices/{bus}"))
}

fn node(pci: &str) -> Option<Node> {
    // -1, no number here, is what machines with one node say.
    let number = read_word(format!("{pci}/numa_node"))?.parse().ok()?;
    let cpus = cpu_list(&read(format!("/sys/devices/system/node/node{number}/cpulist"))?);
    Some(Node { number, cpus })
}

fn interrupts(pci: &str) -> Vec<Interrupt> {
    let raised = read("/proc/interrupts").unwrap_or_default();
    let Ok(entries) = fs::read_dir(format!("{pci}/msi_irqs")) else {
        return Vec::new();
    };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut interrupts: Vec<Interrupt> = numbers
        .take(INTERRUPTS_MAX)
        .filter(|&number| was_raised(&raised, number))
        .filter_map(|number| {
            let list = read(format!("/proc/irq/{number}/effective_affinity_list"))?;
            Some(Interrupt { number, cpus: cpu_list(&list) })
        })
        .collect();
    interrupts.sort_by_key(|interrupt| interrupt.number);
    interrupts
}

/// Whether /proc/interrupts counts interrupt `number` on any CPU.
fn was_raised(interrupts: &str, number: u32) -> bool {
    field(interrupts, &number.to_string()).is_some_and(|counts| {
        let mut counts = counts.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        counts.any(|count| count > 0)
    })
}

/// /sys/class/net shows the namespace that it was mounted in: believed only where number and
/// address agree.
fn deferral(interface: &Interface) -> Option<Deferral> {
    let file = |file: &str| format!("/sys/class/net/{}/{file}", interface.name);
    if interface.name.contains('/') || read_number(file("ifindex"))? != u64::from(interface.index) {
        return None;
    }
    let address = interface.mac.map(|byte| format!("{byte:02x}")).join(":");
    if read_word(file("address"))? != address {
        return None;
    }
    Some(Deferral {
        hard_irqs: read_number(file("napi_defer_hard_irqs"))?,
        flush_nanos: read_number(file("gro_flush_timeout"))?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_an_address_on_the_pci_bus_becomes_a_path() {
        let directory = pci_directory("0000:03:00.1");
        assert_eq!(directory.as_deref(), Some("/sys/bus/pci/devices/0000:03:00.1"));
        for other in ["", "virtio2", "tap", "../../../etc", "0000:03:00", "usb-0000:00:14.0-2"] {
            assert_eq!(pci_directory(other), None, "{other}");
        }
    }

    #[test]
    fn an_interrupt_that_was_never_raised_does_not_count() {
        let text =
            "      CPU0  CPU1\n  9:   0   0  IO-APIC 9-fasteoi\n 41: 0 17 PCI-MSIX 1-edge rx\n";
        assert!(was_raised(text, 41));
        assert!(!was_raised(text, 9));
        assert!(!was_raised(text, 1));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in ".*", number: u32) {
            was_raised(&text, number);
            was_raised(&format!("{number}: {text}"), number);
            if let Some(path) = pci_directory(&text) {
                prop_assert!(!path.contains("/../"));
            }
        }
    }
}
