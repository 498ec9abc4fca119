//! `kind = "router"`.

use crate::file::FileError;
use crate::file::section::{Section, number, text, word};

/// Settings of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterPart {
    /// Where its routes come from.
    pub routes: Routes,
    /// What becomes of the chain when the tables have no room for a route.
    pub when_full: WhenFull,
    /// What becomes of it when the kernel has rules of routing that it does not follow.
    pub rules: Rules,
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

/// What becomes of a chain whose tables have no room for a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Packets that the route might be for are dropped until there is room.
    #[default]
    Drop,
    /// The chain ends, or does not begin.
    Stop,
}

/// What becomes of a chain where `ip rule` says more than that table `main` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// It does not begin.
    #[default]
    Refuse,
    /// It forwards by table `main` all the same.
    Ignore,
}

const PATH_BYTES_MAX: usize = 4095;

pub(super) fn read(section: &mut Section<'_>) -> Result<RouterPart, FileError> {
    let routes = section.optional("routes", text(PATH_BYTES_MAX))?;
    let when_full = section.optional("when_full", word(&["drop", "stop"]))?;
    let rules = section.optional("rules", word(&["refuse", "ignore"]))?;
    let icmp_per_second = section.optional("icmp_per_second", number(0..=1_000_000))?;
    let icmp_burst = section.optional("icmp_burst", number(0..=1_000_000))?;
    let narrow = |number: Option<u64>| number.and_then(|number| number.try_into().ok());
    Ok(RouterPart {
        routes: match routes.as_deref() {
            None | Some("kernel") => Routes::Kernel,
            Some(path) => Routes::File(path.to_owned()),
        },
        when_full: if when_full == Some(1) { WhenFull::Stop } else { WhenFull::Drop },
        rules: if rules == Some(1) { Rules::Ignore } else { Rules::Refuse },
        icmp_per_second: narrow(icmp_per_second),
        icmp_burst: narrow(icmp_burst),
    })
}
