//! Which functions of a chain run in the hook, and why the others do not.
//!
//! From the first function on, as far as the hook has them: what it has is finished there, and what
//! it cannot finish, or a function behind, is the slice's. So every function is in the slice too.

mod stats;

use std::net::IpAddr;
use std::path::Path;

use calisto_nf::Prefix;
use calisto_nf::acl::{Action, Rule};
use port::Filter;
use port::hook::{Exit, HookAcl, HookFunctions, HookRouter, HookRule};
use sys::{interface, netdev};

use crate::figures::PlaceFigures;
use crate::file::{AclPart, ChainFile, FunctionPart};
use crate::ports::{PortInterface, Ports};
use crate::tables::Tables;

pub(crate) use stats::HookStats;

/// What a slice takes, and what is finished before it does: one message to its thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Takes {
    pub(crate) filter: Option<Filter>,
    pub(crate) hook: Option<port::hook::Hook>,
    /// The ports' link addresses, one of which is made a part of each program: with another one it
    /// is made anew.
    pub(crate) macs: Vec<[u8; 6]>,
}

/// A chain as far as the hook has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compiled {
    /// `None`: nothing runs there.
    pub(crate) functions: Option<HookFunctions>,
    /// The link addresses that the ports have now, in their order.
    pub(crate) macs: Vec<[u8; 6]>,
    /// What the rules of each acl in it say, in their order.
    pub(crate) rules: Vec<Vec<String>>,
    /// Where each function of the chain runs, in order.
    pub(crate) places: Vec<PlaceFigures>,
    /// By port, whether packets may leave by it from the hook.
    pub(crate) exits: Vec<PlaceFigures>,
}

/// Compiles the chain for the hook, as this machine and the kernel's tables are now.
pub(crate) fn compile(file: &ChainFile, ports: &Ports, tables: Option<&Tables>) -> Compiled {
    let mut compiled = Compiled::default();
    let mut functions = HookFunctions::default();
    let mut why_not =
        (!file.hook).then(|| "the chain's file does not say hook = \"auto\"".to_owned());
    for function in &file.functions {
        let kind = function.kind();
        let refused = match (&why_not, function) {
            (Some(why), _) => Some(why.clone()),
            (None, FunctionPart::Acl(acl)) => {
                functions.acls.push(acl_of(acl));
                compiled.rules.push(acl.rules.iter().map(help_of).collect());
                too_many(&functions).inspect(|_| drop((functions.acls.pop(), compiled.rules.pop())))
            }
            (None, FunctionPart::Router(_)) => match router_of(ports, tables) {
                Ok((router, exits)) => {
                    functions.router = Some(router);
                    compiled.exits = exits;
                    too_many(&functions).inspect(|_| functions.router = None)
                }
                Err(why) => Some(why),
            },
            (None, _) => Some(format!("the hook has no {kind}")),
        };
        if refused.is_some() && why_not.is_none() {
            why_not = Some(format!("{kind} before it runs in the slice"));
        }
        let (hook, name) = (refused.is_none(), kind.to_owned());
        compiled.places.push(PlaceFigures { name, hook, why: refused });
    }
    let has_any = !functions.acls.is_empty() || functions.router.is_some();
    compiled.functions = has_any.then_some(functions);
    if has_any {
        compiled.macs = macs(ports);
    }
    compiled
}

/// The link addresses of the ports; zeros for one whose interface has gone.
fn macs(ports: &Ports) -> Vec<[u8; 6]> {
    let links = interface::list().unwrap_or_default();
    let mac = |index| links.iter().find(|link| link.index == index).map(|link| link.mac);
    ports.each().map(|(_, port)| mac(port.index).unwrap_or_default()).collect()
}

/// Why one program has no room for the functions.
fn too_many(functions: &HookFunctions) -> Option<String> {
    let rules: usize = functions.acls.iter().map(|acl| acl.rules.len()).sum();
    let router = functions.router.as_ref();
    let ends = router.map_or(0, |router| router.liars.len() + router.exits.len());
    [
        ("rules", rules, HookFunctions::RULES_MAX),
        ("addresses and ports", ends, HookFunctions::ENDS_MAX),
    ]
    .into_iter()
    .find(|(_, count, most)| count > most)
    .map(|(what, count, most)| format!("{count} {what} are more than the {most} of a program"))
}

/// What the counter of a rule is explained with.
fn help_of(rule: &Rule) -> String {
    format!("Packets that met: {rule}.")
}

fn acl_of(acl: &AclPart) -> HookAcl {
    let prefix = |prefix: Prefix| (prefix.address(), prefix.bits());
    let rule = |Rule { action, selector }: &Rule| HookRule {
        denies: *action == Action::Deny,
        source: selector.source.map(prefix),
        destination: selector.destination.map(prefix),
        protocol: selector.protocol,
        source_ports: selector.source_ports.map(|range| (range.first(), range.last())),
        destination_ports: selector.destination_ports.map(|range| (range.first(), range.last())),
    };
    HookAcl { rules: acl.rules.iter().map(rule).collect(), denies: acl.default == Action::Deny }
}

/// The router of the hook and where packets leave from it; or why it is the slice's alone.
fn router_of(
    ports: &Ports,
    tables: Option<&Tables>,
) -> Result<(HookRouter, Vec<PlaceFigures>), String> {
    let tables = tables.filter(|tables| tables.follows_kernel());
    let tables = tables.ok_or("its routes are not the kernel's")?;
    if tables.has_rules() {
        // The kernel's helper follows them, and the slice does not.
        return Err("the kernel has rules of routing".to_owned());
    }
    let interfaces: Vec<&PortInterface> = ports.each().map(|(_, interface)| interface).collect();
    if !interfaces
        .iter()
        .any(|interface| forwards(interface, "ipv4") || forwards(interface, "ipv6"))
    {
        return Err("the kernel, whose tables it asks, forwards nothing that comes by the ports: \
                    see net.ipv4.conf.NAME.forwarding and that of ipv6"
            .to_owned());
    }
    let exits: Vec<(Exit, PlaceFigures)> = interfaces.into_iter().map(exit_of).collect();
    let (exits, places) = exits.into_iter().unzip();
    Ok((HookRouter { liars: tables.liars().collect::<Vec<IpAddr>>(), exits }, places))
}

/// Whether the kernel forwards what comes by an interface: its helper does not answer where it does
/// not.
fn forwards(interface: &PortInterface, family: &str) -> bool {
    let path = Path::new("/proc/sys/net").join(family).join("conf").join(&interface.name);
    std::fs::read_to_string(path.join("forwarding")).is_ok_and(|text| text.trim() != "0")
}

fn exit_of(interface: &PortInterface) -> (Exit, PlaceFigures) {
    let sends = netdev::xdp_features(interface.index).map(|features| features.sends);
    let why = match &sends {
        Ok(true) => None,
        Ok(false) => Some(
            "its driver takes nothing from other drivers' programs (a veth does when `ethtool -K NAME \
             gro on` was said of its other end)"
                .to_owned(),
        ),
        Err(error) => Some(error.to_string()),
    };
    let takes_redirects = sends.is_ok_and(|sends| sends);
    let name = interface.name.clone();
    (
        Exit { index: interface.index, takes_redirects },
        PlaceFigures { name, hook: takes_redirects, why },
    )
}

/// Why nothing is finished in the hook of what comes by an interface.
pub(crate) fn closed(interface: &PortInterface) -> Option<String> {
    let closed: Vec<&str> =
        ["ipv4", "ipv6"].into_iter().filter(|family| !forwards(interface, family)).collect();
    let name = &interface.name;
    (!closed.is_empty()).then(|| {
        format!(
            "the kernel forwards no {} that comes by it (net.{}.conf.{name}.forwarding): that is left \
             to the slice",
            closed.join(" and "),
            closed[0]
        )
    })
}
