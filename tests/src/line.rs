//! Hosts in a row, each joined to the next by a wire: what routers and tunnels are tested with.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use base::Nanos;
use sys::ethtool::{self, Offload};
use sys::interface;

use crate::process::run;

/// Hosts `0..n`; wire `i` joins host `i` (its interface `east`) with host `i + 1` (its interface
/// `west`). Dropped, they are gone with all that runs there.
#[derive(Debug)]
pub struct Line {
    hosts: Vec<Host>,
}

/// One of them.
#[derive(Debug)]
pub struct Host {
    namespace: String,
}

impl Line {
    /// [`Self::with_queues`] with one queue at each end of a wire.
    ///
    /// # Panics
    /// As [`Self::with_queues`].
    pub fn new(hosts: u8, mtu: u32) -> Self {
        Self::with_queues(hosts, mtu, 1)
    }

    /// Makes `hosts` hosts, with wires for packets of `mtu` bytes. On wire `i` the networks are
    /// 10.90.i.0/24 and fd90:i::/64; the west end has the number 1, the east end 2. Nobody has
    /// other routes, and no kernel forwards.
    ///
    /// # Panics
    /// Without root or ip(8).
    pub fn with_queues(hosts: u8, mtu: u32, queues: u8) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        remove_stale();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |host| format!("{PREFIX}{}-{number}-{host}", std::process::id());
        let mut line = Self { hosts: Vec::new() };
        for host in 0..hosts {
            let host = Host { namespace: name(host) };
            let (status, _, said) = run(Command::new("ip").args(["netns", "add", &host.namespace]));
            assert!(status.success(), "this test needs root and the ip command: {said}");
            line.hosts.push(host);
            line.hosts[line.hosts.len() - 1].make_quiet();
        }
        for (wire, ends) in line.hosts.windows(2).enumerate() {
            let there = &ends[1].namespace;
            ends[0].ip(&format!(
                "link add east mtu {mtu} numrxqueues {queues} numtxqueues {queues} type veth peer name west mtu {mtu} \
                 numrxqueues {queues} numtxqueues {queues} netns {there}"
            ));
            for (host, interface, end) in [(&ends[0], "east", 1), (&ends[1], "west", 2)] {
                host.enter(|| {
                    // Every packet on the wire is to be whole and no longer than the MTU.
                    let all = [Offload::Tso, Offload::Gso, Offload::Gro, Offload::TxChecksum];
                    all.iter().try_for_each(|&offload| ethtool::set(interface, offload, false))
                })
                .expect("a veth can do without");
                host.ip(&format!("addr add 10.90.{wire}.{end}/24 dev {interface}"));
                host.ip(&format!("addr add fd90:{wire}::{end}/64 dev {interface} nodad"));
                host.ip(&format!("link set {interface} up"));
            }
            for (host, name) in [(&ends[0], "east"), (&ends[1], "west")] {
                host.enter(|| interface::wait_until_operational(name, Nanos::from_secs(20)))
                    .expect("both ends are up");
            }
        }
        line
    }

    /// The host of that number.
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for host in &self.hosts {
            remove(&host.namespace);
        }
    }
}

impl Host {
    /// The name by which ip(8) knows it.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A command that will run here.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// Runs `ip WORDS` here.
    ///
    /// # Panics
    /// It fails.
    pub fn ip(&self, words: &str) -> String {
        let (status, out, said) =
            run(Command::new("ip").args(["-n", &self.namespace]).args(words.split_whitespace()));
        assert!(status.success(), "ip {words}: {said}");
        out
    }

    /// Runs `work` here, on a thread of its own; sockets that it returns stay here.
    ///
    /// # Panics
    /// `work` panics.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                sys::netns::enter(&self.namespace).expect("the namespace is there");
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Sets a key of /proc/sys/net here.
    ///
    /// # Panics
    /// There is none, or it does not take the value.
    pub fn sysctl(&self, key: &str, value: &str) {
        let path = Path::new("/proc/sys/net").join(key);
        self.enter(|| std::fs::write(&path, value)).expect(key);
    }

    /// Everything goes by way of the neighbour on the interface `to`, whose number there is
    /// `gateway`.
    pub fn default_route(&self, wire: u8, gateway: u8, to: &str) {
        self.ip(&format!("route add default via 10.90.{wire}.{gateway} dev {to}"));
        self.ip(&format!("-6 route add default via fd90:{wire}::{gateway} dev {to}"));
    }

    /// Nobody asks for routers, and addresses can be used at once.
    fn make_quiet(&self) {
        for scope in ["all", "default"] {
            for (name, value) in
                [("accept_dad", "0"), ("accept_ra", "0"), ("router_solicitations", "0")]
            {
                self.sysctl(&format!("ipv6/conf/{scope}/{name}"), value);
            }
        }
        self.ip("link set lo up");
    }
}

/// The IPv4 address of an end of a wire.
pub fn four(wire: u8, end: u8) -> IpAddr {
    Ipv4Addr::new(10, 90, wire, end).into()
}

/// The IPv6 address of an end of a wire.
pub fn six(wire: u8, end: u8) -> IpAddr {
    Ipv6Addr::new(0xfd90, wire.into(), 0, 0, 0, 0, 0, end.into()).into()
}

const PREFIX: &str = "calisto-line-";

/// Removes what tests have left that were killed.
fn remove_stale() {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&name);
        }
    }
}

fn remove(namespace: &str) {
    let (status, _, said) = run(Command::new("ip").args(["netns", "del", namespace]));
    if !status.success() {
        eprintln!("{namespace} is still there: {said}");
    }
}
