//! What the functions of a chain's file want of the packets of a host, as a filter.

use std::collections::BTreeSet;
use std::net::IpAddr;

use port::{Filter, FilterError};

use super::{
    ADDRESSES_MAX, INSTRUCTIONS_MAX, IPV6_ADDRESSES_MAX, OwnPackets, RouterFilter, of_router,
};
use crate::error::ChainError;
use crate::file::{AclPart, ChainFile, FunctionPart};

/// Rules of guards, at most: twice as many instructions are all that there is room for.
const RULES_MAX: usize = INSTRUCTIONS_MAX / 2;

/// The filter of a chain with a router on a host with these addresses; `None`: there are too many.
pub(crate) fn filter_of(
    file: &ChainFile,
    own: impl Iterator<Item = IpAddr>,
) -> Option<RouterFilter> {
    let taken = taken(file);
    let own: Vec<IpAddr> = own.filter(|address| !taken.contains(address)).collect();
    of_router(&own, own_packets(file), &guards(file))
}

fn own_packets(file: &ChainFile) -> OwnPackets {
    OwnPackets { esp: has(file, "esp"), tunnels: has(file, "tunnel") }
}

/// Whether chains of both files want the same packets, whatever addresses there are.
pub(crate) fn wants_as(one: &ChainFile, other: &ChainFile) -> bool {
    let wanted = |file| (taken(file), own_packets(file));
    wanted(one) == wanted(other) && guards(one) == guards(other)
}

/// Compiles the filter of a chain.
///
/// # Errors
/// It is too long for whoever is to run it.
pub(crate) fn compile(file: &ChainFile, wanted: &RouterFilter) -> Result<Filter, ChainError> {
    let failed = |why| ChainError::Function { kind: "acl", why };
    // The library takes long over this many, and its memory ends at some more.
    if wanted.rules > RULES_MAX {
        return Err(failed(format!(
            "with `host = \"judge\"` packets for this host meet {} rules, and the {INSTRUCTIONS_MAX} \
             instructions of a filter have room for {RULES_MAX} at most",
            wanted.rules
        )));
    }
    match (Filter::compile(&wanted.expression), is_guarded(file)) {
        (Ok(filter), _) => unguarded(file, &filter).map_or(Ok(filter), |why| Err(failed(why))),
        // The rules have made it what it is.
        (Err(FilterError::Program { reason, .. }), true) => Err(failed(format!(
            "with `host = \"judge\"` its rules and this host's addresses make no filter: {reason}: \
             have fewer rules that packets for this host meet"
        ))),
        (Err(error), _) => Err(ChainError::Reload(error.to_string())),
    }
}

/// What is said where there is none.
pub(crate) fn too_many_addresses(file: &ChainFile) -> String {
    match is_guarded(file) {
        true => format!(
            "this host has more than {ADDRESSES_MAX} addresses, or {IPV6_ADDRESSES_MAX} of IPv6, too \
             many for a filter that guards it: leave `host = \"judge\"` out, and guard it by nftables"
        ),
        false => format!(
            "this host has more than {ADDRESSES_MAX} addresses, too many to follow in a filter: write \
             `filter` in each [[slice]]"
        ),
    }
}

/// What is said of a filter for whose second half there is no room.
pub(crate) fn note_of(filter: &RouterFilter) -> Option<String> {
    (!filter.reads_tags).then(|| {
        format!(
            "this host has more than {IPV6_ADDRESSES_MAX} addresses of IPv6: frames with a tag that \
             names no VLAN are left to the kernel, and where that forwards they pass by the chain's \
             functions"
        )
    })
}

/// Whether an acl is for what is for this host, too.
pub(crate) fn is_guarded(file: &ChainFile) -> bool {
    !guards(file).is_empty()
}

/// Rules that are for this host too.
fn guards(file: &ChainFile) -> Vec<&AclPart> {
    let acls = file.functions.iter().filter_map(|function| match function {
        FunctionPart::Acl(acl) => Some(acl),
        _ => None,
    });
    acls.filter(|acl| acl.guards_host).collect()
}

/// Why a filter cannot guard the host: rules, or addresses that they are held against, are too
/// many.
fn unguarded(file: &ChainFile, filter: &Filter) -> Option<String> {
    let (bytes, most) = (filter.program().len(), INSTRUCTIONS_MAX);
    (bytes > most && is_guarded(file)).then(|| {
        format!(
            "with `host = \"judge\"` its rules and this host\'s addresses make a filter of {bytes} \
             instructions, and {most} are the most: have fewer rules that packets for this host meet"
        )
    })
}

/// Addresses that are the chain's, whether this host has them too or not.
pub(crate) fn taken(file: &ChainFile) -> BTreeSet<IpAddr> {
    let of_function = |function: &FunctionPart| match function {
        FunctionPart::Nat(nat) => nat.settings.addresses.clone(),
        FunctionPart::Balancer(part) => {
            part.settings.services.iter().map(|service| *service.address.ip()).collect()
        }
        _ => Vec::new(),
    };
    file.functions.iter().flat_map(of_function).map(IpAddr::V4).collect()
}

/// Whether the chain has a function of that kind.
pub(crate) fn has(file: &ChainFile, kind: &str) -> bool {
    file.functions.iter().any(|function| function.kind() == kind)
}
