//! `calisto nf show`: where the functions of running chains run, and why.

use std::path::Path;

use chain::figures::{Figures, HookFigures, PlaceFigures};
use chain::socket;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Show where the functions of running chains run: in the XDP hook of the ports or in slices, and
/// why.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto nf show             every chain of this host\n  \
    calisto nf show edge -j     one of them, for a script")]
pub(crate) struct Show {
    /// The chain's name; without it: all that run.
    name: Option<String>,
}

/// What `-j` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema_version: u32,
    name: &'a str,
    #[serde(flatten)]
    hook: &'a HookFigures,
}

impl Show {
    pub(crate) fn run(&self, sockets: &Path, json: bool) -> Result<(), Failure> {
        for path in super::stats::paths(sockets, self.name.as_deref())? {
            let figures = socket::ask(&path).map_err(Failure::new)?;
            if json {
                let Figures { name, hook, .. } = &figures;
                output::json(&Report { schema_version: 1, name, hook })?;
            } else {
                output::text(&render(&figures))?;
            }
        }
        Ok(())
    }
}

/// The places for people.
pub(super) fn render(figures: &Figures) -> String {
    let HookFigures { functions, entries, exits } = &figures.hook;
    let mut table = Table::new(["", "", "runs in", "why"]);
    let mut add = |what: &str, places: &[PlaceFigures], words: [&'static str; 2]| {
        for PlaceFigures { name, hook, why } in places {
            let place = words[usize::from(*hook)];
            let why = why.as_deref().unwrap_or_default();
            table.row([what.into(), name.as_str().into(), place.into(), why.into()]);
        }
    };
    add("function", functions, ["slice", "hook, and slice for the rest"]);
    add("in by", entries, ["slice", "hook first"]);
    add("out by", exits, ["slice only", "hook and slice"]);
    format!("chain {}, process {}\n{}", figures.name, figures.pid, table.render())
}
