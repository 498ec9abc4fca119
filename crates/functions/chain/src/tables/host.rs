//! The addresses of this host: nobody else sends from them, and what is for them is the kernel's.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use calisto_nf::{NextHop, Prefix, RibError};

use super::table::Table;

/// From which addresses functions before the router send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Senders {
    /// All of them: at the router such a source is believed, and what comes from outside with it is
    /// forged.
    pub(crate) all: BTreeSet<IpAddr>,
    /// Those of them from which servers answer, too, who are outside.
    pub(crate) served: BTreeSet<Ipv4Addr>,
}

/// The addresses of this host.
pub(super) struct Host {
    own: BTreeSet<IpAddr>,
    /// Those of everybody on its links.
    everybody: BTreeSet<IpAddr>,
    senders: Senders,
    /// Whether they changed since somebody asked.
    has_changed: bool,
}

impl Host {
    pub(super) const fn new(senders: Senders) -> Self {
        Self { own: BTreeSet::new(), everybody: BTreeSet::new(), senders, has_changed: false }
    }

    /// Takes in which addresses there are now, and which are everybody's on a link. A file of
    /// routes does not say which are ours, so they become routes then (`are_routes`); what it does
    /// say counts before that.
    pub(super) fn set(
        &mut self,
        own: BTreeSet<IpAddr>,
        everybody: BTreeSet<IpAddr>,
        are_routes: bool,
        table: &mut Table,
    ) -> Result<(), RibError> {
        let gone: Vec<IpAddr> = self.own.difference(&own).copied().collect();
        let come: Vec<IpAddr> = own.difference(&self.own).copied().collect();
        let before = std::mem::replace(&mut self.everybody, everybody);
        for address in gone.iter().chain(before.difference(&self.everybody)) {
            table.rib.set_own(*address, false, &mut table.steps);
        }
        self.has_changed |= !gone.is_empty() || !come.is_empty();
        self.own = own;
        self.distrust(table);
        if are_routes {
            for prefix in gone.into_iter().map(host_prefix) {
                if table.rib.get(prefix) == Some(NextHop::Local) {
                    table.change(prefix, None)?;
                }
            }
            self.route(table)?;
        }
        Ok(())
    }

    /// Sets from which addresses functions before the router send.
    pub(super) fn set_senders(&mut self, senders: Senders, table: &mut Table) {
        for address in self.senders.all.difference(&senders.all) {
            table.rib.set_made(*address, false, &mut table.steps);
        }
        for address in self.senders.served.difference(&senders.served) {
            table.rib.set_served(*address, false, &mut table.steps);
        }
        self.senders = senders;
        self.distrust(table);
    }

    /// Says from which addresses nobody sends who is to be believed: ours, and everybody's (RFC
    /// 1812 section 5.3.7).
    fn distrust(&self, table: &mut Table) {
        for address in self.own.iter().chain(&self.everybody) {
            let is_lie = !self.senders.all.contains(address);
            table.rib.set_own(*address, is_lie, &mut table.steps);
        }
        // First those that are believed, so that none is refused in between.
        for address in &self.senders.served {
            table.rib.set_served(*address, true, &mut table.steps);
        }
        for address in &self.senders.all {
            table.rib.set_made(*address, true, &mut table.steps);
        }
    }

    /// Those addresses.
    pub(super) fn liars(&self) -> impl Iterator<Item = IpAddr> {
        let all = self.own.iter().chain(&self.everybody);
        all.filter(|address| !self.senders.all.contains(address)).copied()
    }

    /// Routes to the addresses themselves, where there are no others.
    pub(super) fn route(&self, table: &mut Table) -> Result<(), RibError> {
        for prefix in self.own.iter().copied().map(host_prefix) {
            if table.rib.get(prefix).is_none() {
                table.change(prefix, Some(NextHop::Local))?;
            }
        }
        Ok(())
    }

    /// The addresses.
    pub(super) const fn own(&self) -> &BTreeSet<IpAddr> {
        &self.own
    }

    /// The addresses, if they have changed since the last call.
    pub(super) fn take_changed(&mut self) -> Option<&BTreeSet<IpAddr>> {
        std::mem::take(&mut self.has_changed).then_some(&self.own)
    }
}

fn host_prefix(address: IpAddr) -> Prefix {
    Prefix::of(address, u8::MAX)
}

/// The IPv6 address that a port's error messages come from: one that the sender, who may be far
/// away, can tell from others, if there is one (RFC 4443 section 2.2).
pub(super) fn address_of_errors(addresses: impl Iterator<Item = IpAddr>) -> Option<Ipv6Addr> {
    let six = addresses.filter_map(|ip| match ip {
        IpAddr::V6(six) => Some(six),
        IpAddr::V4(_) => None,
    });
    six.min_by_key(|six| six.is_unicast_link_local())
}
