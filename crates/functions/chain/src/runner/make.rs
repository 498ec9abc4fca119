//! The functions of all slices, made of their parts of the file.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use calisto_nf::esp::Gateway;
use calisto_nf::l2::Link;
use calisto_nf::mirror::MirrorSettings;
use calisto_nf::router::RouterSettings;
use calisto_nf::tunnel::BadTunnel;
use calisto_nf::{
    Acl, Balancer, Esp, Fib, Firewall, L2, Mirror, Nat, Policer, Rib, Router, Tunnel,
};
use crypto::IpsecMb;
use plugin::{Foreign, NotLoaded};

use super::senders::senders;
use crate::error::ChainError;
use crate::file::{
    AclPart, BalancerPart, ChainFile, EspPart, FileError, FirewallPart, FunctionPart, L2Part,
    LinkPart, MirrorPart, NatPart, NotMade, OwnPart, PolicerPart, RouterPart, SharedObjectPart,
    TunnelPart,
};
use crate::health::Health;
use crate::ports::Ports;
use crate::stage::Stage;
use crate::tables::Senders;

/// What functions are made from.
pub(crate) struct Parts<'a> {
    /// Where the chain's file lies.
    pub(crate) folder: &'a Path,
    pub(crate) ports: &'a Ports,
    /// None: routers begin with empty ones.
    pub(crate) rib: Option<&'a Rib>,
    pub(crate) gateway: Option<&'a Arc<Gateway>>,
    pub(crate) health: &'a Health,
    /// Each function takes the place of one that differs in what is known of the servers of these
    /// services alone.
    pub(crate) follows: Option<&'a BTreeSet<usize>>,
}

/// The functions of all slices; stand-ins for those that `are_kept`, by their place.
pub(crate) fn all_stages(
    parts: &Parts,
    file: &ChainFile,
    are_kept: &dyn Fn(usize) -> bool,
) -> Result<Vec<Vec<Stage>>, ChainError> {
    let mut all: Vec<Vec<Stage>> = Vec::with_capacity(file.slices.len());
    for _ in &file.slices {
        let stages = stages(parts, file, all.first(), are_kept)?;
        all.push(stages);
    }
    Ok(all)
}

/// The functions of one slice. Each slice has its own, tables and all; but a rate is that of the
/// whole chain, so they share what limits it with those of the first slice.
fn stages(
    parts: &Parts,
    file: &ChainFile,
    first: Option<&Vec<Stage>>,
    are_kept: &dyn Fn(usize) -> bool,
) -> Result<Vec<Stage>, ChainError> {
    let make = |(index, function): (usize, &FunctionPart)| {
        if are_kept(index) {
            return Ok(Stage::stand_in());
        }
        let first = first.and_then(|stages| stages.get(index));
        match (function, first) {
            (FunctionPart::Router(router), Some(Stage::Router(first))) => {
                let router = router_of(router, parts)?.sharing_limits_with(first);
                Ok(Stage::Router(Box::new(router)))
            }
            (FunctionPart::Router(router), _) => {
                Ok(Stage::Router(Box::new(router_of(router, parts)?)))
            }
            (FunctionPart::Acl(acl), _) => acl_of(acl),
            (FunctionPart::Policer(_), Some(Stage::Policer(first))) => {
                Ok(Stage::Policer(Box::new(first.sharing_limits())))
            }
            (FunctionPart::Policer(policer), _) => policer_of(policer),
            (FunctionPart::L2(l2), _) => Ok(Stage::L2(l2_of(l2, parts.ports)?)),
            (FunctionPart::Firewall(firewall), _) => firewall_of(firewall, parts.ports),
            (FunctionPart::Esp(esp), _) => esp_of(esp, parts),
            (FunctionPart::Nat(nat), _) => nat_of(nat, parts.ports),
            (FunctionPart::Balancer(balancer), _) => balancer_of(balancer, parts),
            (FunctionPart::Tunnel(_), Some(Stage::Tunnel(first))) => {
                Ok(Stage::Tunnel(Box::new(first.sharing_paths())))
            }
            (FunctionPart::Tunnel(tunnel), _) => tunnel_of(tunnel, file, parts),
            (FunctionPart::Mirror(mirror), _) => mirror_of(mirror, parts.ports),
            (FunctionPart::Own(own), _) => own_of(own, parts),
            (FunctionPart::SharedObject(object), _) => object_of(object, parts),
        }
    };
    file.functions.iter().enumerate().map(make).collect()
}

fn router_of(part: &RouterPart, parts: &Parts) -> Result<Router, ChainError> {
    let seed = u64::from_ne_bytes(sys::random::bytes()?);
    let fib = parts.rib.map_or_else(|| Fib::new(seed), |rib| rib.fib(seed));
    let default = RouterSettings::default();
    let settings = RouterSettings {
        icmp_per_second: part.icmp_per_second.unwrap_or(default.icmp_per_second),
        icmp_burst: part.icmp_burst.unwrap_or(default.icmp_burst),
    };
    Ok(Router::new(fib, &settings).holding_packets())
}

fn acl_of(
    AclPart { rules, default, not_ip, guards_host: _ }: &AclPart,
) -> Result<Stage, ChainError> {
    let acl = Acl::new(rules, *default, *not_ip);
    let acl = acl.map_err(|wrong| ChainError::Function { kind: "acl", why: wrong.to_string() })?;
    Ok(Stage::Acl(Box::new(acl)))
}

fn policer_of(part: &PolicerPart) -> Result<Stage, ChainError> {
    let seed = u64::from_ne_bytes(sys::random::bytes()?);
    let failed = |wrong: calisto_nf::policer::PolicerError| ChainError::Function {
        kind: "policer",
        why: wrong.to_string(),
    };
    Ok(Stage::Policer(Box::new(Policer::new(&part.classes, seed).map_err(failed)?)))
}

/// Every slice has its own part of the library; the tunnels are one for all.
fn esp_of(part: &EspPart, parts: &Parts) -> Result<Stage, ChainError> {
    let failed = |why: String| ChainError::Function { kind: "esp", why };
    let gateway = parts.gateway.ok_or_else(|| failed("it has no tunnels".to_owned()))?;
    let cipher = IpsecMb::open().map_err(|error| failed(error.to_string()))?;
    Ok(Stage::Esp(Box::new(Esp::new(Arc::clone(gateway), part.others, cipher))))
}

fn l2_of(part: &L2Part, ports: &Ports) -> Result<L2, ChainError> {
    let address_of = |list: &[(String, [u8; 6])], name: &str| {
        list.iter().find(|(other, _)| other == name).map(|(_, address)| *address)
    };
    let mut links = Vec::new();
    for LinkPart(one, other) in &part.links {
        for (from, to) in [(one, other), (other, one)] {
            // The file was held against its ports.
            let (Some(from), Some(out)) = (ports.named(from), ports.named(to)) else { continue };
            links.push(Link {
                from,
                to: out,
                source: address_of(&part.source, to),
                destination: address_of(&part.destination, to),
            });
        }
    }
    L2::new(&links).map_err(|error| ChainError::Function { kind: "l2", why: error.to_string() })
}

/// Every slice has connections of its own.
fn firewall_of(part: &FirewallPart, ports: &Ports) -> Result<Stage, ChainError> {
    let of_zone = |(_, interfaces): &(String, Vec<String>)| {
        interfaces.iter().filter_map(|interface| ports.named(interface)).collect()
    };
    let mut settings = part.settings.clone();
    settings.zones = part.zones.iter().map(of_zone).collect();
    settings.track.seed = u64::from_ne_bytes(sys::random::bytes()?);
    let failed = |wrong: calisto_nf::firewall::FirewallError| ChainError::Function {
        kind: "firewall",
        why: wrong.to_string(),
    };
    Ok(Stage::Firewall(Box::new(Firewall::new(&settings).map_err(failed)?)))
}

fn nat_of(part: &NatPart, ports: &Ports) -> Result<Stage, ChainError> {
    let mut settings = part.settings.clone();
    settings.outside = part.outside.iter().filter_map(|name| ports.named(name)).collect();
    settings.track.seed = u64::from_ne_bytes(sys::random::bytes()?);
    Ok(Stage::Nat(Box::new(Nat::new(&settings))))
}

/// It lets nobody send through it in the name of other functions of the chain, but for servers of a
/// service that answer in its name.
fn tunnel_of(part: &TunnelPart, file: &ChainFile, parts: &Parts) -> Result<Stage, ChainError> {
    let failed = |wrong: BadTunnel| ChainError::Function { kind: "tunnel", why: wrong.to_string() };
    let Senders { all, served } = senders(file, parts.gateway.map(Arc::as_ref));
    let is_served = |address: &IpAddr| matches!(address, IpAddr::V4(it) if served.contains(it));
    let made = all.into_iter().filter(|address| !is_served(address));
    let tunnel = Tunnel::new(&part.tunnels).map_err(failed)?.refusing(made);
    Ok(Stage::Tunnel(Box::new(tunnel)))
}

fn own_of(part: &OwnPart, parts: &Parts) -> Result<Stage, ChainError> {
    let made = part.make(parts.folder, &|name| parts.ports.named(name));
    let failed = |why: NotMade| match why.downcast::<FileError>() {
        Ok(wrong) => ChainError::File(*wrong),
        Err(why) => ChainError::Function { kind: part.kind(), why: why.to_string() },
    };
    made.map(Stage::Own).map_err(failed)
}

fn mirror_of(part: &MirrorPart, ports: &Ports) -> Result<Stage, ChainError> {
    let failed = |why: String| ChainError::Function { kind: "mirror", why };
    let to = ports.named(&part.to).ok_or_else(|| failed(format!("{} is no port", part.to)))?;
    let &MirrorPart { to: _, every, bytes, selector } = part;
    let seed = u64::from_ne_bytes(sys::random::bytes()?);
    let mirror = Mirror::new(&MirrorSettings { to, every, bytes, selector, seed });
    Ok(Stage::Mirror(Box::new(mirror.map_err(|wrong| failed(wrong.to_string()))?)))
}

fn object_of(part: &SharedObjectPart, parts: &Parts) -> Result<Stage, ChainError> {
    let path = parts.folder.join(&part.file);
    let made = Foreign::load(&path, &part.arguments, &|name| parts.ports.named(name));
    let failed = |wrong: NotLoaded| {
        let why = format!("{}: {wrong}", path.display());
        ChainError::Function { kind: "shared-object", why }
    };
    Ok(Stage::Own(Box::new(made.map_err(failed)?)))
}

fn balancer_of(part: &BalancerPart, parts: &Parts) -> Result<Stage, ChainError> {
    let mut settings = part.settings.clone();
    settings.seed = u64::from_ne_bytes(sys::random::bytes()?);
    let is_well = |service, server| parts.health.is_well(service, server);
    let balancer = match parts.follows {
        Some(changed) => Balancer::following(&settings, is_well, |at| changed.contains(&at)),
        None => Balancer::new(&settings, is_well),
    };
    Ok(Stage::Balancer(Box::new(balancer)))
}
