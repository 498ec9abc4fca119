//! What a chain is made of, made: ports looked up, tables filled, slices opened, threads started.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use base::PortId;
use calisto_nf::RibError;
use calisto_nf::esp::Gateway;
use calisto_slice::{Slice, SliceSpec};
use port::{AnyPort, Judge, Port, PortSpec};
use shm::ring;
use sys::cpu_set::CpuSet;
use sys::{clock, ethtool, interface, thread};

use super::make::{Parts, all_stages};
use super::senders::senders;
use super::{Chain, Event, Thread, guards};
use crate::board::Board;
use crate::error::ChainError;
use crate::feed::feed;
use crate::file::{ChainFile, FunctionPart, SlicePart};
use crate::filter::wanted::{compile, filter_of, has, is_guarded, note_of, too_many_addresses};
use crate::hook::{HookStats, Takes};
use crate::ports::Ports;
use crate::stage::Stage;
use crate::swap::swapper;
use crate::tables::Tables;
use crate::tunnels;
use crate::worker::Worker;

/// Wanted neighbours on their way to the control thread.
const WANTED: usize = 256;
/// Filters and hooks on their way to a slice's thread, which takes them between two batches.
const TAKES: usize = 8;

/// The interfaces of a chain, which are the same in all its slices.
pub(crate) fn ports(file: &ChainFile) -> Result<Ports, ChainError> {
    let first = file.slices.first();
    let ports = first.map_or_else(|| Ok(Ports::new(Vec::new())), Ports::of);
    Ok(ports?)
}

/// The tunnels of the gateway, if there is one.
pub(crate) fn gateway(file: &ChainFile, folder: &Path) -> Result<Option<Arc<Gateway>>, ChainError> {
    let part = file.functions.iter().find_map(|function| match function {
        FunctionPart::Esp(esp) => Some(esp),
        _ => None,
    });
    let gateway = part.map(|part| tunnels::read(part, folder, None, clock::now())).transpose()?;
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
    let mut tables = Tables::load(router, folder, ports.clone(), senders(file, gateway), progress)?;
    let figures = tables.figures();
    tell(Event::Loaded {
        routes: figures.routes,
        ipv4: figures.ipv4_routes,
        ipv6: figures.ipv6_routes,
        took: clock::now().since(began),
    });
    if let Some(error) = tables.take_refused() {
        tell(Event::Note(withheld(error)));
    }
    if let Some(said) = tables.take_unfollowed() {
        tell(Event::Note(said));
    }
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

/// What is said of routes for which the tables have no room.
pub(super) fn withheld(error: RibError) -> String {
    format!("packets of routes that find no room in the tables are dropped: {error}")
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

/// What comes from a host at the other end of a veth may be longer than any frame, unless that host
/// was told not to: it is lost, and its TCP stands still without a word.
fn tell_of_veths(file: &ChainFile, tell: &mut dyn FnMut(Event)) {
    let names = file.slices.iter().take(1).flat_map(|slice| &slice.ports);
    let veths: Vec<&str> = names
        .filter_map(PortSpec::interface)
        .filter(|name| ethtool::driver(name).is_ok_and(|driver| driver.name == "veth"))
        .collect();
    if !veths.is_empty() {
        tell(Event::Note(format!(
            "{}: on veths, a host at the other end must not leave segmentation to the device: `ethtool -K NAME \
             tso off gso off gro off` there, or its TCP stands still",
            veths.join(", ")
        )));
    }
}

/// Opens all slices and then starts their threads: a queue that cannot be had shows before any
/// traffic flows.
pub(super) fn threads(
    chain: &mut Chain,
    file: &ChainFile,
    folder: &Path,
    tell: &mut dyn FnMut(Event),
) -> Result<(), ChainError> {
    tell_of_queues(file, tell);
    tell_of_veths(file, tell);
    for note in guards::notes(file, &chain.ports) {
        tell(Event::Note(note));
    }
    let by_itself = default_filter(file, tell)?;
    let mut slices = Vec::with_capacity(file.slices.len());
    for (number, part) in file.slices.iter().enumerate() {
        let mut spec = spec_of(file, number, part);
        spec.filter = spec.filter.or_else(|| by_itself.clone());
        let opened = (Slice::open(&spec)?, spec.filter);
        tell_of_judges(&opened.0, tell);
        slices.push(opened);
    }
    let parts = Parts {
        folder,
        ports: &chain.ports,
        rib: chain.tables.as_ref().map(Tables::rib),
        gateway: chain.gateway.as_ref(),
        health: &chain.health,
        follows: None,
    };
    let all_stages = all_stages(&parts, file, &|_| false)?;
    chain.compiled = chain.compile(file);
    tell_of_hook(chain, file, tell);
    for ((part, (slice, filter)), stages) in file.slices.iter().zip(slices).zip(all_stages) {
        spawn(chain, part, slice, filter, stages)?;
    }
    Ok(())
}

/// The filter of slices for which the file names none; `None`: they take everything.
pub(crate) fn default_filter(
    file: &ChainFile,
    tell: &mut dyn FnMut(Event),
) -> Result<Option<String>, ChainError> {
    if !has(file, "router") {
        return Ok(None);
    }
    let addresses = interface::all_addresses()?.into_iter().map(|(_, at)| at);
    let filter = filter_of(file, addresses);
    let note = filter.as_ref().map_or_else(|| Some(too_many_addresses(file)), note_of);
    if let Some(note) = note {
        tell(Event::Note(note));
    }
    // Whoever wants the host guarded does not want it unguarded without a word, or out of reach.
    if is_guarded(file) {
        let failed = |why| ChainError::Function { kind: "acl", why };
        let wanted = filter.as_ref().ok_or_else(|| failed(too_many_addresses(file)))?;
        compile(file, wanted)?;
    }
    Ok(filter.map(|filter| filter.expression))
}

/// A slice as the file describes it.
pub(super) fn spec_of(file: &ChainFile, number: usize, part: &SlicePart) -> SliceSpec {
    let mut spec = SliceSpec::new(format!("{}-{number}", file.name), part.ports.clone());
    spec.frames = part.frames.unwrap_or(spec.frames);
    spec.frame_bytes = part.frame_bytes.unwrap_or(spec.frame_bytes);
    spec.filter.clone_from(&part.filter);
    let mut cpus = CpuSet::new();
    for &cpu in &part.cpus {
        cpus.insert(cpu);
    }
    spec.cpus = cpus;
    spec
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

/// Who wants the hook is told what is not there.
fn tell_of_hook(chain: &Chain, file: &ChainFile, tell: &mut dyn FnMut(Event)) {
    let places = chain.compiled.places.iter().chain(&chain.compiled.exits);
    for place in places.filter(|place| file.hook && !place.hook) {
        let why = place.why.as_deref().unwrap_or_default();
        tell(Event::Note(format!("not in the hook: {}: {why}", place.name)));
    }
}

fn spawn(
    chain: &mut Chain,
    part: &SlicePart,
    mut slice: Slice<AnyPort>,
    filter: Option<String>,
    stages: Vec<Stage>,
) -> Result<(), ChainError> {
    let mut stats = HookStats::default();
    let hook = stats.next(&chain.compiled)?;
    let macs = chain.compiled.macs.clone();
    let takes = Takes { filter: slice.filter().cloned(), hook, macs };
    if takes.hook.is_some() {
        slice.attach_hook(takes.filter.as_ref(), takes.hook.as_ref())?;
    }
    stats.sent(takes.hook.as_ref(), &chain.compiled);
    let name = slice.name().to_owned();
    let board = Arc::new(Board::default());
    let (feed, changes) = feed(slice.waker());
    let (wanted, wishes) = ring::<(PortId, IpAddr)>(WANTED);
    let (to_take, taken) = ring(TAKES);
    let (swapper, swapped) = swapper();
    let worker = Worker {
        slice,
        stages,
        changes,
        takes: taken,
        swapped,
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
        follows,
        wanted_filter: takes.filter.clone(),
        takes,
        to_take,
        stats,
        board,
        feed,
        swapper,
        wanted: wishes,
        handle: Some(handle),
    });
    Ok(())
}

#[cfg(test)]
mod tests;
