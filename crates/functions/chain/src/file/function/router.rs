//! `kind = "router"`.

use crate::file::FileError;
use crate::file::section::{Section, number, text};

/// Settings of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterPart {
    /// Where its routes come from.
    pub routes: Routes,
    /// Error messages a second, all senders together; `None`: the router's own default.
    pub icmp_per_second: Option<u32>,
    /// Error messages at once after a pause; the same.
    pub icmp_burst: Option<u32>,
}

/// Where a router's routes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routes {
    /// The kernel's main table, followed as it changes.
    Kernel,
    /// A file of routes, one a line; relative to the folder of the chain's file.
    File(String),
}

const PATH_BYTES_MAX: usize = 4095;

pub(super) fn read(section: &mut Section<'_>) -> Result<RouterPart, FileError> {
    let routes = section.optional("routes", text(PATH_BYTES_MAX))?;
    let icmp_per_second = section.optional("icmp_per_second", number(0..=1_000_000))?;
    let icmp_burst = section.optional("icmp_burst", number(0..=1_000_000))?;
    let narrow = |number: Option<u64>| number.and_then(|number| number.try_into().ok());
    Ok(RouterPart {
        routes: match routes.as_deref() {
            None | Some("kernel") => Routes::Kernel,
            Some(path) => Routes::File(path.to_owned()),
        },
        icmp_per_second: narrow(icmp_per_second),
        icmp_burst: narrow(icmp_burst),
    })
}
