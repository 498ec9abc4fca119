//! Whether a chain's file and the files that it names are right, without opening anything.

use std::path::Path;

use port::PortSpec;
use sys::cpu_set::CpuSet;

use crate::error::ChainError;
use crate::file::{ChainFile, FunctionPart, Routes};
use crate::ports::{PortInterface, Ports};
use crate::routes::file as route_file;
use crate::routes::text::read_text;
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
            tunnels::read(esp, folder, None, base::Nanos::ZERO)?;
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

/// Whether this machine has the interfaces, queues and CPUs of every slice, as the calling thread's
/// network namespace and cpuset show it.
///
/// # Errors
/// The first that is missing, with the slice that names it.
pub fn check_here(file: &ChainFile) -> Result<(), ChainError> {
    let cpus = CpuSet::attainable()?;
    for (number, slice) in file.slices.iter().enumerate() {
        let missing = |why: String| ChainError::Missing { slice: number, why };
        if let Some(cpu) = slice.cpus.iter().find(|cpu| !cpus.contains(**cpu)) {
            let why =
                format!("there is no CPU {cpu} for us: this machine, or our cpuset, has {cpus}");
            return Err(missing(why));
        }
        for port in &slice.ports {
            check_port(port).map_err(missing)?;
        }
    }
    Ok(())
}

/// Whether a port's interface and queue are here; a TAP is made, and a capture has none.
fn check_port(port: &PortSpec) -> Result<(), String> {
    let (PortSpec::Xdp { interface, .. } | PortSpec::AfPacket { interface, .. }) = port else {
        return Ok(());
    };
    let queues = sys::ethtool::channels(interface).map_err(|error| error.to_string())?.rx;
    match port {
        PortSpec::Xdp { queue: Some(queue), .. } if u32::from(queue.0) >= queues => Err(format!(
            "{interface} has no queue {}: it has {queues}, counted from 0; `ethtool -L {interface} \
             combined {}` gives it more, if its driver can",
            queue.0,
            u32::from(queue.0) + 1
        )),
        _ => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(slice: &str) -> String {
        let text = format!("name = \"c\"\n[[slice]]\n{slice}\n[[function]]\nkind = \"router\"\n");
        let file = ChainFile::parse(&text, "c.toml").expect(slice);
        check_here(&file).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn what_a_slice_names_and_this_machine_lacks_is_said_with_the_slice() {
        for (slice, part) in [
            ("ports = [\"xdp:no-such-if0\"]", "no-such-if0"),
            ("ports = [\"xdp:lo@9\"]", "no queue 9"),
            ("ports = [\"xdp:lo\"]\ncpus = [1023]", "no CPU 1023"),
        ] {
            let said = refusal(slice);
            assert!(said.starts_with("slice 0: ") && said.contains(part), "{slice}: {said}");
        }
        assert_eq!(refusal("ports = [\"xdp:lo\"]"), "");
    }
}
