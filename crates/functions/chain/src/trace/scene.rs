//! Where a chain is traced: interfaces, addresses, routes and neighbours, of this machine as they
//! are now or made up.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calisto_nf::esp::Gateway;
use calisto_nf::fib::Interface;
use calisto_nf::{NextHop, Prefix, Rib};

use crate::error::ChainError;
use crate::file::{ChainFile, FunctionPart, RouterPart, Routes};
use crate::ports::{PortInterface, Ports};
use crate::routes::file as route_file;
use crate::routes::text::read_text;
use crate::runner::launch;
use crate::runner::senders::senders;
use crate::tables::{Senders, Tables};

/// What stands for the machine that the chain is to run on. Nothing said: this one, if it has the
/// interfaces.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Do not ask this machine.
    pub is_elsewhere: bool,
    /// Addresses of interfaces, by the interface's name, with the bits of the prefix on the link.
    /// If there are some this machine is not asked.
    pub addresses: Vec<(String, IpAddr, u8)>,
    /// A file of routes in place of those that the chain's file names.
    pub routes: Option<PathBuf>,
}

/// The same, looked up.
pub(super) struct Scene {
    pub(super) ports: Ports,
    pub(super) rib: Rib,
    /// Addresses of the host.
    pub(super) own: Vec<IpAddr>,
    pub(super) gateway: Option<Arc<Gateway>>,
    /// Whether link addresses are made up.
    pub(super) is_imagined: bool,
}

/// Bytes of the longest packet of an interface that nobody has seen.
const MTU: u32 = 1500;

impl Scene {
    /// # Errors
    /// A file that the chain's names is wrong, or an address is of no port; of this machine: it has
    /// rules of routing that the router does not follow, or netlink fails.
    pub(super) fn look(file: &ChainFile, folder: &Path, place: &Place) -> Result<Self, ChainError> {
        let gateway = launch::gateway(file, folder)?;
        let senders = senders(file, gateway.as_deref());
        let router = file.functions.iter().find_map(|function| match function {
            FunctionPart::Router(router) => Some(router.clone()),
            _ => None,
        });
        let router = router.map(|router| match &place.routes {
            Some(path) => RouterPart { routes: Routes::File(path.display().to_string()), ..router },
            None => router,
        });
        // A path from the command line is not one beside the chain's file.
        let folder = if place.routes.is_some() { Path::new("") } else { folder };
        let may_ask = !place.is_elsewhere && place.addresses.is_empty();
        if let Some(ports) = may_ask.then(|| launch::ports(file).ok()).flatten() {
            let tables = router.map(|router| Tables::look(&router, folder, ports.clone(), senders));
            let tables = tables.transpose()?;
            let own = tables.iter().flat_map(Tables::own_addresses).collect();
            let rib = tables.map_or_else(Rib::new, Tables::into_rib);
            return Ok(Self { ports, rib, own, gateway, is_imagined: false });
        }
        let ports = imagined_ports(file);
        let mut rib = Rib::new();
        if let Some(Routes::File(path)) = router.as_ref().map(|router| &router.routes) {
            load(&mut rib, &folder.join(path), &ports)?;
        }
        let own = place.addresses.iter().map(|(_, address, _)| *address).collect();
        give_addresses(&mut rib, &ports, &place.addresses, &senders)?;
        Ok(Self { ports, rib, own, gateway, is_imagined: true })
    }
}

/// The ports by the names that the file gives them.
fn imagined_ports(file: &ChainFile) -> Ports {
    let names = file.slices.first().into_iter().flat_map(|slice| &slice.ports);
    let interface = |(spec, index): (&port::PortSpec, u32)| PortInterface {
        name: spec.interface().map_or_else(|| spec.to_string(), str::to_owned),
        index,
        mac: [2, 0, 0, 0, 0, index as u8],
        mtu: MTU,
    };
    Ports::new(names.zip(1..).map(interface).collect())
}

/// Reads a file of routes. Those for which there is no room are withheld, as in a chain that runs.
fn load(rib: &mut Rib, path: &Path, ports: &Ports) -> Result<(), ChainError> {
    let text = read_text(path)?;
    let each = |prefix, to| {
        let _ = rib.load(prefix, to);
    };
    route_file::read(&text, &path.display().to_string(), ports, each, |_| {})?;
    Ok(())
}

/// Gives the ports their addresses, and what the kernel makes of those: routes to the links and to
/// the host, where the file has none.
fn give_addresses(
    rib: &mut Rib,
    ports: &Ports,
    addresses: &[(String, IpAddr, u8)],
    senders: &Senders,
) -> Result<(), ChainError> {
    let mut steps = Vec::new();
    for (name, address, bits) in addresses {
        let port = ports.named(name).ok_or_else(|| ChainError::Missing {
            slice: 0,
            why: format!(
                "{address} is to be an address of {name}, which is no port: they are {}",
                ports.names()
            ),
        })?;
        for (prefix, to) in [
            (Prefix::of(*address, *bits), NextHop::OnLink { port }),
            (Prefix::of(*address, u8::MAX), NextHop::Local),
        ] {
            if rib.get(prefix).is_none() || to == NextHop::Local {
                let _ = rib.load(prefix, to);
            }
        }
        let everybody = match address {
            IpAddr::V4(four) if *bits < 31 => {
                Some(Ipv4Addr::from_bits(four.to_bits() | u32::MAX >> bits).into())
            }
            _ => None,
        };
        for lie in [Some(*address), everybody].into_iter().flatten() {
            rib.set_own(lie, !senders.all.contains(&lie), &mut steps);
        }
    }
    for address in &senders.served {
        rib.set_served(*address, true, &mut steps);
    }
    for address in &senders.all {
        rib.set_made(*address, true, &mut steps);
    }
    for (port, at) in ports.each() {
        let of_port = || addresses.iter().filter(|(name, ..)| *name == at.name);
        let interface = Interface {
            mac: at.mac,
            mtu: at.mtu,
            four: of_port().find_map(|(_, address, _)| match address {
                IpAddr::V4(four) => Some(*four),
                IpAddr::V6(_) => None,
            }),
            six: of_port().find_map(|(_, address, _)| match address {
                IpAddr::V6(six) => Some(*six),
                IpAddr::V4(_) => None,
            }),
        };
        rib.set_interface(port, Some(interface), &mut steps);
    }
    Ok(())
}
