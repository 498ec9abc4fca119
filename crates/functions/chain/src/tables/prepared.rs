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
    pub(super) routes: BTreeMap<Prefix, NextHop>,
    pub(super) following: Option<KernelRoutes>,
    pub(super) rules: Option<Unfollowed>,
}

impl Prepared {
    pub(super) fn read(
        part: &RouterPart,
        folder: &Path,
        ports: &Ports,
    ) -> Result<Self, ChainError> {
        let mut prepared = Self {
            source: "kernel".to_owned(),
            when_full: part.when_full,
            routes: BTreeMap::new(),
            following: None,
            rules: None,
        };
        match &part.routes {
            Routes::Kernel => {
                prepared.rules = Some(Unfollowed::look(part.rules)?);
                let routes = following::dump(ports)?;
                routes.each(|prefix, to| {
                    prepared.routes.insert(prefix, to);
                });
                prepared.following = Some(routes);
            }
            Routes::File(path) => {
                let path = folder.join(path);
                prepared.source = path.display().to_string();
                let text = read_text(&path)?;
                let each = |prefix, to| {
                    prepared.routes.insert(prefix, to);
                };
                file::read(&text, &prepared.source, ports, each, |_| {})?;
            }
        }
        prepared.refuse_too_many()?;
        Ok(prepared)
    }

    /// Whether there is room for them where a chain is to stop without.
    fn refuse_too_many(&self) -> Result<(), ChainError> {
        if self.when_full == WhenFull::Drop {
            return Ok(());
        }
        let mut rib = Rib::new();
        let mut load = self.routes.iter().map(|(prefix, to)| rib.load(*prefix, *to));
        let full = load.find_map(Result::err);
        let refused = |error| ChainError::Tables { routes: self.source.clone(), error };
        full.map(refused).map_or(Ok(()), Err)
    }
}
