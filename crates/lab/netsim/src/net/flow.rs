//! The flows of a run: who sends how much to whom, and when.

use std::net::SocketAddr;

use base::{FlowHash, Nanos};
use load::Random;
use tcp::FlowId;
use wire::{FlowKey, Protocol, Toeplitz};

use super::plan::{NetPlan, Traffic};
use super::topology::{Links, Path};

/// Port that everybody accepts connections at.
pub(super) const PORT: u16 = 7;

/// Connections of one host have ports from here on.
const FIRST_PORT: u16 = 1024;

/// A way of a connection: to the server, or back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// As the receiver calls it: the sender is the source.
    pub(super) key: FlowKey,
    pub(super) hash: FlowHash,
    pub(super) path: Path,
}

/// A flow: from a client to a server, which reads.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) client: u32,
    pub(super) server: u32,
    pub(super) begins: Nanos,
    /// `None`: it has no end.
    pub(super) bytes: Option<u64>,
    /// Not yet given to the engine.
    pub(super) unsent: u64,
    pub(super) received: u64,
    /// Received in the span that is measured.
    pub(super) measured: u64,
    pub(super) ended: Option<Nanos>,
    /// Its connection is over, whether it has ended or not.
    pub(super) is_over: bool,
    /// The client's name of it.
    pub(super) id: Option<FlowId>,
    pub(super) to_server: Way,
    pub(super) to_client: Way,
}

impl Flow {
    pub(super) fn way(&self, is_to_server: bool) -> &Way {
        if is_to_server { &self.to_server } else { &self.to_client }
    }

    pub(super) fn client_address(&self) -> SocketAddr {
        self.to_server.key.source()
    }

    pub(super) fn server_address(&self) -> SocketAddr {
        self.to_server.key.destination()
    }
}

/// Address of a host.
pub(super) fn address(host: u32, port: u16) -> SocketAddr {
    let [_, _, high, low] = host.to_be_bytes();
    ([10, 0, high, low], port).into()
}

/// All flows of a plan, by the time at which they begin.
pub(super) fn flows(
    plan: &NetPlan,
    links: &Links,
    toeplitz: &Toeplitz,
    random: &mut Random,
) -> Vec<Flow> {
    let hosts = plan.topology.hosts();
    let mut ports = vec![FIRST_PORT; hosts as usize];
    let mut flow = |client: u32, server: u32, begins, bytes: Option<u64>, random: &mut Random| {
        let port = ports[client as usize];
        ports[client as usize] = port.checked_add(1).unwrap_or(FIRST_PORT);
        let (here, there) = (address(client, port), address(server, PORT));
        let way = |from, to, path| {
            let key = FlowKey::new(Protocol::Tcp, from, to).expect("both addresses are IPv4");
            Way { key, hash: toeplitz.hash(&key), path }
        };
        let to_server = way(here, there, links.path(client, server, random));
        let to_client = way(there, here, links.path(server, client, random));
        Flow {
            client,
            server,
            begins,
            bytes,
            unsent: bytes.unwrap_or(u64::MAX),
            received: 0,
            measured: 0,
            ended: None,
            is_over: false,
            id: None,
            to_server,
            to_client,
        }
    };
    let within =
        |spread: Nanos, random: &mut Random| Nanos((spread.0 as f64 * random.unit()) as u64);
    match &plan.traffic {
        Traffic::Arriving { flows, sizes, load } => {
            let all_links = f64::from(hosts) * plan.topology.host_link.rate as f64;
            let gap_ns = sizes.mean() * 8e9 / (all_links * load);
            let mut at = 0.0;
            (0..*flows)
                .map(|_| {
                    at += gap_ns * random.exponential();
                    let client = random.below(hosts);
                    let server = (client + 1 + random.below(hosts - 1)) % hosts;
                    let bytes = sizes.draw(random);
                    flow(client, server, Nanos(at as u64), Some(bytes), random)
                })
                .collect()
        }
        Traffic::Incast { senders, bytes, spread } => (1..=*senders)
            .map(|sender| {
                let begins = within(*spread, random);
                flow(sender, 0, begins, Some(*bytes), random)
            })
            .collect(),
        Traffic::Lasting { flows, spread, .. } => (0..*flows)
            .map(|number| {
                let client = number % hosts;
                // Another distance in each round, so that as many come in as go out everywhere.
                let distance = 1 + (number / hosts * 7 + hosts / 2 - 1) % (hosts - 1);
                let begins = within(*spread, random);
                flow(client, (client + distance) % hosts, begins, None, random)
            })
            .collect(),
    }
}
