//! `kind = "router"`.

use crate::file::FileError;
use crate::file::section::{Section, number, text};

/// Settings of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterPart {
    /// Where its routes come from.
    pub routes: Routes,
    /// ICMP errors a second, at most; `None`: the router's own default.
    pub icmp_rate: Option<u32>,
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
    let icmp_rate = section.optional("icmp_rate", number(0..=1_000_000))?;
    Ok(RouterPart {
        routes: match routes.as_deref() {
            None | Some("kernel") => Routes::Kernel,
            Some(path) => Routes::File(path.to_owned()),
        },
        icmp_rate: icmp_rate.and_then(|rate| rate.try_into().ok()),
    })
}
