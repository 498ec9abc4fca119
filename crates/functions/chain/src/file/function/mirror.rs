//! `kind = "mirror"`.

use base::PortId;
use calisto_nf::mirror::{BYTES_MAX, EVERY_MAX, MirrorSettings};
use calisto_nf::{Mirror, Selector};

use super::firewall::interface;
use super::selector;
use crate::file::FileError;
use crate::file::section::{Section, Source, number};
use crate::file::slice::SlicePart;

/// Which packets are copied, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorPart {
    /// The interface by which copies leave.
    pub to: String,
    /// One of how many packets is copied.
    pub every: u32,
    /// Bytes of the longest copy.
    pub bytes: usize,
    /// Which packets.
    pub selector: Selector,
}

/// Bytes of a copy, at least: the headers that anybody would look at.
const BYTES_MIN: u64 = 64;

pub(super) fn read(section: &mut Section<'_>) -> Result<MirrorPart, FileError> {
    let to = section.required("to", "to = \"eth3\"", interface)?;
    let every = section.optional("every", number(1..=u64::from(EVERY_MAX)))?;
    let bytes = section.optional("bytes", number(BYTES_MIN..=BYTES_MAX as u64))?;
    let selector = selector::read(section)?;
    // Whether any packet can be like that.
    let as_such = MirrorSettings { to: PortId(0), every: 1, bytes: 1, selector, seed: 0 };
    Mirror::new(&as_such).map_err(|wrong| section.error("source", wrong.to_string()))?;
    Ok(MirrorPart {
        to,
        every: every.map_or(1, |every| every as u32),
        bytes: bytes.map_or(BYTES_MAX, |bytes| bytes as usize),
        selector,
    })
}

/// Copies leave by a port of the chain.
pub(super) fn agree(
    source: &Source<'_>,
    line: usize,
    slice: &SlicePart,
    part: &MirrorPart,
) -> Result<(), FileError> {
    match slice.port_number(&part.to) {
        Some(_) => Ok(()),
        None => {
            let says = format!("is {:?}, which is no port of the slices", part.to);
            Err(source.error(Some(line), "function.to", says))
        }
    }
}
