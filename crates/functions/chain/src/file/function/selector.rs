//! Which packets a rule or a class is about: the keys that both have.

use calisto_nf::{PortRange, Prefix, Selector};
use toml::de::DeValue;

use crate::file::FileError;
use crate::file::section::{Section, number, parsed};

/// Protocols that have names here (IANA's protocol numbers).
const PROTOCOLS: &[(&str, u8)] =
    &[("icmp", 1), ("tcp", 6), ("udp", 17), ("esp", 50), ("icmpv6", 58), ("sctp", 132)];

pub(super) fn read(section: &mut Section<'_>) -> Result<Selector, FileError> {
    let prefix = || {
        let read = |text: &str| text.parse::<Prefix>().map_err(|wrong| wrong.to_string());
        parsed(read, "a prefix, such as \"10.0.0.0/8\"")
    };
    Ok(Selector {
        source: section.optional("source", prefix())?,
        destination: section.optional("destination", prefix())?,
        protocol: section.optional("protocol", protocol)?,
        source_ports: section.optional("source_port", ports)?,
        destination_ports: section.optional("destination_port", ports)?,
    })
}

/// A name, or a number.
fn protocol(value: &DeValue<'_>) -> Result<u8, String> {
    let of_name = |name: &str| PROTOCOLS.iter().find(|(known, _)| *known == name).map(|(_, n)| *n);
    let of_number = || number(0..=255)(value).ok().and_then(|number| u8::try_from(number).ok());
    value.as_str().and_then(of_name).or_else(of_number).ok_or_else(|| {
        let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
        format!("{}, or a number from 0 to 255", names.join(", "))
    })
}

/// A port, or a range of them.
fn ports(value: &DeValue<'_>) -> Result<PortRange, String> {
    let single = || {
        let port = u16::try_from(number(0..=65_535)(value).ok()?).ok()?;
        PortRange::new(port, port)
    };
    let range = || value.as_str()?.parse().ok();
    range()
        .or_else(single)
        .ok_or_else(|| "a port from 0 to 65535, or a range such as \"8000-8080\"".to_owned())
}
