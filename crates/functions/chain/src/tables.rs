//! A router's routes and neighbours on the control side: filled, followed, and turned into steps
//! for the slices' threads.

mod asks;
mod following;
mod host;
mod neighbours;
mod prepared;
mod rules;
mod table;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use base::{Nanos, PortId};
use calisto_nf::fib::Interface;
use calisto_nf::{FibChange, NextHop, Prefix, Rib, RibError};
use sys::interface;
use sys::net_changes::{Change, NetMonitor};

use crate::error::ChainError;
use crate::figures::RouterFigures;
use crate::file::{RouterPart, Routes};
use crate::ports::Ports;
use crate::routes::file;
use crate::routes::kernel::KernelRoutes;
use crate::routes::text::read_text;
use following::Following;
pub(crate) use host::Senders;
use host::{Host, address_of_errors};
use neighbours::Neighbourhood;
pub(crate) use prepared::Prepared;
use rules::Unfollowed;
use table::Table;

/// What the control thread knows of routes and neighbours.
pub(crate) struct Tables {
    /// Where the routes come from, for people.
    source: String,
    ports: Ports,
    changes: NetMonitor,
    table: Table,
    following: Following,
    /// Where the kernel's routes are followed.
    rules: Option<Unfollowed>,
    neighbourhood: Neighbourhood,
    host: Host,
}

impl Tables {
    /// Fills the tables; functions of the chain send from `senders`. `progress` is told
    /// how much of a file has been read, of how much.
    ///
    /// # Errors
    /// Netlink or the file fails, there is no room for a route and the chain is to stop then, or
    /// the kernel has rules of routing that are not to be ignored.
    pub(crate) fn load(
        part: &RouterPart,
        folder: &Path,
        ports: Ports,
        senders: Senders,
        progress: impl FnMut(usize, usize),
    ) -> Result<Self, ChainError> {
        let (mut tables, gateways) = Self::fill(part, folder, ports, senders, progress)?;
        tables.neighbourhood.ask_ahead(gateways, &tables.ports, &mut tables.table);
        // The first tables are made whole of what is known now.
        tables.table.steps.clear();
        Ok(tables)
    }

    /// The same for whoever only looks: no neighbour is asked for.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn look(
        part: &RouterPart,
        folder: &Path,
        ports: Ports,
        senders: Senders,
    ) -> Result<Self, ChainError> {
        Self::fill(part, folder, ports, senders, |_, _| {}).map(|(tables, _)| tables)
    }

    /// Reads everything; the other routers that routes lead to besides.
    fn fill(
        part: &RouterPart,
        folder: &Path,
        ports: Ports,
        senders: Senders,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<(Self, BTreeSet<(PortId, IpAddr)>), ChainError> {
        // Heard from before the first dump on, so that nothing is missed between the two.
        let changes = NetMonitor::follow()?;
        let mut tables = Self {
            source: "kernel".to_owned(),
            ports,
            changes,
            table: Table::new(part.when_full),
            following: Following::nothing(),
            rules: None,
            neighbourhood: Neighbourhood::default(),
            host: Host::new(senders),
        };
        let mut gateways = BTreeSet::new();
        match &part.routes {
            Routes::Kernel => {
                tables.rules = Some(Unfollowed::look(part.rules)?);
                let routes = following::dump(&tables.ports)?;
                let mut full = Ok(());
                routes.each(|prefix, to| {
                    gateways.extend(gateway(to));
                    if full.is_ok() {
                        full = tables.table.load(prefix, to);
                    }
                });
                full.map_err(|error| tables.do_not_fit(error))?;
                tables.following.routes = Some(routes);
            }
            Routes::File(path) => {
                let path = folder.join(path);
                tables.source = path.display().to_string();
                tables.read(&path, &mut gateways, &mut progress)?;
            }
        }
        tables.arrange()?;
        tables.neighbourhood.dump(&tables.ports, &mut tables.table)?;
        // The first tables are made whole of what is known now.
        tables.table.steps.clear();
        tables.table.changes = 0;
        Ok((tables, gateways))
    }

    /// Reads what a router of other settings would have for routes, without putting it in force.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn prepare(&self, part: &RouterPart, folder: &Path) -> Result<Prepared, ChainError> {
        let follows_kernel = self.following.routes.is_some();
        Prepared::read(part, folder, &self.ports, follows_kernel)
    }

    /// Puts in force what was prepared; functions of the chain send from `senders`.
    ///
    /// # Errors
    /// Never for want of room: that was seen to.
    pub(crate) fn commit(
        &mut self,
        prepared: Prepared,
        senders: Senders,
    ) -> Result<(), ChainError> {
        let Prepared { source, when_full, routes, rules } = prepared;
        self.source = source;
        self.table.set_when_full(when_full);
        self.host.set_senders(senders, &mut self.table);
        self.rules = rules;
        let Some((routes, following)) = routes else { return Ok(()) };
        let are_of_file = following.is_none();
        self.following.routes = following;
        for (prefix, to) in self.table.difference(routes) {
            self.change(prefix, to)?;
        }
        if are_of_file {
            self.host.route(&mut self.table).map_err(|error| self.do_not_fit(error))?;
        }
        Ok(())
    }

    /// Routes and neighbours as everything stands, for the tables of one more thread; later steps
    /// fit to them.
    pub(crate) fn rib(&self) -> &Rib {
        &self.table.rib
    }

    /// The same, for whoever does not follow what changes.
    pub(crate) fn into_rib(self) -> Rib {
        self.table.rib
    }

    /// What to do since the last call, in order, for every thread.
    pub(crate) fn steps(&mut self) -> &mut Vec<FibChange> {
        &mut self.table.steps
    }

    /// Takes in what the kernel has told, and does what is due.
    ///
    /// # Errors
    /// Netlink fails, or there is no room for a route and the chain is to stop then.
    pub(crate) fn turn(&mut self, now: Nanos) -> Result<(), ChainError> {
        let mut heard = Vec::new();
        self.changes.take(|change| heard.push(change));
        let is_rearranged =
            heard.iter().any(|change| matches!(change, Change::Arrangement | Change::Lost));
        for change in heard {
            self.hear(change, now)?;
        }
        if is_rearranged {
            self.arrange()?;
            self.rules.as_mut().map_or(Ok(()), Unfollowed::look_again)?;
        }
        if self.following.take_due(now) {
            let fresh = following::dump(&self.ports)?;
            let mut changes = Vec::new();
            if let Some(routes) = &mut self.following.routes {
                routes.replace(fresh, |change| changes.push(change));
            }
            for (prefix, to) in changes {
                self.change(prefix, to)?;
            }
        }
        if now >= self.neighbourhood.refresh_at() {
            self.neighbourhood.refresh(now, &self.ports, &mut self.table);
        }
        Ok(())
    }

    /// When [`Self::turn`] has something to do although nothing has changed.
    pub(crate) fn next_deadline(&self) -> Nanos {
        self.following.dump_at().min(self.neighbourhood.refresh_at())
    }

    /// Packets wait for this neighbour's link address: it is asked for, one that did not answer
    /// before as well, unless that was done within the last second.
    pub(crate) fn want(&mut self, port: PortId, address: IpAddr, now: Nanos) {
        self.neighbourhood.want(port, address, now, &self.ports, &mut self.table);
    }

    /// The addresses of this host, if they have changed since the last call.
    pub(crate) fn take_readdressed(&mut self) -> Option<&BTreeSet<IpAddr>> {
        self.host.take_changed()
    }

    /// The addresses of this host.
    pub(crate) fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.host.own().iter().copied()
    }

    /// Whether routes are the kernel's.
    pub(crate) fn follows_kernel(&self) -> bool {
        self.following.routes.is_some()
    }

    /// Whether the kernel has rules of routing, which are not followed.
    pub(crate) fn has_rules(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.count() > 0)
    }

    /// Addresses from which nobody sends who is to be believed.
    pub(crate) fn liars(&self) -> impl Iterator<Item = IpAddr> {
        self.host.liars()
    }

    /// Why routes are withheld that were not before the last call.
    pub(crate) fn take_refused(&mut self) -> Option<RibError> {
        self.table.take_refused()
    }

    /// Which rules of routing are not followed, if that has changed since the last call.
    pub(crate) fn take_unfollowed(&mut self) -> Option<String> {
        self.rules.as_mut()?.take_sentence()
    }

    pub(crate) fn figures(&self) -> RouterFigures {
        let (ipv4_routes, ipv6_routes) = self.table.rib.len();
        let (neighbours, neighbours_asked) = self.neighbourhood.counts();
        let routes = self.following.routes.as_ref();
        let deviations = routes.map(KernelRoutes::deviations).unwrap_or_default();
        RouterFigures {
            routes: self.source.clone(),
            ipv4_routes,
            ipv6_routes,
            neighbours,
            route_changes: self.table.changes,
            routes_withheld: self.table.rib.withheld(),
            neighbours_asked,
            rules_ignored: self.rules.as_ref().map_or(0, Unfollowed::count),
            multipath_routes: deviations.multipath,
            routes_elsewhere: deviations.elsewhere,
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
                full = self.table.load(prefix, to);
            }
        };
        file::read(&text, &name, &self.ports, each, |bytes| progress(bytes, text.len()))?;
        full.map_err(|error| self.do_not_fit(error))
    }

    fn do_not_fit(&self, error: RibError) -> ChainError {
        ChainError::Tables { routes: self.source.clone(), error }
    }

    fn hear(&mut self, change: Change, now: Nanos) -> Result<(), ChainError> {
        match change {
            Change::Route(entry, placed) => {
                let routes = self.following.routes.as_mut();
                if let Some((prefix, to)) = routes.and_then(|routes| routes.set(&entry, placed)) {
                    self.change(prefix, to)?;
                }
            }
            Change::RouteGone(entry) => {
                let routes = self.following.routes.as_mut();
                if let Some((prefix, to)) = routes.and_then(|routes| routes.remove(&entry)) {
                    self.change(prefix, to)?;
                }
            }
            Change::Neighbour(interface, address, known) => {
                if let Some(port) = self.ports.with_index(interface) {
                    self.neighbourhood.set(port, address, Some(known), &mut self.table);
                }
            }
            Change::NeighbourGone(interface, address) => {
                if let Some(port) = self.ports.with_index(interface) {
                    self.neighbourhood.set(port, address, None, &mut self.table);
                }
            }
            Change::Arrangement => self.following.dump_soon(now),
            Change::Lost => {
                self.following.dump_soon(now);
                self.neighbourhood.dump(&self.ports, &mut self.table)?;
            }
        }
        Ok(())
    }

    /// Looks what the ports are on their links, and which addresses are this host's.
    fn arrange(&mut self) -> Result<(), ChainError> {
        let links = interface::list()?;
        let addresses = interface::all_addresses()?;
        for (port, at) in self.ports.each() {
            let of_link = || addresses.iter().filter(|(on, _)| *on == at.index).map(|(_, ip)| *ip);
            let link = links.iter().find(|link| link.index == at.index);
            let interface = link.map(|link| Interface {
                mac: link.mac,
                mtu: link.mtu,
                four: of_link().find_map(|ip| match ip {
                    IpAddr::V4(four) => Some(four),
                    IpAddr::V6(_) => None,
                }),
                six: address_of_errors(of_link()),
            });
            self.table.rib.set_interface(port, interface, &mut self.table.steps);
        }
        let own = addresses.into_iter().map(|(_, ip)| ip).collect();
        let everybody = interface::broadcasts()?.into_iter().map(IpAddr::V4).collect();
        let are_routes = self.following.routes.is_none();
        let done = self.host.set(own, everybody, are_routes, &mut self.table);
        done.map_err(|error| self.do_not_fit(error))
    }

    fn change(&mut self, prefix: Prefix, to: Option<NextHop>) -> Result<(), ChainError> {
        self.table.change(prefix, to).map_err(|error| self.do_not_fit(error))?;
        let gateway = to.and_then(gateway).into_iter().collect();
        self.neighbourhood.ask_ahead(gateway, &self.ports, &mut self.table);
        Ok(())
    }
}

impl AsFd for Tables {
    /// Readable when something has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

fn gateway(to: NextHop) -> Option<(PortId, IpAddr)> {
    match to {
        NextHop::Gateway { port, address } => Some((port, address)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
