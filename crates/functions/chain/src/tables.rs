//! A router's routes and neighbours on the control side: filled, followed, and turned into steps
//! for the slices' threads.

mod asks;
mod neighbours;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use base::{Nanos, PortId};
use calisto_nf::fib::Interface;
use calisto_nf::{Fib, FibChange, NextHop, Prefix, Rib, RibError};
use sys::interface;
use sys::neighbour::Neighbour;
use sys::net_news::{NetNews, News};

use crate::error::ChainError;
use crate::figures::RouterFigures;
use crate::file::{RouterPart, Routes};
use crate::ports::Ports;
use crate::routes::file;
use crate::routes::kernel::KernelRoutes;
use asks::{ASKS_MAX, Asks};

/// After news that leave the tables in doubt: time for more of them, so that one dump settles all.
const SETTLE: Nanos = Nanos::from_millis(20);
/// Between two dumps, however much there is in doubt.
const DUMP_EVERY: Nanos = Nanos::from_secs(1);
/// How often the kernel is told which neighbours are in use: it holds one to be fresh for 30 s.
const REFRESH_EVERY: Nanos = Nanos::from_secs(10);

/// What the control thread knows of routes and neighbours.
pub(crate) struct Tables {
    ports: Ports,
    rib: Rib,
    news: NetNews,
    /// Of routes that follow the kernel's.
    kernel: Option<KernelRoutes>,
    known: BTreeMap<(PortId, IpAddr), Neighbour>,
    asks: Asks,
    steps: Vec<FibChange>,
    dump_at: Nanos,
    dumped_at: Nanos,
    refresh_at: Nanos,
    /// Addresses from which functions before the router send.
    senders: BTreeSet<IpAddr>,
    /// Addresses of this host.
    own: BTreeSet<IpAddr>,
    /// Whether those changed since somebody asked.
    is_readdressed: bool,
    /// What to tell whoever runs the chain, once.
    refused: Option<RibError>,
    figures: RouterFigures,
}

impl Tables {
    /// Fills the tables; packets from `senders` are from functions of the chain. `progress` is told
    /// how much of a file has been read, of how much.
    ///
    /// # Errors
    /// Netlink or the file fails, or the routes are too many.
    pub(crate) fn load(
        part: &RouterPart,
        folder: &Path,
        ports: Ports,
        senders: BTreeSet<IpAddr>,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Self, ChainError> {
        // Heard from before the first dump on, so that nothing is missed between the two.
        let news = NetNews::follow()?;
        let mut tables = Self {
            rib: Rib::new(),
            news,
            kernel: None,
            known: BTreeMap::new(),
            asks: Asks::default(),
            steps: Vec::new(),
            dump_at: Nanos::FAR_FUTURE,
            dumped_at: Nanos::ZERO,
            refresh_at: Nanos::ZERO,
            senders,
            own: BTreeSet::new(),
            is_readdressed: false,
            refused: None,
            figures: RouterFigures::default(),
            ports,
        };
        let mut gateways = BTreeSet::new();
        match &part.routes {
            Routes::Kernel => {
                tables.figures.routes = "kernel".to_owned();
                let routes = tables.dump()?;
                let mut full = Ok(());
                routes.each(|prefix, to| {
                    gateways.extend(gateway(to));
                    if full.is_ok() {
                        full = tables.rib.load(prefix, to);
                    }
                });
                full.map_err(|error| tables.do_not_fit(error))?;
                tables.kernel = Some(routes);
            }
            Routes::File(path) => {
                let path = folder.join(path);
                tables.figures.routes = path.display().to_string();
                tables.read(&path, &mut gateways, &mut progress)?;
            }
        }
        tables.arrange()?;
        tables.dump_neighbours()?;
        // So that the first packets need not wait.
        gateways.retain(|key| !tables.known.contains_key(key));
        for (port, address) in gateways.into_iter().take(ASKS_MAX) {
            tables.ask(port, address);
        }
        // The first tables are made whole of what is known now.
        tables.steps.clear();
        tables.figures.route_changes = 0;
        Ok(tables)
    }

    /// Tables as everything stands, for one more thread; later steps fit to them.
    pub(crate) fn fib(&self, seed: u64) -> Fib {
        self.rib.fib(seed)
    }

    /// What to do since the last call, in order, for every thread.
    pub(crate) fn steps(&mut self) -> &mut Vec<FibChange> {
        &mut self.steps
    }

    /// Takes in what the kernel has told, and does what is due.
    ///
    /// # Errors
    /// Netlink fails.
    pub(crate) fn turn(&mut self, now: Nanos) -> Result<(), ChainError> {
        let mut heard = Vec::new();
        self.news.take(|news| heard.push(news));
        let is_rearranged = heard.iter().any(|news| matches!(news, News::Arrangement | News::Lost));
        for news in heard {
            self.hear(news, now)?;
        }
        if is_rearranged {
            self.arrange()?;
        }
        if self.kernel.as_ref().is_some_and(KernelRoutes::is_in_doubt) {
            self.dump_soon(now);
        }
        if now >= self.dump_at {
            self.dump_at = Nanos::FAR_FUTURE;
            self.dumped_at = now;
            let fresh = self.dump()?;
            if let Some(mut routes) = self.kernel.take() {
                routes.replace(fresh, |(prefix, to)| self.change(prefix, to));
                self.kernel = Some(routes);
            }
        }
        if now >= self.refresh_at {
            self.refresh_at = now + REFRESH_EVERY;
            self.refresh();
        }
        Ok(())
    }

    /// When [`Self::turn`] has something to do although there is no news.
    pub(crate) fn next_deadline(&self) -> Nanos {
        self.dump_at.min(self.refresh_at)
    }

    /// Packets wait for this neighbour's link address: it is asked for, one that did not answer
    /// before as well, unless that was done within the last second.
    pub(crate) fn want(&mut self, port: PortId, address: IpAddr, now: Nanos) {
        if self.asks.allow(port, address, now) {
            self.ask(port, address);
        }
    }

    /// The addresses of this host, if they have changed since the last call.
    pub(crate) fn take_readdressed(&mut self) -> Option<&BTreeSet<IpAddr>> {
        std::mem::take(&mut self.is_readdressed).then_some(&self.own)
    }

    /// Why routes were left out since the last call.
    pub(crate) fn take_refused(&mut self) -> Option<RibError> {
        self.refused.take()
    }

    pub(crate) fn figures(&self) -> RouterFigures {
        let (ipv4_routes, ipv6_routes) = self.rib.len();
        let known = self.known.values().filter(|known| known.usable_mac().is_some());
        let deviations = self.kernel.as_ref().map(KernelRoutes::deviations).unwrap_or_default();
        RouterFigures {
            ipv4_routes,
            ipv6_routes,
            neighbours: known.count(),
            multipath_routes: deviations.multipath,
            routes_elsewhere: deviations.elsewhere,
            ..self.figures.clone()
        }
    }

    fn read(
        &mut self,
        path: &Path,
        gateways: &mut BTreeSet<(PortId, IpAddr)>,
        progress: &mut impl FnMut(usize, usize),
    ) -> Result<(), ChainError> {
        let text = read_text(path)?;
        let name = path.display().to_string();
        let mut full = Ok(());
        let each = |prefix, to| {
            gateways.extend(gateway(to));
            if full.is_ok() {
                full = self.rib.load(prefix, to);
            }
        };
        file::read(&text, &name, &self.ports, each, |bytes| progress(bytes, text.len()))?;
        full.map_err(|error| self.do_not_fit(error))
    }

    fn do_not_fit(&self, error: RibError) -> ChainError {
        ChainError::Tables { routes: self.figures.routes.clone(), error }
    }

    fn hear(&mut self, news: News, now: Nanos) -> Result<(), ChainError> {
        match news {
            News::Route(entry, placed) => {
                let change = self.kernel.as_mut().and_then(|routes| routes.set(&entry, placed));
                change.into_iter().for_each(|(prefix, to)| self.change(prefix, to));
            }
            News::RouteGone(entry) => {
                let change = self.kernel.as_mut().and_then(|routes| routes.remove(&entry));
                change.into_iter().for_each(|(prefix, to)| self.change(prefix, to));
            }
            News::Neighbour(interface, address, known) => {
                if let Some(port) = self.ports.with_index(interface) {
                    self.set_neighbour(port, address, Some(known));
                }
            }
            News::NeighbourGone(interface, address) => {
                if let Some(port) = self.ports.with_index(interface) {
                    self.set_neighbour(port, address, None);
                }
            }
            News::Arrangement => self.dump_soon(now),
            News::Lost => {
                self.dump_soon(now);
                self.dump_neighbours()?;
            }
        }
        Ok(())
    }

    /// Looks what the ports are on their links, and which addresses are this host's.
    fn arrange(&mut self) -> Result<(), ChainError> {
        let links = interface::list()?;
        let addresses = interface::all_addresses()?;
        let ports: Vec<_> = self.ports.each().map(|(port, at)| (port, at.index)).collect();
        for (port, index) in ports {
            let of_link = || addresses.iter().filter(|(at, _)| *at == index).map(|(_, ip)| *ip);
            let link = links.iter().find(|link| link.index == index);
            let interface = link.map(|link| Interface {
                mac: link.mac,
                mtu: link.mtu,
                four: of_link().find_map(|ip| match ip {
                    IpAddr::V4(four) => Some(four),
                    IpAddr::V6(_) => None,
                }),
                six: address_of_errors(of_link()),
            });
            self.rib.set_interface(port, interface, &mut self.steps);
        }
        let own: BTreeSet<IpAddr> = addresses.iter().map(|(_, ip)| *ip).collect();
        for gone in self.own.difference(&own) {
            self.rib.set_own(*gone, false, &mut self.steps);
        }
        for come in own.difference(&self.own).filter(|ip| !self.senders.contains(*ip)) {
            self.rib.set_own(*come, true, &mut self.steps);
        }
        if self.kernel.is_none() {
            self.route_own(&own);
        }
        self.is_readdressed |= own != self.own;
        self.own = own;
        Ok(())
    }

    /// A file of routes does not say which addresses are ours; what it does say counts before that.
    fn route_own(&mut self, own: &BTreeSet<IpAddr>) {
        let gone: Vec<IpAddr> = self.own.difference(own).copied().collect();
        let come: Vec<IpAddr> = own.difference(&self.own).copied().collect();
        for prefix in gone.into_iter().map(|ip| Prefix::of(ip, u8::MAX)) {
            if self.rib.get(prefix) == Some(NextHop::Local) {
                self.change(prefix, None);
            }
        }
        for prefix in come.into_iter().map(|ip| Prefix::of(ip, u8::MAX)) {
            if self.rib.get(prefix).is_none() {
                self.change(prefix, Some(NextHop::Local));
            }
        }
    }

    fn dump_soon(&mut self, now: Nanos) {
        if self.kernel.is_some() && self.dump_at == Nanos::FAR_FUTURE {
            self.dump_at = (now + SETTLE).max(self.dumped_at + DUMP_EVERY);
        }
    }

    fn dump(&self) -> Result<KernelRoutes, ChainError> {
        let mut routes = KernelRoutes::new(self.ports.clone());
        let mut entries_changed = false;
        // A table that changes during the dump may have been told in pieces that do not fit; the
        // news of the change come after it and put that right, unless entries moved. Once more is
        // enough.
        for _ in 0..2 {
            routes = KernelRoutes::new(self.ports.clone());
            entries_changed = sys::route::dump(|entry| routes.add(&entry))?;
            if !entries_changed {
                break;
            }
        }
        routes.set_in_doubt(entries_changed);
        Ok(routes)
    }

    fn change(&mut self, prefix: Prefix, to: Option<NextHop>) {
        self.figures.route_changes += 1;
        let changed = match to {
            Some(to) => self.rib.set(prefix, to, &mut self.steps),
            None => self.rib.remove(prefix, &mut self.steps).map(drop),
        };
        if let Err(error) = changed {
            self.figures.routes_refused += 1;
            self.refused = Some(error);
        }
        if let Some(NextHop::Gateway { port, address }) = to
            && !self.known.contains_key(&(port, address))
        {
            self.ask(port, address);
        }
    }
}

impl AsFd for Tables {
    /// Readable when there is news.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

/// The IPv6 address that a port's error messages come from: one that the sender, who may be far
/// away, can tell from others, if there is one (RFC 4443 section 2.2).
fn address_of_errors(addresses: impl Iterator<Item = IpAddr>) -> Option<Ipv6Addr> {
    let six = addresses.filter_map(|ip| match ip {
        IpAddr::V6(six) => Some(six),
        IpAddr::V4(_) => None,
    });
    six.min_by_key(|six| six.is_unicast_link_local())
}

fn gateway(to: NextHop) -> Option<(PortId, IpAddr)> {
    match to {
        NextHop::Gateway { port, address } => Some((port, address)),
        _ => None,
    }
}

/// A table as text; more than anybody would write is refused unread.
pub(crate) fn read_text(path: &Path) -> Result<String, ChainError> {
    let unreadable = |why: String| ChainError::Unreadable { path: path.display().to_string(), why };
    let bytes = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if bytes > file::FILE_BYTES_MAX {
        let why = format!("it has {bytes} bytes; allowed are {}", file::FILE_BYTES_MAX);
        return Err(unreadable(why));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(format!("byte {at} is no text (UTF-8)"))
    })
}

#[cfg(test)]
mod tests;
