//! The interfaces behind the ports of a chain: one for each port number, the same in every slice.

use base::PortId;
use sys::{SysError, interface};

use crate::file::SlicePart;

/// One interface that is a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInterface {
    /// Its name.
    pub name: String,
    /// Its index in the namespace.
    pub index: u32,
    /// Its link address.
    pub mac: [u8; 6],
    /// Bytes of the largest packet on its link.
    pub mtu: u32,
}

/// The interfaces of a chain; the n-th is `PortId(n)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    interfaces: Vec<PortInterface>,
}

impl Ports {
    /// These interfaces.
    pub const fn new(interfaces: Vec<PortInterface>) -> Self {
        Self { interfaces }
    }

    /// Looks the ports of a slice up in the calling thread's namespace.
    ///
    /// # Errors
    /// An interface is not there; or a port is none (a capture file), which is said as such.
    pub fn of(slice: &SlicePart) -> Result<Self, SysError> {
        let interfaces = slice.ports.iter().map(|port| {
            let found = interface::by_name(port.interface().unwrap_or_default())?;
            let interface::Interface { name, index, mac, mtu, .. } = found;
            Ok(PortInterface { name, index, mac, mtu })
        });
        interfaces.collect::<Result<_, SysError>>().map(Self::new)
    }

    /// The interfaces in the order of their numbers.
    pub fn each(&self) -> impl Iterator<Item = (PortId, &PortInterface)> {
        self.interfaces.iter().zip(0_u16..).map(|(interface, number)| (PortId(number), interface))
    }

    /// The port that is the interface of that name.
    pub fn named(&self, name: &str) -> Option<PortId> {
        self.each().find(|(_, interface)| interface.name == name).map(|(port, _)| port)
    }

    /// The port that is the interface of that index.
    pub fn with_index(&self, index: u32) -> Option<PortId> {
        self.each().find(|(_, interface)| interface.index == index).map(|(port, _)| port)
    }

    /// The interface of a port.
    pub fn interface(&self, port: PortId) -> Option<&PortInterface> {
        self.interfaces.get(usize::from(port.0))
    }

    /// Their names, for sentences.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.interfaces.iter().map(|one| one.name.as_str()).collect();
        names.join(", ")
    }
}
