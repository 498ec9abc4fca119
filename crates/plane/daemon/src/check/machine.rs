//! What a configuration is held against: interfaces, addresses, CPUs and users of a machine.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sys::SysError;
use sys::cpu_set::CpuSet;
use sys::interface::{self, Interface};

/// A machine, as far as a configuration can name parts of it.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(super) interfaces: Vec<Interface>,
    /// Receive queues in use, by interface.
    pub(super) queues: BTreeMap<String, u32>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) cpus: CpuSet,
    /// The number of each user of passwd(5), by name.
    pub(super) users: BTreeMap<String, u32>,
}

impl Machine {
    /// The one that this runs on, as the calling thread's network namespace and cpuset show it.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn here() -> Result<Self, SysError> {
        let interfaces = interface::list()?;
        let queues = |interface: &Interface| {
            let channels = sys::ethtool::channels(&interface.name).ok()?;
            Some((interface.name.clone(), channels.rx))
        };
        Ok(Self {
            queues: interfaces.iter().filter_map(queues).collect(),
            interfaces,
            addresses: interface::all_addresses()?.into_iter().map(|(_, ip)| ip).collect(),
            cpus: CpuSet::attainable()?,
            users: users(&std::fs::read_to_string("/etc/passwd").unwrap_or_default()),
        })
    }

    pub(super) fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// The names of its interfaces, for a sentence.
    pub(super) fn interface_names(&self) -> String {
        let names = self.interfaces.iter().map(|interface| interface.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}

/// passwd(5): name:password:uid:gid:gecos:home:shell
fn users(passwd: &str) -> BTreeMap<String, u32> {
    let user = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((name, fields.nth(1)?.parse().ok()?))
    };
    passwd.lines().filter_map(user).collect()
}
