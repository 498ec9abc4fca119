//! `kind = "l2"`.

use toml::de::DeValue;

use crate::file::FileError;
use crate::file::section::{Section, Source, list, text};
use crate::file::slice::SlicePart;

/// Settings of a wire between ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L2Part {
    /// The interfaces that are joined, in both directions.
    pub links: Vec<LinkPart>,
    /// The source address of frames that leave by an interface.
    pub source: Vec<(String, [u8; 6])>,
    /// The destination address of frames that leave by an interface.
    pub destination: Vec<(String, [u8; 6])>,
}

/// Two interfaces that are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPart(pub String, pub String);

const NAME_BYTES_MAX: usize = sys::interface::NAME_BYTES_MAX;

pub(super) fn read(section: &mut Section<'_>) -> Result<L2Part, FileError> {
    let link = |value: &DeValue<'_>| {
        let names = list(2..=2, text(NAME_BYTES_MAX))(value);
        let [one, other] = names
            .ok()
            .and_then(|names| <[String; 2]>::try_from(names).ok())
            .ok_or_else(|| "two interfaces, such as [\"eth0\", \"eth1\"]".to_owned())?;
        Ok(LinkPart(one, other))
    };
    Ok(L2Part {
        links: section.required("links", "links = [[\"eth0\", \"eth1\"]]", list(1..=32, link))?,
        source: section.optional("source", addresses)?.unwrap_or_default(),
        destination: section.optional("destination", addresses)?.unwrap_or_default(),
    })
}

/// `{ eth1 = "02:00:00:00:00:01" }`.
fn addresses(value: &DeValue<'_>) -> Result<Vec<(String, [u8; 6])>, String> {
    let wrong =
        || "link addresses by interface, such as { eth1 = \"02:00:00:00:00:01\" }".to_owned();
    let table = value.as_table().ok_or_else(wrong)?;
    let entry = |(name, value): (&toml::Spanned<toml::de::DeString<'_>>, _)| {
        let value: &toml::Spanned<DeValue<'_>> = value;
        let address = value.get_ref().as_str().and_then(link_address).ok_or_else(wrong)?;
        Ok((name.get_ref().to_string(), address))
    };
    table.iter().map(entry).collect()
}

/// Six bytes in hexadecimal with colons.
fn link_address(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut address {
        let part = parts.next().filter(|part| part.len() == 2)?;
        let is_hex = part.bytes().all(|digit| digit.is_ascii_hexdigit());
        *byte = is_hex.then(|| u8::from_str_radix(part, 16).ok())??;
    }
    parts.next().is_none().then_some(address)
}

/// Every interface that is named is a port, and none is in two pairs.
pub(super) fn agree(
    source: &Source<'_>,
    line: usize,
    slice: &SlicePart,
    l2: &L2Part,
) -> Result<(), FileError> {
    let wrong = |key: &str, says| Err(source.error(Some(line), &format!("function.{key}"), says));
    let mut joined: Vec<&str> = Vec::new();
    for name in l2.links.iter().flat_map(|LinkPart(one, other)| [one, other]) {
        if joined.contains(&name.as_str()) {
            let says = format!("has {name} twice: a port is joined to one other");
            return wrong("links", says);
        }
        joined.push(name);
    }
    let sources = l2.source.iter().map(|(name, _)| ("source", name));
    let destinations = l2.destination.iter().map(|(name, _)| ("destination", name));
    let links = l2.links.iter().flat_map(|link| [("links", &link.0), ("links", &link.1)]);
    for (key, name) in links.chain(sources).chain(destinations) {
        if slice.port_number(name).is_none() {
            let ports = slice.ports.iter().filter_map(|port| port.interface());
            let says = format!(
                "names {name:?}, which is no port of the slices: those are {}",
                ports.collect::<Vec<_>>().join(", ")
            );
            return wrong(key, says);
        }
    }
    for (name, address) in &l2.source {
        if address[0] & 1 == 1 {
            let says = format!("of {name} is a group address, which nobody can send from");
            return wrong("source", says);
        }
    }
    Ok(())
}
