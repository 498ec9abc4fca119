//! `kind = "tunnel"`.

use std::net::IpAddr;

use calisto_nf::Prefix;
use calisto_nf::tunnel::{
    BadTunnel, Kind, MTU_MIN_IPV4, NETWORKS_MAX, TUNNELS_MAX, Tunnel, TunnelSettings,
};
use toml::de::DeValue;

use crate::file::FileError;
use crate::file::section::{Section, Source, list, number, word};

/// Tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelPart {
    /// In the order in which they are looked at.
    pub tunnels: Vec<TunnelSettings>,
}

const KINDS: &[&str] = &["ipip", "gre"];
/// One of each IP version.
const ADDRESSES_MAX: usize = 2;

pub(super) fn read(section: &mut Section<'_>) -> Result<TunnelPart, FileError> {
    let (tunnels, lines): (Vec<TunnelSettings>, Vec<usize>) =
        section.sections("tunnels", 1..=TUNNELS_MAX, tunnel)?.into_iter().unzip();
    Tunnel::new(&tunnels).map_err(|BadTunnel { index, why }| {
        section.error_at(lines.get(index).copied(), "tunnels", why.to_owned())
    })?;
    Ok(TunnelPart { tunnels })
}

fn tunnel(section: &mut Section<'_>) -> Result<TunnelSettings, FileError> {
    let kind = section.required("kind", "kind = \"gre\"", word(KINDS))?;
    let local = section.required("local", "local = \"192.0.2.1\"", address)?;
    let remote = section.required("remote", "remote = \"198.51.100.1\"", address)?;
    let example = "networks = [\"10.2.0.0/16\"]";
    let networks = section.required("networks", example, list(1..=NETWORKS_MAX, prefix))?;
    let key = section.optional("key", number(0..=u64::from(u32::MAX)))?;
    let mtu = section.optional("mtu", number(u64::from(MTU_MIN_IPV4)..=u64::from(u16::MAX)))?;
    let addresses = section.optional("address", list(1..=ADDRESSES_MAX, address))?;
    Ok(TunnelSettings {
        kind: if kind == 1 { Kind::Gre } else { Kind::Ipip },
        local,
        remote,
        networks,
        // The ranges above are those of the types.
        key: key.and_then(|key| key.try_into().ok()),
        mtu: mtu.and_then(|mtu| mtu.try_into().ok()).unwrap_or(1500),
        addresses: addresses.unwrap_or_default(),
    })
}

fn address(value: &DeValue<'_>) -> Result<IpAddr, String> {
    let read = value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
    let is_of_a_host = |address: &IpAddr| {
        !address.is_loopback() && !address.is_multicast() && !address.is_unspecified()
    };
    read.filter(is_of_a_host).ok_or_else(|| {
        "an address of one host, such as \"192.0.2.1\" or \"2001:db8::1\"".to_owned()
    })
}

fn prefix(value: &DeValue<'_>) -> Result<Prefix, String> {
    let read = value.as_str().and_then(|text| text.parse().ok());
    read.ok_or_else(|| "a network, such as \"10.2.0.0/16\"".to_owned())
}

/// What comes out of a tunnel, and goes in, is sent on by a router.
pub(super) fn agree(source: &Source<'_>, line: usize, has_router: bool) -> Result<(), FileError> {
    if has_router {
        return Ok(());
    }
    let says = "is \"tunnel\", which needs a router: put one at the end of the chain".to_owned();
    Err(source.error(Some(line), "function.kind", says))
}
