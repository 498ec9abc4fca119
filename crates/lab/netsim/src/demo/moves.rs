//! Which flows move: the daemon's own dispatcher says.

use std::net::SocketAddr;

use base::Nanos;
use wire::build::UdpPacket;
use wire::{FlowKey, Protocol};

use super::DemoPlan;
use crate::Refused;
use crate::whole::server::{Server, ServerPlan, Work};

/// Who owned each flow, by worker id: with the first workers, with one more, with the first again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moves {
    /// In the order of the act's flows.
    pub owners: [Vec<Option<u16>>; 3],
}

impl Moves {
    /// Flows whose owner changed when a worker came.
    pub fn up(&self) -> usize {
        changed(&self.owners[0], &self.owners[1])
    }

    /// Flows whose owner changed when it went.
    pub fn down(&self) -> usize {
        changed(&self.owners[1], &self.owners[2])
    }

    /// Flows of which this is said.
    pub fn flows(&self) -> usize {
        self.owners[0].len()
    }
}

fn changed(before: &[Option<u16>], after: &[Option<u16>]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before != after).count()
}

/// Packets between two turns of the data path: as many as a batch.
const BATCH: usize = base::BURST;

pub(super) fn predict(plan: &DemoPlan) -> Result<Vec<Moves>, Refused> {
    let mut acts = Vec::new();
    let Some(first) = plan.acts.first() else { return Ok(acts) };
    let server_plan = ServerPlan {
        policy: &first.policy,
        groups: plan.groups,
        seed: plan.seed,
        listen: "udp:0.0.0.0:0",
    };
    let mut server = Server::new(&server_plan, Work::Echo)?;
    let mut now = Nanos::from_secs(1);
    server.resize(plan.workers, now);
    rest(&mut server, &mut now)?;
    for (number, act) in plan.acts.iter().enumerate() {
        if number > 0 {
            server.set_policy(&act.policy)?;
            rest(&mut server, &mut now)?;
        }
        for flows in act.flows.chunks(BATCH) {
            for &(client, to) in flows {
                send(&mut server, client, to, now)?;
            }
            now += Nanos::from_micros(50);
            server.turn(now);
            server.take(now, |_| ());
        }
        rest(&mut server, &mut now)?;
        let before = owners(&server, &act.flows)?;
        server.resize(plan.workers + 1, now);
        rest(&mut server, &mut now)?;
        let more = owners(&server, &act.flows)?;
        server.resize(plan.workers, now);
        rest(&mut server, &mut now)?;
        acts.push(Moves { owners: [before, more, owners(&server, &act.flows)?] });
    }
    Ok(acts)
}

fn rest(server: &mut Server, now: &mut Nanos) -> Result<(), Refused> {
    let came_to_rest = server.settle(now);
    server.take(*now, |_| ());
    crate::refused::check(came_to_rest, "policies", "restless", "such that they come to rest")
}

fn send(
    server: &mut Server,
    client: SocketAddr,
    to: SocketAddr,
    now: Nanos,
) -> Result<(), Refused> {
    let packet = UdpPacket {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: crate::whole::server::MAC,
        source: client,
        destination: to,
        payload: &[0; 16],
        vlan: None,
    };
    let mut bytes = [0; 128];
    let length = packet.write(&mut bytes);
    let packet = length.and_then(|length| bytes.get(..length));
    let was_put = packet.is_some_and(|packet| server.put(packet, now));
    crate::refused::check(was_put, "flows", format!("{client} to {to}"), "of one IP version")
}

/// Who owns each flow's group.
fn owners(
    server: &Server,
    flows: &[(SocketAddr, SocketAddr)],
) -> Result<Vec<Option<u16>>, Refused> {
    let table = server.dispatcher.steering().table();
    let owner = |&(client, to): &(SocketAddr, SocketAddr)| {
        let key = FlowKey::new(Protocol::Udp, client, to).ok_or_else(|| Refused {
            field: "flows",
            value: format!("{client} to {to}"),
            allowed: "of one IP version",
        })?;
        let group = table.group_of(server.dispatcher.hash(&key));
        Ok(table.entry(group).owner().map(|worker| worker.0))
    };
    flows.iter().map(owner).collect()
}
