//! A client and a server namespace with a wire between them, for as long as the value lives.

use std::fmt;

use crate::name::{self, Role};
use crate::setup;
use crate::{Side, TestbedError};

/// What kind of wire to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestbedConfig {
    /// Receive queues, and as many transmit queues, of each end.
    pub queues: u32,
    /// Give each end an IPv6 address as well; otherwise IPv6 is off, and its chatter with it.
    pub ipv6: bool,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Leave TSO, GSO, GRO and transmit checksums to the (pretended) hardware, as veth does by
    /// default. Without: every packet on the wire is complete and no larger than the MTU, which
    /// is what a user-space reader of a veth needs.
    pub offloads: bool,
    /// Tell each end the other's MAC address beforehand, so that no ARP crosses the wire.
    pub static_neighbours: bool,
}

impl Default for TestbedConfig {
    /// One queue, IPv4, 1500 bytes, no offloads, no ARP.
    fn default() -> Self {
        Self { queues: 1, ipv6: false, mtu: 1500, offloads: false, static_neighbours: true }
    }
}

impl TestbedConfig {
    fn check(&self) -> Result<(), TestbedError> {
        // RFC 8200 section 5 and RFC 791: what every link must carry.
        let mtu_min = if self.ipv6 { 1280 } else { 68 };
        let sentence = if self.queues == 0 {
            "a testbed needs at least one queue: set `queues` to 1 or more".to_owned()
        } else if !(mtu_min..=65535).contains(&self.mtu) {
            let protocol = if self.ipv6 { "IPv6" } else { "IPv4" };
            let Self { mtu, .. } = self;
            format!("an MTU of {mtu} cannot carry {protocol}: set `mtu` to {mtu_min} to 65535")
        } else {
            return Ok(());
        };
        Err(TestbedError::Config(sentence))
    }
}

/// Two namespaces, `calisto-PID-N-client` and `calisto-PID-N-server`, each with a `veth0` that is
/// one end of the wire. Dropped, they are gone.
pub struct Testbed {
    client: Side,
    server: Side,
}

impl Testbed {
    /// Makes the namespaces and the wire, and brings it up. Beds of dead processes are removed
    /// first.
    ///
    /// # Errors
    /// We are not root, `ip` is missing, or the kernel refuses the configuration. Nothing is
    /// left behind then.
    pub fn new(config: TestbedConfig) -> Result<Self, TestbedError> {
        config.check()?;
        name::remove_stale()?;
        let (client, server) = name::fresh();
        // The value exists before the namespaces do: whatever fails from here on, `drop` removes.
        let bed = Self {
            client: Side::new(Role::Client, client),
            server: Side::new(Role::Server, server),
        };
        setup::build(&bed.client, &bed.server, &config)?;
        Ok(bed)
    }

    /// 10.77.0.1, and fd77::1 with IPv6.
    pub fn client(&self) -> &Side {
        &self.client
    }

    /// 10.77.0.2, and fd77::2 with IPv6.
    pub fn server(&self) -> &Side {
        &self.server
    }
}

impl Drop for Testbed {
    /// Ends the processes inside and removes both namespaces; a failure is printed.
    fn drop(&mut self) {
        for side in [&self.client, &self.server] {
            name::report(name::remove(side.namespace()));
        }
    }
}

impl fmt::Debug for Testbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, server } = self;
        write!(f, "Testbed({} - {})", client.namespace(), server.namespace())
    }
}
