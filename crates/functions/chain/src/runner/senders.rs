//! In whose name functions of a chain send.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use calisto_nf::balancer::{Forwarding, Service};
use calisto_nf::esp::Gateway;

use crate::file::{ChainFile, FunctionPart};
use crate::filter::wanted::taken;
use crate::tables::Senders;

/// Addresses from which functions of the chain send: at the router what comes from those is not
/// forged.
pub(crate) fn senders(file: &ChainFile, gateway: Option<&Gateway>) -> Senders {
    let tunnels = gateway.into_iter().flat_map(Gateway::own_addresses);
    let of_service = |service: &Service| match service.forwarding {
        Forwarding::Ipip { source } => Some(IpAddr::V4(source)),
        Forwarding::Nat | Forwarding::Link => None,
    };
    let of_function = |function: &FunctionPart| match function {
        FunctionPart::Balancer(part) => {
            part.settings.services.iter().filter_map(of_service).collect()
        }
        FunctionPart::Tunnel(part) => part.tunnels.iter().map(|tunnel| tunnel.local).collect(),
        _ => Vec::new(),
    };
    let wrapping = file.functions.iter().flat_map(of_function);
    let all: BTreeSet<IpAddr> = tunnels.chain(taken(file)).chain(wrapping).collect();
    Senders { all, served: answering(file) }
}

/// Addresses of services whose servers answer by themselves, in the service's name.
fn answering(file: &ChainFile) -> BTreeSet<Ipv4Addr> {
    let of_function = |function: &FunctionPart| match function {
        FunctionPart::Balancer(part) => part.settings.services.clone(),
        _ => Vec::new(),
    };
    let services = file.functions.iter().flat_map(of_function);
    let answering = services.filter(|service| !matches!(service.forwarding, Forwarding::Nat));
    answering.map(|service| *service.address.ip()).collect()
}
