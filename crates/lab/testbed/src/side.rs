//! One end of the wire: its addresses, and how to run something there.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::thread;

use crate::TestbedError;
use crate::name::{INTERFACE, Role};

/// One end of the wire.
#[derive(Debug)]
pub struct Side {
    namespace: String,
    /// Last byte of its addresses.
    host: u8,
}

impl Side {
    /// Bits of the network part of [`Self::ipv4`].
    pub const IPV4_PREFIX: u8 = 24;
    /// Bits of the network part of [`Self::ipv6`].
    pub const IPV6_PREFIX: u8 = 64;

    pub(crate) fn new(role: Role, namespace: String) -> Self {
        let host = match role {
            Role::Client => 1,
            Role::Server => 2,
        };
        Self { namespace, host }
    }

    /// The name that `ip netns` and [`sys::netns::enter`] know it by.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The interface that is its end of the wire.
    pub fn interface(&self) -> &'static str {
        INTERFACE
    }

    /// Its hardware address; the same in every bed (locally administered, 802-2014 section 8.2).
    pub fn mac(&self) -> [u8; 6] {
        [0x02, 0x00, 0x00, 0x77, 0x00, self.host]
    }

    /// Its IPv4 address.
    pub fn ipv4(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, self.host)
    }

    /// Its IPv6 address, when the bed has IPv6.
    pub fn ipv6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(self.host))
    }

    /// A command that will run here. The process that it starts is `program` itself (ip(8)
    /// replaces itself), so its pid, signals and exit code are those of `program`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// Runs `work` here, on a thread of its own, and waits for it. Sockets that it returns stay
    /// here for good. A panic of `work` goes on in the caller.
    ///
    /// # Errors
    /// The thread cannot be started or cannot enter the namespace; `work` has not run then.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        let inside = || {
            sys::netns::enter(&self.namespace)?;
            Ok(work())
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("testbed".to_owned());
            let running = thread.spawn_scoped(scope, inside).map_err(|error| {
                TestbedError::CannotRun { command: "a thread in the namespace".to_owned(), error }
            })?;
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
