//! Whether a chain's file and the files that it names are right, without opening a port.

use std::path::Path;

use calisto_nf::Prefix;
use port::PortSpec;
use sys::cpu_set::CpuSet;

use crate::error::ChainError;
use crate::file::{ChainFile, FunctionPart, Routes};
use crate::ports::{PortInterface, Ports};
use crate::runner;
use crate::tables::Prepared;

/// What was found in files that are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// IPv4 routes of its file of routes.
    pub ipv4_routes: usize,
    /// IPv6 routes of the same.
    pub ipv6_routes: usize,
}

/// Reads every file that `file` names, relative to `folder`, and makes of it what can be made
/// without a port.
///
/// # Errors
/// The first thing that is wrong: what [`Chain::start`](crate::Chain::start) would refuse on
/// whatever machine.
pub fn check(file: &ChainFile, folder: &Path) -> Result<Checked, ChainError> {
    let ports = named_ports(file);
    runner::try_out(file, folder, &ports)?;
    let mut checked = Checked::default();
    for function in &file.functions {
        if let FunctionPart::Router(router) = function
            && matches!(router.routes, Routes::File(_))
        {
            let routes = Prepared::read(router, folder, &ports, false)?;
            let is_ipv4 = |prefix: &&Prefix| prefix.address().is_ipv4();
            checked.ipv4_routes += routes.prefixes().filter(is_ipv4).count();
            checked.ipv6_routes += routes.prefixes().filter(|prefix| !is_ipv4(prefix)).count();
        }
    }
    Ok(checked)
}

/// Whether this machine has the interfaces, queues and CPUs of every slice, as the calling thread's
/// network namespace and cpuset show it, the libraries that its functions load, and room for the
/// filter of an acl that guards this host.
///
/// # Errors
/// The first that is missing, with the slice that names it.
pub fn check_here(file: &ChainFile) -> Result<(), ChainError> {
    runner::has_libraries(file)?;
    // With rules that guard this host it is as long as there are addresses to guard.
    runner::default_filter(file, &mut |_| {})?;
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

    /// What is said of a chain of a slice and a function, wherever it is to run.
    fn anywhere(slice: &str, function: &str) -> String {
        let text = format!("name = \"c\"\n[[slice]]\n{slice}\n[[function]]\n{function}\n");
        let file = ChainFile::parse(&text, "c.toml").expect(slice);
        let checked = check(&file, Path::new("/"));
        checked.map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_refused_before_there_is_a_port() {
        let router = "kind = \"router\"";
        let ports = "ports = [\"xdp:no-such-if0\"]";
        let said = anywhere(&format!("{ports}\nfilter = \"prot udp\""), router);
        assert!(said.contains("prot udp") && said.contains("syntax"), "{said}");
        assert_eq!(anywhere(&format!("{ports}\nfilter = \"udp\""), router), "");
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
