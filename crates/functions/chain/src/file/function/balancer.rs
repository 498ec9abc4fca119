//! `kind = "balancer"`.

use std::net::{Ipv4Addr, SocketAddrV4};

use calisto_nf::balancer::{
    BalancerSettings, FLOWS, Forwarding, SERVERS_MAX, SERVICES_MAX, Server, Service, WEIGHT_MAX,
};
use toml::de::DeValue;

use crate::file::FileError;
use crate::file::section::{Section, Source, number, text, word};

/// Services, and how their servers are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerPart {
    /// All but the seed.
    pub settings: BalancerSettings,
    /// For each service, how often its servers are checked, in seconds, and how.
    pub checks: Vec<(u64, Check)>,
}

/// How a server is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// It is taken to be well.
    None,
    /// It accepts connections.
    Tcp,
    /// It answers a request for this path.
    Http(String),
}

const PROTOCOLS: &[&str] = &["tcp", "udp"];
const FORWARDING: &[&str] = &["nat", "link", "ipip"];
const CHECKS: &[&str] = &["tcp", "http", "none"];
const PATH_BYTES_MAX: usize = 1024;

pub(super) fn read(section: &mut Section<'_>) -> Result<BalancerPart, FileError> {
    let flows = section.optional("flows", number(*FLOWS.start() as u64..=*FLOWS.end() as u64))?;
    let services = section.sections("services", 1..=SERVICES_MAX, service)?;
    let (services, checks): (Vec<Service>, Vec<_>) =
        services.into_iter().map(|(service, _)| service).unzip();
    for (at, one) in services.iter().enumerate() {
        let is_same =
            |other: &&Service| (other.address, other.protocol) == (one.address, one.protocol);
        if services[..at].iter().any(|other| is_same(&other)) {
            return Err(section.error("services", format!("has {} twice", one.address)));
        }
        let by_itself = |service: &Service| !matches!(service.forwarding, Forwarding::Ipip { .. });
        let others = services[..at]
            .iter()
            .filter(|other| by_itself(one) && by_itself(other) && other.protocol == one.protocol);
        let theirs: Vec<SocketAddrV4> =
            others.flat_map(|other| &other.servers).map(|server| server.address).collect();
        if let Some(shared) = one.servers.iter().find(|own| theirs.contains(&own.address)) {
            let says = format!(
                "has the server {} in two services: what it sends would be of both; give it a port \
                 for each",
                shared.address
            );
            return Err(section.error("services", says));
        }
    }
    let flows = flows.map_or(1 << 18, |flows| flows as usize);
    Ok(BalancerPart { settings: BalancerSettings { services, flows, seed: 0 }, checks })
}

fn service(section: &mut Section<'_>) -> Result<(Service, (u64, Check)), FileError> {
    let address = section.required("address", "address = \"192.0.2.80:443\"", end)?;
    let protocol = section.optional("protocol", word(PROTOCOLS))?.unwrap_or(0);
    let forwarding = section.optional("forwarding", word(FORWARDING))?.unwrap_or(0);
    let source = section.optional("source", host)?;
    let forwarding = match (FORWARDING[forwarding], source) {
        ("ipip", Some(source)) => Forwarding::Ipip { source },
        ("ipip", None) => {
            return Err(section.error("source", "is missing: where packets of ipip come from"));
        }
        (_, Some(_)) => return Err(section.error("source", "is for `forwarding = \"ipip\"` alone")),
        ("link", None) => Forwarding::Link,
        (_, None) => Forwarding::Nat,
    };
    let check = section.optional("check", word(CHECKS))?;
    let path = section.optional("check_path", text(PATH_BYTES_MAX))?;
    let is_visible =
        |path: &str| path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic());
    if path.as_deref().is_some_and(|path| !is_visible(path)) {
        return Err(section.error("check_path", "begins with / and has no spaces"));
    }
    let check = match check.map(|at| CHECKS[at]) {
        None if PROTOCOLS[protocol] == "udp" => Check::None,
        Some("none") => Check::None,
        Some("http") => Check::Http(path.unwrap_or_else(|| "/".to_owned())),
        _ => Check::Tcp,
    };
    let seconds = section.optional("check_seconds", number(1..=60))?.unwrap_or(2);
    let servers = section.sections("servers", 1..=SERVERS_MAX, |server| {
        let address = server.required("address", "address = \"10.0.0.1:8443\"", end)?;
        let weight = server.optional("weight", number(0..=u64::from(WEIGHT_MAX)))?;
        Ok(Server { address, weight: weight.map_or(1, |weight| weight as u32) })
    })?;
    let servers: Vec<Server> = servers.into_iter().map(|(server, _)| server).collect();
    for (at, one) in servers.iter().enumerate() {
        if servers[..at].iter().any(|other| other.address == one.address) {
            return Err(section.error("servers", format!("has {} twice", one.address)));
        }
        if forwarding != Forwarding::Nat && one.address.port() != address.port() {
            let says = format!("has {}: only with \"nat\" another port is allowed", one.address);
            return Err(section.error("servers", says));
        }
    }
    let protocol = if PROTOCOLS[protocol] == "tcp" { 6 } else { 17 };
    Ok((Service { address, protocol, forwarding, servers }, (seconds, check)))
}

fn end(value: &DeValue<'_>) -> Result<SocketAddrV4, String> {
    let read = value.as_str().and_then(|text| text.parse::<SocketAddrV4>().ok());
    let read = read.filter(|end| end.port() != 0 && is_of_a_host(*end.ip()));
    read.ok_or_else(|| "an IPv4 address and a port, such as \"192.0.2.80:443\"".to_owned())
}

fn host(value: &DeValue<'_>) -> Result<Ipv4Addr, String> {
    let read = value.as_str().and_then(|text| text.parse::<Ipv4Addr>().ok());
    read.filter(|address| is_of_a_host(*address))
        .ok_or_else(|| "an IPv4 address of one host, such as \"192.0.2.7\"".to_owned())
}

fn is_of_a_host(address: Ipv4Addr) -> bool {
    !address.is_loopback()
        && !address.is_multicast()
        && !address.is_unspecified()
        && !address.is_broadcast()
}

/// Where answers come back this way, they come back to the slice that has sent the question.
pub(super) fn agree(
    source: &Source<'_>,
    line: usize,
    slices: usize,
    part: &BalancerPart,
) -> Result<(), FileError> {
    let comes_back = |service: &Service| service.forwarding == Forwarding::Nat;
    if slices > 1 && part.settings.services.iter().any(comes_back) {
        let says = format!(
            "is \"nat\" over {slices} slices: an answer comes to another one than its question; give \
             the chain one [[slice]], or let servers answer by themselves"
        );
        return Err(source.error(Some(line), "function.services.forwarding", says));
    }
    Ok(())
}
