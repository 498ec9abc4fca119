//! Whether a chain's file and the files that it names are right, without opening anything.

use std::path::Path;

use crate::error::ChainError;
use crate::file::{ChainFile, FunctionPart, Routes};
use crate::ports::{PortInterface, Ports};
use crate::routes::file as route_file;
use crate::tables::read_text;
use crate::tunnels;

/// What was found in files that are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// IPv4 routes of its file of routes.
    pub ipv4_routes: usize,
    /// IPv6 routes of the same.
    pub ipv6_routes: usize,
}

/// Reads every file that `file` names, relative to `folder`.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(file: &ChainFile, folder: &Path) -> Result<Checked, ChainError> {
    let mut checked = Checked::default();
    let ports = named_ports(file);
    for function in &file.functions {
        if let FunctionPart::Esp(esp) = function {
            tunnels::read(esp, folder)?;
        }
        if let FunctionPart::Router(router) = function
            && let Routes::File(path) = &router.routes
        {
            let path = folder.join(path);
            let text = read_text(&path)?;
            let count = |prefix: calisto_nf::Prefix, _| match prefix.address().is_ipv4() {
                true => checked.ipv4_routes += 1,
                false => checked.ipv6_routes += 1,
            };
            route_file::read(&text, &path.display().to_string(), &ports, count, |_| {})?;
        }
    }
    Ok(checked)
}

/// The ports by the names that the file gives them; whether there are such interfaces is not asked.
fn named_ports(file: &ChainFile) -> Ports {
    let names = file.slices.first().into_iter().flat_map(|slice| &slice.ports);
    let interface = |(port, index): (&port::PortSpec, u32)| PortInterface {
        name: port.interface().unwrap_or_default().to_owned(),
        index,
        mac: [0; 6],
        mtu: 0,
    };
    Ports::new(names.zip(1..).map(interface).collect())
}
