//! `kind = "nat"`.

use std::net::Ipv4Addr;

use calisto_nf::Prefix;
use calisto_nf::nat::{ADDRESSES_MAX, Filtering, INSIDE_MAX, NatSettings, PORTS_EACH};
use calisto_nf::track::{CONNECTIONS_MAX, TrackSettings};
use toml::de::DeValue;

use super::firewall::interface;
use crate::file::FileError;
use crate::file::section::{Section, Source, flag, list, number, word};
use crate::file::slice::SlicePart;

/// Addresses that are shared, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatPart {
    /// All but the ports outside.
    pub settings: NatSettings,
    /// The interfaces of those.
    pub outside: Vec<String>,
}

const FILTERING: &[&str] = &["address_and_port", "endpoint"];
const PORTS_MAX: usize = 64;

pub(super) fn read(section: &mut Section<'_>) -> Result<NatPart, FileError> {
    let outside =
        section.required("outside", "outside = [\"eth2\"]", list(1..=PORTS_MAX, interface))?;
    let example = "addresses = [\"192.0.2.7\"]";
    let addresses = section.required("addresses", example, list(1..=ADDRESSES_MAX, address))?;
    if let Some(twice) = (1..addresses.len()).find(|at| addresses[..*at].contains(&addresses[*at]))
    {
        let says = format!("names {} twice", addresses[twice]);
        return Err(section.error("addresses", says));
    }
    let inside = section.optional("inside", list(1..=INSIDE_MAX, prefix))?;
    let inside = inside.unwrap_or_else(NatSettings::private);
    let filtering = section.optional("filtering", word(FILTERING))?;
    let ports = u64::from(*PORTS_EACH.start())..=u64::from(*PORTS_EACH.end());
    let ports_each = section.optional("ports_each", number(ports))?.map_or(2048, |n| n as u32);
    let default = NatSettings::track();
    let connections = section.optional("connections", number(1..=CONNECTIONS_MAX as u64))?;
    let unanswered = section.optional("unanswered_each", number(1..=u64::from(u32::MAX)))?;
    // A limit that no subscriber comes near would be none, and so would shares.
    let most = u64::from(u32::MAX) - 1;
    let each = section.optional("connections_each", number(1..=most))?;
    let track = TrackSettings {
        connections_each: each.map_or(default.connections_each, |n| n as u32),
        connections: connections.map_or(default.connections, |n| n as usize),
        unanswered_each: unanswered.map_or(default.unanswered_each, |n| n as u32),
        picks_up: section.optional("picks_up", flag)?.unwrap_or(default.picks_up),
        ..default
    };
    let filtering =
        if filtering == Some(1) { Filtering::Endpoint } else { Filtering::AddressAndPort };
    let settings =
        NatSettings { outside: Vec::new(), addresses, inside, filtering, ports_each, track };
    Ok(NatPart { settings, outside })
}

fn address(value: &DeValue<'_>) -> Result<Ipv4Addr, String> {
    let read = value.as_str().and_then(|text| text.parse::<Ipv4Addr>().ok());
    let read = read.filter(|address| {
        !address.is_loopback() && !address.is_multicast() && !address.is_unspecified()
    });
    read.ok_or_else(|| "an IPv4 address of one host, such as \"192.0.2.7\"".to_owned())
}

fn prefix(value: &DeValue<'_>) -> Result<Prefix, String> {
    let read = value.as_str().and_then(|text| text.parse::<Prefix>().ok());
    let read = read.filter(|prefix| prefix.address().is_ipv4());
    read.ok_or_else(|| "an IPv4 prefix, such as \"10.0.0.0/8\"".to_owned())
}

/// It needs a router, and one slice, to which both directions of all connections come; ports
/// outside are ports of it.
pub(super) fn agree(
    source: &Source<'_>,
    line: usize,
    slices: &[(SlicePart, usize)],
    has_router: bool,
    part: &NatPart,
) -> Result<(), FileError> {
    let refused = |field: &str, says: String| Err(source.error(Some(line), field, says));
    if !has_router {
        return refused(
            "function.kind",
            "is \"nat\", which needs a router: put one at the end of the chain".to_owned(),
        );
    }
    let [(slice, _)] = slices else {
        let says = format!(
            "is \"nat\" over {} slices: an answer comes to another one than its question; give the \
             chain one [[slice]]",
            slices.len()
        );
        return refused("function.kind", says);
    };
    match part.outside.iter().find(|interface| slice.port_number(interface).is_none()) {
        Some(none) => {
            refused("function.outside", format!("names {none:?}, which is no port of the slices"))
        }
        None => Ok(()),
    }
}
