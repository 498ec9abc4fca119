//! What a chain is made of, made: ports looked up, tables filled, slices opened, threads started.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use base::PortId;
use calisto_nf::esp::Gateway;
use calisto_nf::l2::Link;
use calisto_nf::router::RouterSettings;
use calisto_nf::{Acl, Esp, Fib, L2, Policer, Router};
use calisto_slice::{Slice, SliceSpec};
use crypto::IpsecMb;
use port::{AnyPort, Judge, Port, PortSpec};
use shm::ring;
use sys::cpu_set::CpuSet;
use sys::{clock, ethtool, interface, thread};

use super::{Chain, Event, Thread};
use crate::board::Board;
use crate::error::ChainError;
use crate::feed::feed;
use crate::file::{
    AclPart, ChainFile, EspPart, FunctionPart, L2Part, LinkPart, PolicerPart, RouterPart, SlicePart,
};
use crate::filter;
use crate::ports::Ports;
use crate::stage::Stage;
use crate::tables::Tables;
use crate::tunnels;
use crate::worker::Worker;

/// Wanted neighbours on their way to the control thread.
const WANTED: usize = 256;
/// Filters on their way to a slice's thread, which takes one when it has nothing else to do.
const FILTERS: usize = 8;

/// The interfaces of a chain, which are the same in all its slices.
pub(super) fn ports(file: &ChainFile) -> Result<Ports, ChainError> {
    let first = file.slices.first();
    let ports = first.map_or_else(|| Ok(Ports::new(Vec::new())), Ports::of);
    Ok(ports?)
}

/// The tunnels of the gateway, if there is one.
pub(super) fn gateway(file: &ChainFile, folder: &Path) -> Result<Option<Arc<Gateway>>, ChainError> {
    let part = file.functions.iter().find_map(|function| match function {
        FunctionPart::Esp(esp) => Some(esp),
        _ => None,
    });
    let gateway = part.map(|part| tunnels::read(part, folder)).transpose()?;
    Ok(gateway.map(Arc::new))
}

/// The tables of the router, if there is one.
pub(super) fn tables(
    file: &ChainFile,
    folder: &Path,
    ports: &Ports,
    gateway: Option<&Gateway>,
    tell: &mut dyn FnMut(Event),
) -> Result<Option<Tables>, ChainError> {
    let router = file.functions.iter().find_map(|function| match function {
        FunctionPart::Router(router) => Some(router),
        _ => None,
    });
    let Some(router) = router else { return Ok(None) };
    let began = clock::now();
    let progress = |bytes, of| tell(Event::Reading { bytes, of });
    // What comes out of a tunnel's end here is from one of our addresses, and not forged.
    let sealing = gateway.into_iter().flat_map(Gateway::own_addresses).collect();
    let tables = Tables::load(router, folder, ports.clone(), sealing, progress)?;
    let figures = tables.figures();
    tell(Event::Loaded {
        routes: figures.routes,
        ipv4: figures.ipv4_routes,
        ipv6: figures.ipv6_routes,
        took: clock::now().since(began),
    });
    if figures.multipath_routes > 0 {
        let count = figures.multipath_routes;
        tell(Event::Note(format!("{count} routes have several next hops: the first is used")));
    }
    if figures.routes_elsewhere > 0 {
        let count = figures.routes_elsewhere;
        tell(Event::Note(format!(
            "{count} routes lead to interfaces that are no ports of the chain ({}): packets to there \
             are dropped",
            ports.names()
        )));
    }
    Ok(Some(tables))
}

/// Says which interfaces have queues that no slice takes: their packets stay with the kernel.
fn tell_of_queues(file: &ChainFile, tell: &mut dyn FnMut(Event)) {
    let taken = |name: &str| {
        let ports = file.slices.iter().flat_map(|slice| &slice.ports);
        let queues = ports.filter_map(|port| match port {
            PortSpec::Xdp { interface, queue, .. } if interface == name => Some(queue.is_some()),
            _ => None,
        });
        // Without a number it is all of them.
        queues.fold(0, |sum: u32, is_one| if is_one { sum.saturating_add(1) } else { u32::MAX })
    };
    let names = file.slices.iter().take(1).flat_map(|slice| &slice.ports);
    for name in names.filter_map(PortSpec::interface) {
        let Ok(queues) = ethtool::channels(name) else { continue };
        if (1..queues.rx).contains(&taken(name)) {
            tell(Event::Note(format!(
                "{name} receives by {} queues, of which the chain takes {}: what comes by the others is \
                 left to the kernel; add a [[slice]] for each, or `ethtool -L {name} combined {1}`",
                queues.rx,
                taken(name)
            )));
        }
    }
}

/// Opens all slices and then starts their threads: a queue that cannot be had shows before any
/// traffic flows.
pub(super) fn threads(
    chain: &mut Chain,
    file: &ChainFile,
    tell: &mut dyn FnMut(Event),
) -> Result<(), ChainError> {
    tell_of_queues(file, tell);
    let by_itself = default_filter(file, tell)?;
    let mut slices = Vec::with_capacity(file.slices.len());
    for (number, part) in file.slices.iter().enumerate() {
        let name = format!("{}-{number}", file.name);
        let filter = part.filter.clone().or_else(|| by_itself.clone());
        let opened = open(name, part, filter)?;
        tell_of_judges(&opened.0, tell);
        slices.push(opened);
    }
    let parts = Parts {
        ports: &chain.ports,
        tables: chain.tables.as_ref(),
        gateway: chain.gateway.as_ref(),
    };
    let all_stages = all_stages(&parts, file)?;
    for ((part, (slice, filter)), stages) in file.slices.iter().zip(slices).zip(all_stages) {
        spawn(chain, part, slice, filter, stages)?;
    }
    Ok(())
}

/// Whether the chain has a function of that kind.
pub(super) fn has(file: &ChainFile, kind: &str) -> bool {
    file.functions.iter().any(|function| function.kind() == kind)
}

/// The filter of slices for which the file names none; `None`: they take everything.
fn default_filter(
    file: &ChainFile,
    tell: &mut dyn FnMut(Event),
) -> Result<Option<String>, ChainError> {
    if !has(file, "router") {
        return Ok(None);
    }
    let addresses: Vec<_> = interface::all_addresses()?.into_iter().map(|(_, at)| at).collect();
    let filter = filter::of_router(&addresses, has(file, "esp"));
    if filter.is_none() {
        tell(Event::Note(too_many_addresses()));
    }
    Ok(filter)
}

pub(super) fn too_many_addresses() -> String {
    format!(
        "this host has more than {} addresses, too many to follow in a filter: write `filter` in each \
         [[slice]]",
        filter::ADDRESSES_MAX
    )
}

type Opened = (Slice<AnyPort>, Option<String>);

fn open(name: String, part: &SlicePart, filter: Option<String>) -> Result<Opened, ChainError> {
    let mut spec = SliceSpec::new(name, part.ports.clone());
    spec.frames = part.frames.unwrap_or(spec.frames);
    spec.frame_bytes = part.frame_bytes.unwrap_or(spec.frame_bytes);
    spec.filter.clone_from(&filter);
    let mut cpus = CpuSet::new();
    for &cpu in &part.cpus {
        cpus.insert(cpu);
    }
    spec.cpus = cpus;
    Ok((Slice::open(&spec)?, filter))
}

/// A port that cannot leave packets to the kernel keeps from it what the filter does not want.
fn tell_of_judges(slice: &Slice<AnyPort>, tell: &mut dyn FnMut(Event)) {
    for (port, judge) in slice.ports().iter().zip(slice.judges()) {
        if let Judge::Reader { why } = judge {
            let name = &port.capabilities().name;
            tell(Event::Note(format!(
                "{name}: what the filter does not want is dropped, not left to the kernel: {why}"
            )));
        }
    }
}

/// What functions are made from.
struct Parts<'a> {
    ports: &'a Ports,
    tables: Option<&'a Tables>,
    gateway: Option<&'a Arc<Gateway>>,
}

/// The functions of all slices.
fn all_stages(parts: &Parts, file: &ChainFile) -> Result<Vec<Vec<Stage>>, ChainError> {
    let mut all: Vec<Vec<Stage>> = Vec::with_capacity(file.slices.len());
    for _ in &file.slices {
        let stages = stages(parts, file, all.first())?;
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
) -> Result<Vec<Stage>, ChainError> {
    let make = |(index, function): (usize, &FunctionPart)| {
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
            (FunctionPart::Esp(esp), _) => esp_of(esp, parts),
        }
    };
    file.functions.iter().enumerate().map(make).collect()
}

fn router_of(part: &RouterPart, parts: &Parts) -> Result<Router, ChainError> {
    let seed = u64::from_ne_bytes(sys::random::bytes()?);
    let fib = parts.tables.map_or_else(|| Fib::new(seed), |tables| tables.fib(seed));
    let default = RouterSettings::default();
    let settings = RouterSettings {
        icmp_per_second: part.icmp_per_second.unwrap_or(default.icmp_per_second),
        icmp_burst: part.icmp_burst.unwrap_or(default.icmp_burst),
    };
    Ok(Router::new(fib, &settings).holding_packets())
}

fn acl_of(AclPart { rules, default, not_ip }: &AclPart) -> Result<Stage, ChainError> {
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

fn spawn(
    chain: &mut Chain,
    part: &SlicePart,
    slice: Slice<AnyPort>,
    filter: Option<String>,
    stages: Vec<Stage>,
) -> Result<(), ChainError> {
    let name = slice.name().to_owned();
    let board = Arc::new(Board::default());
    let (feed, changes) = feed(slice.waker());
    let (wanted, wishes) = ring::<(PortId, IpAddr)>(WANTED);
    let (filters, filters_taken) = ring(FILTERS);
    let worker = Worker {
        slice,
        stages,
        changes,
        filters: filters_taken,
        wanted,
        doorbell: Arc::clone(&chain.doorbell),
        board: Arc::clone(&board),
        undecided: 0,
    };
    let (stop, thread_name) = (Arc::clone(&chain.stop), name.clone());
    let work = move || {
        thread::set_name(&thread_name);
        worker.run(&stop)
    };
    let handle = std::thread::Builder::new().name(name.clone()).spawn(work).map_err(|error| {
        ChainError::Ended { slice: name.clone(), why: format!("it cannot begin: {error}") }
    })?;
    // A filter that the file names is the operator's, and stays.
    let follows = part.filter.is_none() && filter.is_some();
    chain.threads.push(Thread {
        name,
        cpus: part.cpus.clone(),
        filter,
        filters: follows.then_some(filters),
        board,
        feed,
        wanted: wishes,
        handle: Some(handle),
    });
    Ok(())
}

#[cfg(test)]
mod tests;
