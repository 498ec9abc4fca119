//! Routes that are to take the place of those there are.

use std::collections::BTreeMap;
use std::path::Path;

use calisto_nf::{NextHop, Prefix, Rib};

use super::following;
use super::rules::Unfollowed;
use crate::error::ChainError;
use crate::file::{RouterPart, Routes, WhenFull};
use crate::ports::Ports;
use crate::routes::file;
use crate::routes::kernel::KernelRoutes;
use crate::routes::text::read_text;

/// All that can be wrong with them is not.
pub(crate) struct Prepared {
    pub(super) source: String,
    pub(super) when_full: WhenFull,
    /// Which they are, and the kernel's entries behind them; `None`: the kernel is followed as
    /// before.
    pub(super) routes: Option<(BTreeMap<Prefix, NextHop>, Option<KernelRoutes>)>,
    pub(super) rules: Option<Unfollowed>,
}

impl Prepared {
    /// Reads them. Nothing is asked of the kernel where they stand in a file.
    ///
    /// # Errors
    /// The file is wrong or the kernel fails; or there are too many, and the chain is to stop then.
    pub(crate) fn read(
        part: &RouterPart,
        folder: &Path,
        ports: &Ports,
        follows_kernel: bool,
    ) -> Result<Self, ChainError> {
        let mut prepared = Self {
            source: "kernel".to_owned(),
            when_full: part.when_full,
            routes: None,
            rules: None,
        };
        let mut routes = BTreeMap::new();
        match &part.routes {
            Routes::Kernel => {
                prepared.rules = Some(Unfollowed::look(part.rules)?);
                if !follows_kernel {
                    let entries = following::dump(ports)?;
                    entries.each(|prefix, to| {
                        routes.insert(prefix, to);
                    });
                    prepared.refuse_too_many(&routes)?;
                    prepared.routes = Some((routes, Some(entries)));
                }
            }
            Routes::File(path) => {
                let path = folder.join(path);
                prepared.source = path.display().to_string();
                let text = read_text(&path)?;
                let each = |prefix, to| {
                    routes.insert(prefix, to);
                };
                file::read(&text, &prepared.source, ports, each, |_| {})?;
                prepared.refuse_too_many(&routes)?;
                prepared.routes = Some((routes, None));
            }
        }
        Ok(prepared)
    }

    /// Which routes there are.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &Prefix> {
        self.routes.iter().flat_map(|(routes, _)| routes.keys())
    }

    /// Whether there is room for them where a chain is to stop without.
    fn refuse_too_many(&self, routes: &BTreeMap<Prefix, NextHop>) -> Result<(), ChainError> {
        if self.when_full == WhenFull::Drop {
            return Ok(());
        }
        let mut rib = Rib::new();
        let mut load = routes.iter().map(|(prefix, to)| rib.load(*prefix, *to));
        let full = load.find_map(Result::err);
        let refused = |error| ChainError::Tables { routes: self.source.clone(), error };
        full.map(refused).map_or(Ok(()), Err)
    }
}
